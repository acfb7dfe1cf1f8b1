use proptest::prelude::*;

use super::*;
use crate::address::{is_private, refusal};

fn networks(texts: &[&str]) -> Networks {
    let networks: Networks = texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>().into();
    assert_eq!(networks.conflict(), None);
    networks
}

#[test]
fn a_network_contains_its_addresses_to_its_edges_and_no_others() {
    let permitted = networks(&["10.1.0.0/16", "127.0.0.1", "192.168.0.0/30", "fd00::/8", "::1/128"]);
    for within in [
        "10.1.0.0",
        "10.1.255.255",
        "127.0.0.1",
        "192.168.0.3",
        "::ffff:10.1.2.3",
        "64:ff9b::10.1.2.3",
        "fd00::",
        "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "::1",
    ] {
        assert!(permitted.contains(within.parse().unwrap()), "{within}");
    }
    for beyond in [
        "10.0.255.255",
        "10.2.0.0",
        "127.0.0.0",
        "127.0.0.2",
        "192.168.0.4",
        "169.254.169.254",
        "::ffff:10.2.0.0",
        "64:ff9b::127.0.0.2",
        "fc00::",
        "fe80::1",
        "::",
        "::2",
        "::10.1.2.3",
    ] {
        assert!(!permitted.contains(beyond.parse().unwrap()), "{beyond}");
    }
    assert!(!Networks::default().contains([127, 0, 0, 1].into()), "by default there are none");
}

#[test]
fn the_largest_networks_contain_every_address_of_their_family() {
    let (v4, v6) = (networks(&["0.0.0.0/0"]), networks(&["::/0"]));
    for address in ["0.0.0.0", "255.255.255.255", "::ffff:127.0.0.1", "64:ff9b::a00:1"] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!((v4.contains(address), v6.contains(address)), (true, false), "{address}");
    }
    for address in ["::", "::1", "fe80::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"] {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!((v4.contains(address), v6.contains(address)), (false, true), "{address}");
    }
}

#[test]
fn what_is_no_network_is_named_with_its_problem() {
    for text in [
        "",
        "/",
        "/8",
        "10",
        "10.0/16",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/+8",
        "10.0.0.0/ 8",
        "::/129",
        "10.0.0.0/8/8",
        "10.0.0.0/255.0.0.0",
        "010.0.0.0/8",
        "0x0a.0.0.0/8",
        "localhost",
        "intranet.example/24",
        "[::1]",
        "fe80::1%eth0/64",
        "10.0.0.0 - 10.0.0.9",
        "10.0.0.0/0008",
    ] {
        assert_eq!(text.parse::<Network>(), Err(NetworkError::Malformed), "{text}");
    }
    for (text, expected) in [("10.1.2.3/8", "10.0.0.0/8"), ("10.0.0.1/0", "0.0.0.0/0"), ("fd00::1/64", "fd00::/64")] {
        let network = expected.parse().unwrap();
        assert_eq!(text.parse::<Network>(), Err(NetworkError::BeyondPrefix(network)), "{text}");
    }
    for text in ["::ffff:10.0.0.0/104", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b::a00:1"] {
        assert_eq!(text.parse::<Network>(), Err(NetworkError::Embedded), "{text}");
    }
    let several: Networks = ["10.0.0.0/8", "intranet", "10.0.0.1/8"].map(str::to_owned).to_vec().into();
    let conflict = several.conflict().unwrap();
    assert!(conflict.starts_with("networks such as") && conflict.contains("\"intranet\" is neither"), "{conflict}");
    let many: Networks =
        (0..=MAX_NETWORKS).map(|at| format!("10.0.{}.{}", at >> 8, at & 255)).collect::<Vec<_>>().into();
    assert_eq!(many.conflict().as_deref(), Some("at most 1024 networks; there are 1025"));
}

#[test]
fn a_list_is_read_and_written_as_texts() {
    let written = serde_json::json!(["10.0.0.0/8", "127.0.0.1/32", "fd00::/8"]);
    let read: Networks = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(read, networks(&["10.0.0.0/8", "127.0.0.1", "fd00::/8"]));
    assert_eq!(serde_json::to_value(read).unwrap(), written);
}

fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(bits.into()));
    let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(bits.into()));
    let embedded = any::<u32>().prop_map(|bits| IpAddr::V6(std::net::Ipv4Addr::from(bits).to_ipv6_mapped()));
    prop_oneof![v4, v6, embedded]
}

/// Any network, with an address near it: one that has some of its first bits.
fn network_and_address() -> impl Strategy<Value = (Network, IpAddr)> {
    (address(), any::<u8>(), any::<u128>(), 0..=128_u32).prop_map(|(address, prefix, other, shared)| {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let network = Network::of(address, prefix % (bits + 1)).unwrap();
        let near = match address {
            IpAddr::V4(address) => {
                let changed = (other as u32).checked_shr(shared).unwrap_or(0);
                IpAddr::V4((address.to_bits() ^ changed).into())
            }
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() ^ other.checked_shr(shared).unwrap_or(0)).into()),
        };
        (network, near)
    })
}

/// Returns the bits of an address, the highest first.
fn bits(address: IpAddr) -> Vec<bool> {
    let octets = match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1)).collect()
}

proptest! {
    #[test]
    fn an_address_is_in_a_network_if_it_has_the_bits_of_its_prefix((network, address) in network_and_address()) {
        let (prefix, first) = (usize::from(network.prefix), bits(network.first));
        prop_assert_eq!(network.contains(address), bits(address)[..prefix] == first[..prefix]);
        prop_assert!(network.contains(network.first));
        prop_assert!(first[prefix..].iter().all(|bit| !bit));
    }

    #[test]
    fn a_network_is_what_its_text_says(address in address(), prefix in any::<u8>()) {
        let Some(network) = Network::of(address, prefix) else {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            prop_assert!(prefix > bits);
            return Ok(());
        };
        match network.to_string().parse() {
            Err(NetworkError::Embedded) => prop_assert!(network.first.is_ipv6() && prefix >= 96),
            parsed => prop_assert_eq!(parsed, Ok(network)),
        }
    }

    #[test]
    fn a_url_is_refused_if_its_address_is_neither_public_nor_permitted((network, address) in network_and_address()) {
        let networks = Networks::from(vec![network]);
        let host = if address.is_ipv6() { format!("[{address}]") } else { address.to_string() };
        let url = orbweaver_url::Url::parse(&format!("http://{host}/")).unwrap();
        prop_assert_eq!(is_private(&url, &networks), refusal(address).is_some() && !networks.contains(address));
    }
}

proptest! {
    #[test]
    fn any_text_is_a_network_or_is_not(text in "[0-9a-f:./%x ]{0,24}") {
        if let Ok(network) = text.parse::<Network>() {
            prop_assert_eq!(network.to_string().parse::<Network>(), Ok(network));
        }
    }
}
