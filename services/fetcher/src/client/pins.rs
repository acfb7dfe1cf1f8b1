//! Addresses of the hosts in use. Pure; time is a value.
//!
//! The client keeps connections by host, not by address. So a host keeps its address as long as a connection to it may
//! be open; only then is every request sent to the address that was chosen for it.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use tokio::time::Instant;

/// Time for which the address of a host in continuous use is kept, whatever its lifetime.
const KEPT: Duration = Duration::from_mins(5);
/// Number of hosts from which those that are no longer in use are removed.
const SWEPT: usize = 1024;

#[derive(Debug)]
struct Pin {
    address: IpAddr,
    in_flight: usize,
    /// Time at which the address was last found in an answer.
    checked: Instant,
    /// Time from which no connection to the address is open, unless a request is in flight.
    quiet: Instant,
    /// Whether a connection to the address was established.
    has_connected: bool,
    /// Time until which the address is avoided, since it refused a connection.
    avoided: Option<Instant>,
    /// Duration of the last lookup, until a request has used its answer.
    lookup: Option<Duration>,
}

impl Pin {
    fn new(address: IpAddr, checked: Instant, quiet: Instant) -> Self {
        Self { address, in_flight: 0, checked, quiet, has_connected: false, avoided: None, lookup: None }
    }

    fn is_avoided(&self, now: Instant) -> bool {
        self.avoided.is_some_and(|until| now < until)
    }

    fn is_in_use(&self, now: Instant) -> bool {
        self.in_flight > 0 || now < self.quiet
    }
}

/// Times that depend on the configuration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionTimes {
    /// Longest time in which a connection is established.
    pub(crate) connect: Duration,
    /// Longest time of a request.
    pub(crate) request: Duration,
    /// Time for which an unused connection is kept.
    pub(crate) idle: Duration,
}

/// State of the address of a host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pinned {
    /// The host has this address.
    At(IpAddr),
    /// The address must be looked up; this one is to be avoided.
    Unknown { avoid: Option<IpAddr> },
}

#[derive(Debug)]
pub(crate) struct Pins {
    hosts: HashMap<Box<str>, Pin>,
    times: ConnectionTimes,
    swept: usize,
}

impl Pins {
    pub(crate) fn new(times: ConnectionTimes) -> Self {
        Self { hosts: HashMap::new(), times, swept: SWEPT }
    }

    /// Returns the address of a host for its next request, which keeps it for longer than that is expected to take.
    pub(crate) fn next(&mut self, host: &str, now: Instant) -> Pinned {
        let Some(pin) = self.hosts.get_mut(host) else { return Pinned::Unknown { avoid: None } };
        let avoid = pin.is_avoided(now).then_some(pin.address);
        if avoid.is_none() && pin.is_in_use(now) && now.saturating_duration_since(pin.checked) < KEPT {
            pin.quiet = pin.quiet.max(now + self.times.connect + self.times.idle);
            return Pinned::At(pin.address);
        }
        Pinned::Unknown { avoid }
    }

    /// Chooses among the addresses of an answer, the preferred one first: a host keeps the one that it has, unless that
    /// is to be avoided.
    ///
    /// # Errors
    /// Returns the time at which to try again, if a connection to another address may be open.
    pub(crate) fn choose(&mut self, host: &str, found: &[IpAddr], now: Instant) -> Result<IpAddr, Instant> {
        let first = *found.first().ok_or(now)?;
        let quiet = now + self.times.connect + self.times.idle;
        if let Some(pin) = self.hosts.get_mut(host) {
            if found.contains(&pin.address) && (first == pin.address || !pin.is_avoided(now)) {
                (pin.checked, pin.quiet) = (now, pin.quiet.max(quiet));
                return Ok(pin.address);
            }
            if pin.is_in_use(now) {
                return Err(pin.quiet.max(now + self.times.idle));
            }
        }
        self.sweep(now);
        self.hosts.insert(host.into(), Pin::new(first, now, quiet));
        Ok(first)
    }

    /// Notes the duration of the lookup in whose answer the address of a host was chosen.
    pub(crate) fn looked_up(&mut self, host: &str, took: Duration) {
        if let Some(pin) = self.hosts.get_mut(host) {
            pin.lookup = Some(took);
        }
    }

    /// Returns the duration of the lookup of a host, for the first request after it.
    pub(crate) fn take_lookup(&mut self, host: &str) -> Option<Duration> {
        self.hosts.get_mut(host)?.lookup.take()
    }

    /// Notes the start of a request to the address that was chosen; `false` if connections to another one may be open.
    pub(crate) fn start(&mut self, host: &str, address: IpAddr, now: Instant) -> bool {
        let quiet = now + self.times.request.max(self.times.connect) + self.times.idle;
        match self.hosts.get_mut(host) {
            Some(pin) if pin.address == address => {
                (pin.in_flight, pin.quiet) = (pin.in_flight + 1, pin.quiet.max(quiet));
            }
            Some(pin) if pin.is_in_use(now) => return false,
            _ => {
                self.hosts.insert(host.into(), Pin { in_flight: 1, ..Pin::new(address, now, quiet) });
            }
        }
        true
    }

    /// Notes the end of a request; `refused`: no connection was established.
    pub(crate) fn end(&mut self, host: &str, refused: bool, now: Instant) {
        let Some(pin) = self.hosts.get_mut(host) else { return };
        pin.in_flight = pin.in_flight.saturating_sub(1);
        pin.avoided = refused.then_some(now + KEPT);
        pin.has_connected |= !refused;
        if pin.in_flight == 0 {
            // A connection that was begun for a request, which then found another one free, is kept too.
            let open = if pin.has_connected { self.times.connect + self.times.idle } else { Duration::ZERO };
            pin.quiet = now + open;
        }
    }

    /// Returns the address of a host.
    pub(crate) fn address(&self, host: &str) -> Option<IpAddr> {
        self.hosts.get(host).map(|pin| pin.address)
    }

    /// Removes hosts that are not in use, once the number of hosts has doubled.
    fn sweep(&mut self, now: Instant) {
        if self.hosts.len() >= self.swept {
            self.hosts.retain(|_, pin| pin.is_in_use(now) || pin.is_avoided(now));
            self.swept = (2 * self.hosts.len()).max(SWEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "a.example";
    const TIMES: ConnectionTimes = ConnectionTimes {
        connect: Duration::from_secs(10),
        request: Duration::from_secs(20),
        idle: Duration::from_secs(5),
    };

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_host_in_use_keeps_its_address_until_no_connection_to_it_can_be_open() {
        let (mut pins, start) = (Pins::new(TIMES), Instant::now());
        assert_eq!(pins.next(HOST, start), Pinned::Unknown { avoid: None });
        assert_eq!(pins.choose(HOST, &[address(1), address(2)], start), Ok(address(1)));
        assert!(pins.start(HOST, address(1), start));
        assert_eq!(pins.next(HOST, after(start, 1)), Pinned::At(address(1)));
        // Its order in the answer does not matter.
        assert_eq!(pins.choose(HOST, &[address(2), address(1)], after(start, 1)), Ok(address(1)));
        let quiet = pins.choose(HOST, &[address(2)], after(start, 2)).unwrap_err();
        assert!(quiet >= after(start, 25), "the request may take until then");
        assert!(!pins.start(HOST, address(2), after(start, 2)));

        pins.end(HOST, false, after(start, 3));
        assert_eq!(pins.choose(HOST, &[address(2)], after(start, 4)), Err(after(start, 18)));
        assert_eq!(pins.choose(HOST, &[address(2)], after(start, 18)), Ok(address(2)));
        assert_eq!(pins.address(HOST), Some(address(2)));
    }

    #[test]
    fn the_first_request_after_a_lookup_has_its_duration() {
        let (mut pins, start) = (Pins::new(TIMES), Instant::now());
        pins.looked_up(HOST, Duration::from_millis(1));
        assert_eq!(pins.take_lookup(HOST), None, "the host has no address");
        pins.choose(HOST, &[address(1)], start).unwrap();
        pins.looked_up(HOST, Duration::from_millis(2));
        assert_eq!([pins.take_lookup(HOST), pins.take_lookup(HOST)], [Some(Duration::from_millis(2)), None]);
    }

    #[test]
    fn the_address_of_a_host_in_continuous_use_is_looked_up_every_five_minutes() {
        let (mut pins, start) = (Pins::new(TIMES), Instant::now());
        pins.choose(HOST, &[address(1)], start).unwrap();
        for second in 0..300 {
            assert_eq!(pins.next(HOST, after(start, second)), Pinned::At(address(1)));
        }
        assert_eq!(pins.next(HOST, after(start, 300)), Pinned::Unknown { avoid: None });
        assert_eq!(pins.choose(HOST, &[address(1)], after(start, 300)), Ok(address(1)));
        assert_eq!(pins.next(HOST, after(start, 301)), Pinned::At(address(1)));
    }

    #[test]
    fn an_address_that_refuses_connections_is_avoided_while_there_is_another() {
        let (mut pins, start) = (Pins::new(TIMES), Instant::now());
        pins.choose(HOST, &[address(1), address(2)], start).unwrap();
        assert!(pins.start(HOST, address(1), start));
        pins.end(HOST, true, after(start, 1));
        assert_eq!(pins.next(HOST, after(start, 2)), Pinned::Unknown { avoid: Some(address(1)) });
        assert_eq!(pins.choose(HOST, &[address(1)], after(start, 2)), Ok(address(1)), "there is no other");
        assert!(pins.start(HOST, address(1), after(start, 3)));
        pins.end(HOST, true, after(start, 3));
        // No connection was ever open, so there is no need to wait.
        assert_eq!(pins.choose(HOST, &[address(2), address(1)], after(start, 3)), Ok(address(2)));
        assert_eq!(pins.choose(HOST, &[address(1), address(2)], after(start, 100)), Ok(address(2)), "it works");
    }

    #[test]
    fn hosts_that_are_no_longer_in_use_are_removed() {
        let (mut pins, start) = (Pins::new(TIMES), Instant::now());
        for second in 0..20 * SWEPT as u64 {
            pins.choose(&format!("h{second}.example"), &[address(1)], after(start, second)).unwrap();
        }
        assert!(pins.hosts.len() <= SWEPT);
    }
}
