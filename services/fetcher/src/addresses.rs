//! Addresses of the sites' next requests: each is looked up, and then waited for. Pure.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use orbweaver_messages::Millis;
use orbweaver_url::{SiteName, Url};
use url::Host;

use crate::{
    address_gate::{AddressGate, AddressLimits},
    client::{Destination, FetchError},
};

/// Time for which an address that was looked up applies to the next requests of its site, in milliseconds: requests in
/// quick succession need no lookup each.
const APPLIES_MS: Millis = 1000;

/// Result of a lookup: the address, or `None` if requests to the host are not bounded by their address.
pub(crate) type Located = Result<Option<IpAddr>, FetchError>;

/// Decision about the next request of a site.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Send it now; if it has an address, [`Addresses::ended`] must follow.
    Send(Destination),
    /// The site waits until it is returned by [`Addresses::next_called`].
    Wait,
    /// The site waits for the lookup of this host; [`Addresses::located`] must follow.
    LookUp(Arc<str>),
}

/// Host of the next request of a site.
#[derive(Debug)]
struct NextHost {
    host: Arc<str>,
    /// `None` while it is looked up.
    located: Option<Located>,
    /// Time until which that applies.
    until_ms: Millis,
    /// Address at which the site waits, or was called.
    at: Option<IpAddr>,
}

impl NextHost {
    fn applies(&self, now: Millis) -> bool {
        // A later time comes from a clock that has stepped back since.
        let is_fresh = now < self.until_ms && self.until_ms <= now.saturating_add(APPLIES_MS);
        self.located.is_none() || self.at.is_some() || is_fresh
    }
}

#[derive(Debug)]
pub(crate) struct Addresses {
    gate: AddressGate,
    /// Sites that wait, or whose address was just looked up.
    sites: HashMap<SiteName, NextHost>,
    /// Configured number of requests at once; 0: unlimited.
    at_once: usize,
}

impl Addresses {
    pub(crate) fn new(at_once: usize, gap_ms: u64) -> Self {
        let limits = AddressLimits { at_once: part_of(at_once, 1, 1), gap_ms };
        Self { gate: AddressGate::new(limits), sites: HashMap::new(), at_once }
    }

    /// Sets the part of the partitions that this fetcher owns.
    pub(crate) fn set_part(&mut self, owned: usize, partitions: usize) {
        self.gate.set_at_once(part_of(self.at_once, owned, partitions));
    }

    /// Decides about the next request of a site.
    pub(crate) fn admit(&mut self, site: &SiteName, url: &Url, now: Millis) -> Admission {
        let host = url.host_str().unwrap_or_default();
        let known = self.sites.get(site).filter(|next| *next.host == *host);
        let next = match known.filter(|next| next.applies(now)) {
            Some(next) => next,
            None => {
                // Another request is the next one by now, to another host.
                self.withdraw(site, now);
                let literal = match url.host() {
                    Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
                    Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
                    Some(Host::Domain(_)) | None => None,
                };
                let (host, located) = (Arc::<str>::from(host), literal.map(|address| Ok(Some(address))));
                let next = NextHost { host: host.clone(), located, until_ms: now.saturating_add(APPLIES_MS), at: None };
                let next = self.sites.entry(site.clone()).insert_entry(next);
                if literal.is_none() {
                    return Admission::LookUp(host);
                }
                &*next.into_mut()
            }
        };
        match next.located {
            None => Admission::Wait,
            Some(Ok(None)) => Admission::Send(Destination::Unlocated),
            Some(Err(failure)) => {
                self.sites.remove(site);
                Admission::Send(Destination::Failed(failure))
            }
            Some(Ok(Some(address))) => self.admit_to(address, site, now),
        }
    }

    fn admit_to(&mut self, address: IpAddr, site: &SiteName, now: Millis) -> Admission {
        let starts = self.gate.request(key(address), site, now);
        if let Some(next) = self.sites.get_mut(site) {
            next.at = (!starts).then_some(address);
        }
        if starts { Admission::Send(Destination::At(address)) } else { Admission::Wait }
    }

    /// Notes that a site has no request to send; it no longer waits.
    pub(crate) fn withdraw(&mut self, site: &SiteName, now: Millis) {
        if let Some(address) = self.sites.get_mut(site).and_then(|next| next.at.take()) {
            self.gate.withdraw(key(address), site, now);
        }
    }

    /// Notes the result of a lookup; `true` if the site waits for it.
    pub(crate) fn located(&mut self, site: &SiteName, host: &str, located: Located, now: Millis) -> bool {
        let Some(next) = self.sites.get_mut(site).filter(|next| *next.host == *host && next.located.is_none()) else {
            return false;
        };
        next.located = Some(located);
        next.until_ms = now.saturating_add(APPLIES_MS);
        true
    }

    /// Notes the end of a request; `refused`: with 429, 503 or a challenge.
    pub(crate) fn ended(&mut self, address: IpAddr, site: &SiteName, refused: bool, now: Millis) {
        if refused {
            self.gate.refused(key(address), site, now);
        }
        self.gate.ended(key(address), now);
    }

    /// Returns `true` if the next request of a site waits for its address.
    pub(crate) fn is_waiting(&self, site: &SiteName) -> bool {
        self.sites.get(site).is_some_and(|next| next.at.is_some())
    }

    /// Returns the number of sites whose next request waits for its address.
    pub(crate) fn waiting(&self) -> usize {
        self.gate.waiting()
    }

    /// Returns the next site that waits no longer, and must be admitted again or withdrawn.
    pub(crate) fn next_called(&mut self, now: Millis) -> Option<SiteName> {
        self.gate.poll(now);
        self.gate.next_called()
    }

    /// Returns `true` if [`Addresses::next_called`] returns a site at once.
    pub(crate) fn has_called(&self) -> bool {
        self.gate.has_called()
    }

    /// Returns the time of the next call of [`Addresses::next_called`].
    pub(crate) fn next_ms(&self) -> Option<Millis> {
        self.gate.next_ms()
    }

    /// Returns the number of sites that wait, or whose address was just looked up.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.sites.len()
    }

    /// Forgets sites whose addresses no longer apply.
    pub(crate) fn forget(&mut self, now: Millis) {
        self.sites.retain(|_, next| next.applies(now));
    }
}

/// Returns this fetcher's part of a limit: at least one; 0 is unlimited.
fn part_of(limit: usize, owned: usize, partitions: usize) -> usize {
    if limit == 0 { usize::MAX } else { (limit * owned / partitions.max(1)).max(1) }
}

/// Returns the address under which requests are counted: an IPv4 address has one spelling.
fn key(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests;
