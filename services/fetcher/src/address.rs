//! Addresses that may be dialled: global unicast only, by a table of the exceptions.
//!
//! Sources: IANA IPv4 Special-Purpose Address Registry, IANA IPv6 Special-Purpose Address Registry (RFC 6890, RFC
//! 8190), IANA IPv4 Multicast Address Space Registry (RFC 5771), IANA IPv6 Global Unicast Address Assignments
//! (2000::/3). Blocks that the registries mark as globally reachable for a single protocol only (192.0.0.9/32,
//! 192.0.0.10/32, parts of 2001::/23) are refused with the block around them: they host no web sites.

mod networks;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use networks::{Network, NetworkError, Networks};

/// A refused block of IPv4 addresses: first address, prefix length, purpose.
type BlockV4 = (Ipv4Addr, u32, &'static str);
/// A refused block of IPv6 addresses: first address, prefix length, purpose.
type BlockV6 = (Ipv6Addr, u32, &'static str);

/// Refused IPv4 blocks.
const REFUSED_V4: [BlockV4; 17] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8, "this network, RFC 791"),
    (Ipv4Addr::new(10, 0, 0, 0), 8, "private use, RFC 1918"),
    (Ipv4Addr::new(100, 64, 0, 0), 10, "shared address space of carriers, RFC 6598"),
    (Ipv4Addr::new(127, 0, 0, 0), 8, "loopback, RFC 1122"),
    (Ipv4Addr::new(169, 254, 0, 0), 16, "link local and cloud metadata, RFC 3927"),
    (Ipv4Addr::new(172, 16, 0, 0), 12, "private use, RFC 1918"),
    (Ipv4Addr::new(192, 0, 0, 0), 24, "IETF protocol assignments, RFC 6890"),
    (Ipv4Addr::new(192, 0, 2, 0), 24, "documentation, RFC 5737"),
    (Ipv4Addr::new(192, 31, 196, 0), 24, "AS112, RFC 7535"),
    (Ipv4Addr::new(192, 52, 193, 0), 24, "AMT, RFC 7450"),
    (Ipv4Addr::new(192, 88, 99, 0), 24, "6to4 relays, deprecated, RFC 7526"),
    (Ipv4Addr::new(192, 168, 0, 0), 16, "private use, RFC 1918"),
    (Ipv4Addr::new(192, 175, 48, 0), 24, "AS112, RFC 7534"),
    (Ipv4Addr::new(198, 18, 0, 0), 15, "benchmarking, RFC 2544"),
    (Ipv4Addr::new(198, 51, 100, 0), 24, "documentation, RFC 5737"),
    (Ipv4Addr::new(203, 0, 113, 0), 24, "documentation, RFC 5737"),
    // 224.0.0.0/4 and the adjacent 240.0.0.0/4, whose last address is the limited broadcast address.
    (Ipv4Addr::new(224, 0, 0, 0), 3, "multicast, reserved and broadcast, RFC 5771, RFC 1112, RFC 919"),
];

/// Refused IPv6 blocks within 2000::/3; all addresses outside of it are refused.
const REFUSED_V6: [BlockV6; 5] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "IETF protocol assignments, with Teredo, RFC 2928"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation, RFC 3849"),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, "6to4, RFC 3056"),
    (Ipv6Addr::new(0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0), 48, "AS112, RFC 7534"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation, RFC 9637"),
];

const MAPPED: BlockV6 = (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, "IPv4-mapped, RFC 4291");
const NAT64: BlockV6 = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96, "NAT64, RFC 6052");
const GLOBAL_UNICAST: BlockV6 = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, "global unicast, RFC 4291");

/// Returns the reason why an address must not be dialled; `None` if it may be.
pub(crate) fn refusal(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => refusal_v4(address),
        IpAddr::V6(address) => refusal_v6(address),
    }
}

fn refusal_v4(address: Ipv4Addr) -> Option<&'static str> {
    let within = |&&(start, prefix, _): &&BlockV4| is_within_v4(address, (start, prefix));
    REFUSED_V4.iter().find(within).map(|(_, _, reason)| *reason)
}

fn refusal_v6(address: Ipv6Addr) -> Option<&'static str> {
    if let Some(destination) = embedded_v4(address) {
        return refusal_v4(destination);
    }
    let within = |&&(start, prefix, _): &&BlockV6| is_within_v6(address, (start, prefix));
    if !within(&&GLOBAL_UNICAST) {
        return Some("not global unicast: loopback, link local, unique local, multicast or unassigned, RFC 4291");
    }
    REFUSED_V6.iter().find(within).map(|(_, _, reason)| *reason)
}

/// Returns the IPv4 address to which the packets for an IPv6 address go: its last 32 bits, if it contains one.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let within = |(start, prefix, _): BlockV6| is_within_v6(address, (start, prefix));
    let [.., a, b, c, d] = address.octets();
    (within(MAPPED) || within(NAT64)).then(|| Ipv4Addr::new(a, b, c, d))
}

/// Returns `true` if an address is in the block with this first address and prefix length.
fn is_within_v4(address: Ipv4Addr, (first, prefix): (Ipv4Addr, u32)) -> bool {
    // A shift by all bits, for the prefix length 0, compares nothing.
    (address.to_bits() ^ first.to_bits()).checked_shr(32 - prefix).unwrap_or(0) == 0
}

fn is_within_v6(address: Ipv6Addr, (first, prefix): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ first.to_bits()).checked_shr(128 - prefix).unwrap_or(0) == 0
}

/// Ports that are never requested, in ascending order: they belong to other protocols, whose servers could interpret a
/// request as commands. Source: "bad port" of the WHATWG Fetch standard, as implemented by browsers.
const BAD_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
    110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
    532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
    5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// Returns `true` for a URL whose port is never requested.
pub(crate) fn has_bad_port(url: &orbweaver_url::Url) -> bool {
    url.port().is_some_and(|port| BAD_PORTS.binary_search(&port).is_ok())
}

/// Returns `true` if the host of a URL is an address, rather than a name, that must not be dialled: it is neither public
/// nor in one of the networks.
pub(crate) fn is_private(url: &orbweaver_url::Url, networks: &Networks) -> bool {
    let address = match url.host() {
        Some(url::Host::Ipv4(address)) => IpAddr::V4(address),
        Some(url::Host::Ipv6(address)) => IpAddr::V6(address),
        Some(url::Host::Domain(_)) | None => return false,
    };
    refusal(address).is_some() && !networks.contains(address)
}

/// Returns `true` for a name of this machine, regardless of name servers: `localhost` and its subdomains (RFC 6761
/// section 6.3).
pub(crate) fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.rsplit('.').next().is_some_and(|label| label.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod hostile_urls;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_other_protocols_are_bad_and_those_of_the_web_are_not() {
        assert!(BAD_PORTS.is_sorted());
        let is_bad = |url: &str| has_bad_port(&url.parse().unwrap());
        for url in ["http://a.example:25/", "https://a.example:22/", "http://a.example:0/", "http://a.example:10080/"] {
            assert!(is_bad(url), "{url}");
        }
        for url in ["http://a.example/", "https://a.example:443/", "http://a.example:8080/", "https://a.example:80/"] {
            assert!(!is_bad(url), "{url}");
        }
    }

    #[test]
    fn every_refused_block_is_refused_to_its_edges_and_no_further() {
        for (start, prefix, _) in REFUSED_V4 {
            let (first, last) = (start.to_bits(), start.to_bits() | (u32::MAX >> prefix));
            for within in [first, last] {
                assert!(refusal(Ipv4Addr::from_bits(within).into()).is_some(), "{start}/{prefix}");
            }
            // No two blocks touch.
            for beyond in [first.checked_sub(1), last.checked_add(1)].into_iter().flatten().map(Ipv4Addr::from_bits) {
                assert_eq!(refusal(beyond.into()), None, "{beyond}");
            }
        }
        for allowed in [[1, 0, 0, 0], [8, 8, 8, 8], [93, 184, 216, 34]] {
            assert_eq!(refusal(allowed.into()), None, "{allowed:?}");
        }
    }

    #[test]
    fn ipv6_is_dialled_only_where_it_is_global_and_hides_no_refused_ipv4() {
        for refused in [
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001:0:7f00:1::",
            "2001:1ff:ffff::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
            "100::1",
            "2001:db8::1",
            "3fff:fff::1",
            "5f00::1",
            "2620:4f:8000::1",
            "4000::",
        ] {
            assert!(refusal(refused.parse().unwrap()).is_some(), "{refused}");
        }
        for allowed in
            ["2606:4700::1111", "2001:4860:4860::8888", "2a00::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2001:200::1"]
        {
            assert_eq!(refusal(allowed.parse().unwrap()), None, "{allowed}");
        }
    }

    #[test]
    fn every_spelling_of_a_literal_is_seen_as_the_address_that_it_is() {
        for spelling in
            ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "127%2e0%2e0%2e1", "[::ffff:127.0.0.1]"]
        {
            let url = orbweaver_url::Url::parse(&format!("http://{spelling}/")).unwrap();
            assert!(is_private(&url, &Networks::default()), "{spelling}");
        }
    }

    #[test]
    fn names_of_this_machine_are_known_whatever_their_case() {
        for name in ["localhost", "localhost.", "LOCALHOST", "a.localhost", "a.b.LocalHost."] {
            assert!(is_localhost(name), "{name}");
        }
        for name in ["", "localhost.com", "notlocalhost", "ölocalhost", "local"] {
            assert!(!is_localhost(name), "{name}");
        }
    }
}
