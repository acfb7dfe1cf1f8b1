//! Hosts of a generated web: loopback addresses and names, and the mapping from a Host header.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use crate::config::WebConfig;
use crate::hash::{Salt, below, mix};
use crate::special::Kind;

/// Hosts in one /24: the last octet runs from 1 to 250.
const HOSTS_PER_NET: u32 = 250;
/// Third octet of the first special host.
const SPECIAL_NET: u8 = 200;

/// Host of a generated web.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostId {
    /// Host of ordinary pages.
    Main(u32),
    /// Dedicated host of a special place that concerns a whole host.
    Special(Kind, u32),
}

/// Returns the host of a page. Page 0, at which a crawl starts, is on host 0.
pub(crate) fn host_of_page(config: &WebConfig, page: u64) -> HostId {
    if page == 0 {
        return HostId::Main(0);
    }
    HostId::Main(below(mix(config.seed, Salt::Host, page), config.hosts().into()) as u32)
}

/// Appends the name or address of a host, without a port.
pub(crate) fn write_host(config: &WebConfig, host: HostId, out: &mut String) {
    let _ = match (host, address_of(config, host)) {
        (_, Some(address)) => write!(out, "{address}"),
        (HostId::Main(number) | HostId::Special(_, number), None) => {
            let number = number - config.address_hosts;
            write!(out, "h{number}.toyweb{}.localhost", number % config.named_sites)
        }
    };
}

fn address_of(config: &WebConfig, host: HostId) -> Option<Ipv4Addr> {
    let (net, number) = match host {
        HostId::Main(number) if number < config.address_hosts => (1 + number / HOSTS_PER_NET, number % HOSTS_PER_NET),
        HostId::Main(_) => return None,
        HostId::Special(kind, number) => (u32::from(SPECIAL_NET) + kind as u32, number % HOSTS_PER_NET),
    };
    Some(Ipv4Addr::new(127, 0, net as u8, 1 + number as u8))
}

/// Returns the host named by a Host header, if it belongs to this web.
pub(crate) fn host_from_header(config: &WebConfig, header: &str) -> Option<HostId> {
    let name = header.rsplit_once(':').map_or(header, |(name, _)| name);
    let found = if let Ok(address) = name.parse::<Ipv4Addr>() {
        let [_, _, net, last] = address.octets();
        let last = u32::from(last).checked_sub(1)?;
        match net.checked_sub(SPECIAL_NET) {
            Some(kind) => HostId::Special(*Kind::ALL.get(usize::from(kind))?, last),
            None => HostId::Main(u32::from(net).checked_sub(1)? * HOSTS_PER_NET + last),
        }
    } else {
        let name = name.to_ascii_lowercase();
        let number: u32 = name.strip_prefix('h')?.split('.').next()?.parse().ok()?;
        HostId::Main(number.checked_add(config.address_hosts)?)
    };
    let known = match found {
        HostId::Main(number) => number < config.hosts(),
        HostId::Special(kind, number) => number < config.specials.get(&kind).copied().unwrap_or(0),
    };
    let mut spelled = String::new();
    if known {
        write_host(config, found, &mut spelled);
    }
    (known && spelled.eq_ignore_ascii_case(name)).then_some(found)
}

/// Returns every loopback address on which the web is served. Names resolve to the first.
pub(crate) fn addresses(config: &WebConfig) -> Vec<Ipv4Addr> {
    let mut all = vec![Ipv4Addr::LOCALHOST];
    all.extend((0..config.address_hosts).filter_map(|number| address_of(config, HostId::Main(number))));
    for (kind, count) in &config.specials {
        if kind.has_hosts() {
            all.extend((0..*count).filter_map(|number| address_of(config, HostId::Special(*kind, number))));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_found_again_from_its_header() {
        let config = WebConfig { address_hosts: 600, named_hosts: 40, named_sites: 7, ..WebConfig::default() }
            .with_every_special(3);
        let specials = config.specials.keys().map(|kind| HostId::Special(*kind, 2));
        for host in (0..config.hosts()).map(HostId::Main).chain(specials) {
            let mut name = String::new();
            write_host(&config, host, &mut name);
            assert_eq!(host_from_header(&config, &format!("{name}:8080")), Some(host), "{name}");
            assert_eq!(host_from_header(&config, &name.to_ascii_uppercase()), Some(host), "{name}");
        }
    }

    #[test]
    fn a_host_of_no_web_is_not_found() {
        let config = WebConfig { named_hosts: 4, named_sites: 2, ..WebConfig::default() };
        for header in ["", "127.0.1.2", "127.0.0.1:80", "h4.toyweb0.localhost", "h1.toyweb0.localhost", "example.org"] {
            assert_eq!(host_from_header(&config, header), None, "{header}");
        }
    }
}
