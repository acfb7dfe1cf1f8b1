//! Faults and their times, derived from a seed by pure code.

use std::collections::BTreeMap;

use orbweaver_cluster_tests::Service;
use orbweaver_pipeline_tests::Dice;
use orbweaver_testkit::SESSION;

use crate::fault::{Fault, Server, Slot};

/// Time of the first fault, in milliseconds: by then the crawl has work in flight.
const FIRST_MS: u64 = 4_000;
/// Minimum and maximum time between two faults, in milliseconds.
const GAP_MS: (u64, u64) = (1_200, 3_600);
/// Minimum and maximum time by which a suspension or isolation exceeds a session, in milliseconds, so that other
/// members receive the partitions.
const BEYOND_A_SESSION_MS: (u64, u64) = (1_000, 5_000);
/// Minimum and maximum time that a server is cut off from all services, in milliseconds: shorter or longer than a
/// session.
const CUT_MS: (u64, u64) = (4_000, 12_000);
/// Minimum and maximum additional latency of a slow network, in milliseconds.
const SLOWER_MS: (u64, u64) = (100, 300);
/// Minimum and maximum time that the network is slow, in milliseconds.
const SLOW_MS: (u64, u64) = (8_000, 15_000);
/// Minimum and maximum time that a crawl is paused, in milliseconds: well beyond half a session, within which an instance that
/// is cut off stops its requests.
const PAUSE_MS: (u64, u64) = (8_000, 12_000);
/// Minimum and maximum time that the disk is full, in milliseconds.
const DISK_FULL_MS: (u64, u64) = (3_000, 10_000);
/// Time for which a process tolerates a clock that was set, in milliseconds.
pub(crate) const CLOCK_TOLERATED_MS: u64 = 30_000;
/// Time that clocks are wrong, in milliseconds: shorter than [`CLOCK_TOLERATED_MS`].
const CLOCK_MS: u64 = 10_000;
/// [`CLOCK_MS`] of a long schedule: processes end, and restart with that time.
const LONG_CLOCK_MS: u64 = 40_000;
/// Time after a cut before a server may be disturbed again, in milliseconds.
const CUT_BACK_MS: u64 = 8_000;
/// Outages of all servers in a long schedule: their number, and the duration of each and the pause between two, in
/// milliseconds.
const OUTAGES: (u32, u64, u64) = (3, 65_000, 8_000);
/// Time after a fault during which its instance is not disturbed, in milliseconds.
const SETTLE_MS: u64 = 4_000;
/// Time allowed for the return of a server, during which it is not disturbed again, in milliseconds.
const SERVER_BACK_MS: u64 = 40_000;
/// [`SERVER_BACK_MS`] where brokers replicate.
const ONE_OF_SEVERAL_BACK_MS: u64 = 20_000;
/// Outage of all fetchers, in milliseconds, longer than a lease (125 s) and the lifetime of a dispatch.
const LONGER_THAN_A_LEASE_MS: u64 = 140_000;

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Milliseconds after the seed URL was written.
    pub at_ms: u64,
    pub fault: Fault,
}

/// A planned fault without a target yet.
#[derive(Debug, Clone, Copy)]
enum Wish {
    Kill(Service),
    OutOfMemory(Service),
    DiskFull,
    Clock,
    Freeze(Service),
    Drain(Service),
    Add(Service),
    Remove(Service),
    Broker(u8),
    Cql,
    NoFetchers,
    Cut,
    CutOff(Service),
    Slow,
    Pause,
    Outages,
}

/// Extent of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of brokers, each of which is unavailable once: one, or three that replicate.
    pub brokers: u8,
    /// Whether fetchers are unavailable for longer than a lease, and long outages occur.
    pub long: bool,
    /// Factor for the time between two faults.
    pub stretch: u32,
    /// Number of instances of each service at the start.
    pub instances: u32,
    /// Faults that happen.
    pub faults: Faults,
}

/// Faults of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Faults {
    /// All.
    All,
    /// Those of single processes that do not end the work of others: kills, suspensions, drains, additional and fewer
    /// instances, and the deletion of the third crawl.
    Processes,
    /// Only the deletion of the third crawl.
    None,
}

impl Faults {
    fn have(self, fault: &Fault) -> bool {
        use Fault::{Add, Delete, Drain, Freeze, Kill, Remove};
        match self {
            Self::All => true,
            Self::Processes => {
                matches!(fault, Kill { .. } | Freeze { .. } | Drain { .. } | Add { .. } | Remove { .. } | Delete)
            }
            Self::None => *fault == Delete,
        }
    }
}

/// Returns the schedule of a seed. Each service is killed, suspended, drained and extended once; three services are
/// reduced; each broker, the CQL server and all fetchers are unavailable once; one server is cut off from the services;
/// a fetcher and another instance are cut off from the servers; the second crawl is paused; one instance runs out of memory; the disk is full,
/// clocks are an hour behind (odd seeds) or ahead (even seeds) and the network is slow for a while. The seed determines
/// order and times, except that a third crawl begins first, whose deletion takes as long as all of this. At the end each service has an instance. With `long`, the fetchers are unavailable for longer than
/// a lease, all servers are cut off for more than a minute three times in a row, and clocks that are ahead stay so.
#[must_use]
pub fn schedule(seed: u64, extent: Extent) -> Vec<Step> {
    let mut planner = Planner::new(seed, extent);
    let mut wishes = planner.wishes();
    let mut steps = vec![Step { at_ms: planner.now_ms, fault: Fault::Delete }];
    while !wishes.is_empty() {
        let found = wishes.iter().enumerate().find_map(|(at, wish)| Some((at, planner.grant(*wish)?)));
        if let Some((at, fault)) = found {
            wishes.remove(at);
            steps.push(Step { at_ms: planner.now_ms, fault });
        }
        planner.now_ms += planner.dice.roll(GAP_MS.0, GAP_MS.1) * u64::from(extent.stretch);
    }
    steps.retain(|step| extent.faults.have(&step.fault));
    steps
}

struct Planner {
    dice: Dice,
    brokers: u8,
    now_ms: u64,
    away_ms: u64,
    is_long: bool,
    clock_ahead: bool,
    /// Instances, each with the time until which it is not disturbed.
    slots: BTreeMap<Slot, u64>,
    servers_free_ms: u64,
    added: u32,
}

impl Planner {
    fn new(seed: u64, extent: Extent) -> Self {
        let Extent { brokers, long, instances, .. } = extent;
        // Spreads neighboring seeds, and avoids zero, which this generator cannot leave.
        let mut dice = Dice(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll(0, 1);
        }
        let of = |service| (1..=instances).map(move |number| (Slot { service, number }, 0));
        let slots = Service::ALL.into_iter().flat_map(of).collect();
        let away_ms = if long { LONGER_THAN_A_LEASE_MS } else { dice.roll(8_000, 14_000) };
        // Not rolled: all other faults of a seed are the same in both directions, and neighboring seeds have both.
        let (clock_ahead, now_ms) = (seed.is_multiple_of(2), FIRST_MS);
        Self { dice, brokers, now_ms, away_ms, is_long: long, clock_ahead, slots, servers_free_ms: 0, added: instances }
    }

    /// Returns all planned faults, in an order determined by the seed (Fisher and Yates).
    fn wishes(&mut self) -> Vec<Wish> {
        let mut wishes: Vec<_> = (1..=self.brokers).map(Wish::Broker).collect();
        wishes.extend([
            Wish::Cql,
            Wish::NoFetchers,
            Wish::Cut,
            Wish::Slow,
            Wish::Pause,
            Wish::DiskFull,
            Wish::Clock,
            Wish::CutOff(Service::Fetcher),
        ]);
        wishes.push(Wish::CutOff(Service::ALL[self.index(Service::ALL.len())]));
        wishes.push(Wish::OutOfMemory(Service::ALL[self.index(Service::ALL.len())]));
        wishes.extend(self.is_long.then_some(Wish::Outages));
        for service in Service::ALL {
            wishes.extend([Wish::Kill(service), Wish::Freeze(service), Wish::Drain(service), Wish::Add(service)]);
        }
        for _ in 0..3 {
            let service = Service::ALL[self.index(Service::ALL.len())];
            wishes.push(Wish::Remove(service));
        }
        for end in (1..wishes.len()).rev() {
            let other = self.index(end + 1);
            wishes.swap(end, other);
        }
        wishes
    }

    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.dice.roll(0, length as u64 - 1)).unwrap_or(0)
    }

    /// Returns the instances of a service without an ongoing fault.
    fn free(&self, service: Service) -> Vec<Slot> {
        let free = self.slots.iter().filter(|(slot, free_ms)| slot.service == service && **free_ms <= self.now_ms);
        free.map(|(slot, _)| *slot).collect()
    }

    fn count(&self, service: Service) -> usize {
        self.slots.keys().filter(|slot| slot.service == service).count()
    }

    fn pick(&mut self, service: Service, busy_ms: u64) -> Option<Slot> {
        let free = self.free(service);
        let slot = *free.get(self.index(free.len().max(1)))?;
        self.slots.insert(slot, self.now_ms + busy_ms + SETTLE_MS);
        Some(slot)
    }

    /// Returns the planned fault, if it is possible now.
    fn grant(&mut self, wish: Wish) -> Option<Fault> {
        Some(match wish {
            Wish::Kill(service) => {
                let back_after_ms = self.dice.roll(0, 5_000);
                let keeps_state = self.dice.roll(0, 1) == 1;
                Fault::Kill { slot: self.pick(service, back_after_ms)?, back_after_ms, keeps_state }
            }
            Wish::OutOfMemory(service) => {
                let back_after_ms = self.dice.roll(0, 5_000);
                Fault::OutOfMemory { slot: self.pick(service, back_after_ms)?, back_after_ms }
            }
            Wish::DiskFull => {
                let for_ms = self.dice.roll(DISK_FULL_MS.0, DISK_FULL_MS.1);
                self.server(for_ms + SETTLE_MS)?;
                Fault::DiskFull { for_ms }
            }
            // After processes have worked ahead of the right time, blocks and retries that they stored last an hour.
            Wish::Clock => Fault::Clock {
                ahead: self.clock_ahead,
                for_ms: if self.is_long { LONG_CLOCK_MS } else { CLOCK_MS },
                returns: !(self.clock_ahead && self.is_long),
            },
            Wish::Freeze(service) => {
                let for_ms = self.beyond_a_session();
                Fault::Freeze { slot: self.pick(service, for_ms)?, for_ms }
            }
            Wish::Drain(service) => {
                let back_after_ms = self.dice.roll(0, 3_000);
                Fault::Drain { slot: self.pick(service, back_after_ms + SETTLE_MS)?, back_after_ms }
            }
            Wish::Add(service) => {
                self.added += 1;
                let slot = Slot { service, number: self.added };
                self.slots.insert(slot, self.now_ms + SETTLE_MS);
                Fault::Add { slot }
            }
            Wish::Remove(service) => {
                // The service may have no instance to spare at the end; then another one is reduced.
                let service = [service].into_iter().chain(Service::ALL).find(|one| self.count(*one) > 1)?;
                let slot = self.pick(service, 0)?;
                self.slots.remove(&slot);
                Fault::Remove { slot }
            }
            Wish::Broker(node) => {
                let killed = self.dice.roll(0, 1) == 1;
                let away_ms = self.dice.roll(500, 8_000);
                self.server(away_ms + self.server_back_ms())?;
                Fault::Broker { node, killed, away_ms }
            }
            Wish::Cql => {
                let away_ms = self.dice.roll(500, 8_000);
                self.server(away_ms + self.server_back_ms())?;
                Fault::Cql { away_ms }
            }
            Wish::Cut => {
                let server = match self.index(usize::from(self.brokers) + 1) {
                    0 => Server::Cql,
                    node => Server::Broker(u8::try_from(node).unwrap_or(1)),
                };
                let for_ms = self.dice.roll(CUT_MS.0, CUT_MS.1);
                self.server(for_ms + CUT_BACK_MS)?;
                Fault::Cut { server, for_ms }
            }
            Wish::CutOff(service) => {
                let for_ms = self.beyond_a_session();
                Fault::CutOff { slot: self.pick(service, for_ms + SETTLE_MS)?, for_ms }
            }
            Wish::Slow => Fault::Slow {
                by_ms: self.dice.roll(SLOWER_MS.0, SLOWER_MS.1),
                for_ms: self.dice.roll(SLOW_MS.0, SLOW_MS.1),
            },
            Wish::Pause => Fault::Pause { for_ms: self.dice.roll(PAUSE_MS.0, PAUSE_MS.1) },
            Wish::Outages => {
                let (times, for_ms, pause_ms) = OUTAGES;
                self.server(u64::from(times) * (for_ms + pause_ms) + CUT_BACK_MS)?;
                Fault::Outages { times, for_ms, pause_ms }
            }
            Wish::NoFetchers => {
                if self.free(Service::Fetcher).len() < self.count(Service::Fetcher) {
                    return None;
                }
                let until_ms = self.now_ms + self.away_ms + SETTLE_MS;
                let fetchers = self.slots.iter_mut().filter(|(slot, _)| slot.service == Service::Fetcher);
                fetchers.for_each(|(_, free_ms)| *free_ms = until_ms);
                Fault::NoFetchers { away_ms: self.away_ms }
            }
        })
    }

    /// Draws a duration longer than a session, in milliseconds.
    fn beyond_a_session(&mut self) -> u64 {
        let session_ms = u64::try_from(SESSION.as_millis()).unwrap_or(u64::MAX);
        session_ms + self.dice.roll(BEYOND_A_SESSION_MS.0, BEYOND_A_SESSION_MS.1)
    }

    /// Returns the time allowed for the return of a server, in milliseconds.
    fn server_back_ms(&self) -> u64 {
        if self.brokers > 1 { ONE_OF_SEVERAL_BACK_MS } else { SERVER_BACK_MS }
    }

    /// Reserves the servers for this time, unless one is unavailable.
    fn server(&mut self, busy_ms: u64) -> Option<()> {
        if self.servers_free_ms > self.now_ms {
            return None;
        }
        self.servers_free_ms = self.now_ms + busy_ms;
        Some(())
    }
}

#[cfg(test)]
mod tests;
