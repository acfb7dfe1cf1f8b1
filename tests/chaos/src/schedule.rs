//! What goes wrong, and when: a seed gives a list, purely.

use std::collections::BTreeMap;
use std::fmt;

use orbweaver_cluster_tests::Service;
use orbweaver_pipeline_tests::Dice;
use orbweaver_testkit::SESSION;

/// When the first fault comes, in milliseconds: something is under way by then.
const FIRST_MS: u64 = 4_000;
/// Least and most time from one fault to the next, in milliseconds.
const GAP_MS: (u64, u64) = (1_200, 3_600);
/// How much longer than a session a process is frozen or cut off, in milliseconds, so that others are given its partitions.
const BEYOND_A_SESSION_MS: (u64, u64) = (1_000, 5_000);
/// How long a server is cut off from all services, in milliseconds: for longer than a session, and not.
const CUT_MS: (u64, u64) = (4_000, 12_000);
/// How much longer everything takes on a slow network, in milliseconds.
const SLOWER_MS: (u64, u64) = (100, 300);
/// For how long the network is slow, in milliseconds.
const SLOW_MS: (u64, u64) = (8_000, 15_000);
/// Least and most time that the disk is full, in milliseconds.
const DISK_FULL_MS: (u64, u64) = (3_000, 10_000);
/// For how long clocks are behind, in milliseconds: shorter than processes tolerate (30 s).
const CLOCK_BACK_MS: u64 = 10_000;
/// The same in a long schedule: processes end, and start again by that time.
const LONG_CLOCK_BACK_MS: u64 = 40_000;
/// How soon after a cut a server may be disturbed again, in milliseconds.
const CUT_BACK_MS: u64 = 8_000;
/// Outages in a row of a long schedule, of all servers, and how long each is and the time between them, in milliseconds.
const OUTAGES: (u32, u64, u64) = (3, 65_000, 8_000);
/// How long an instance is left alone after a fault of its own is over, in milliseconds.
const SETTLE_MS: u64 = 4_000;
/// How long a server may take to be back, in milliseconds: it is not disturbed again before.
const SERVER_BACK_MS: u64 = 40_000;
/// The same where brokers stand in for each other.
const ONE_OF_SEVERAL_BACK_MS: u64 = 20_000;
/// Fetchers away for longer than a lease (125 s) and a dispatch's stay.
const LONGER_THAN_A_LEASE_MS: u64 = 140_000;

/// The place of an instance: a successor takes the place of one that was killed or drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// What runs there.
    pub service: Service,
    /// Which of its instances, from 1.
    pub number: u32,
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.service.name(), self.number)
    }
}

/// A server that a run may take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Server {
    /// Which, from 1.
    Broker(u8),
    /// The store.
    Cql,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broker(node) => write!(f, "broker {node}"),
            Self::Cql => f.write_str("the CQL server"),
        }
    }
}

/// One thing that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL; a successor starts after a while, on the local state that was left behind or on none.
    Kill {
        /// Whom.
        slot: Slot,
        /// When the successor starts, in milliseconds after.
        back_after_ms: u64,
        /// Whether it finds its predecessor's folder.
        keeps_state: bool,
    },
    /// An instance gets no more memory, so that the kernel kills it; a successor starts later on its state.
    OutOfMemory {
        /// The instance.
        slot: Slot,
        /// Time until the successor starts, in milliseconds.
        back_after_ms: u64,
    },
    /// The disk with the states of all instances is full.
    DiskFull {
        /// Duration in milliseconds.
        for_ms: u64,
    },
    /// The wall clock of all instances is set back by an hour, and put right again.
    ClockBack {
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// SIGSTOP, and SIGCONT when its session is over: a zombie.
    Freeze {
        /// Whom.
        slot: Slot,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// SIGTERM, after which it must end with 0; a successor starts on its folder.
    Drain {
        /// Whom.
        slot: Slot,
        /// When the successor starts, in milliseconds after the end.
        back_after_ms: u64,
    },
    /// One instance more.
    Add {
        /// The new one.
        slot: Slot,
    },
    /// SIGTERM without a successor.
    Remove {
        /// Whom.
        slot: Slot,
    },
    /// A broker ends, and starts again on its data.
    Broker {
        /// Which, from 1.
        node: u8,
        /// By SIGKILL, else by SIGTERM.
        killed: bool,
        /// How long it is away, in milliseconds, its start aside.
        away_ms: u64,
    },
    /// The CQL server is killed, and starts again on its data.
    Cql {
        /// How long it is away, in milliseconds, its start aside.
        away_ms: u64,
    },
    /// All fetchers are killed, and start again later.
    NoFetchers {
        /// When, in milliseconds.
        away_ms: u64,
    },
    /// All services are cut off from a server, which goes on without them.
    Cut {
        /// Which.
        server: Server,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// An instance is cut off from all servers, and goes on without them: its partitions go to others.
    CutOff {
        /// Whom.
        slot: Slot,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// The network between services and servers is slow.
    Slow {
        /// How much longer everything takes, each way, in milliseconds.
        by_ms: u64,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
    /// All services are cut off from all servers, several times in a row.
    Outages {
        /// How often.
        times: u32,
        /// For how long each time, in milliseconds.
        for_ms: u64,
        /// The time between two, in milliseconds.
        pause_ms: u64,
    },
}

impl Fault {
    /// The name of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::DiskFull { .. } => "disk_full",
            Self::ClockBack { .. } => "clock_back",
            Self::Freeze { .. } => "freeze",
            Self::Drain { .. } => "drain",
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Broker { .. } => "broker",
            Self::Cql { .. } => "cql",
            Self::NoFetchers { .. } => "no_fetchers",
            Self::Cut { .. } => "cut",
            Self::CutOff { .. } => "cut_off",
            Self::Slow { .. } => "slow",
            Self::Outages { .. } => "outages",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { slot, back_after_ms, keeps_state } => {
                let on = if *keeps_state { "its state" } else { "no state" };
                write!(f, "kill {slot}, back on {on} after {back_after_ms} ms")
            }
            Self::OutOfMemory { slot, back_after_ms } => {
                write!(f, "let {slot} run out of memory, back after {back_after_ms} ms")
            }
            Self::DiskFull { for_ms } => write!(f, "fill the disk for {for_ms} ms"),
            Self::ClockBack { for_ms } => write!(f, "set all clocks back by an hour for {for_ms} ms"),
            Self::Freeze { slot, for_ms } => write!(f, "freeze {slot} for {for_ms} ms"),
            Self::Drain { slot, back_after_ms } => write!(f, "drain {slot}, back after {back_after_ms} ms"),
            Self::Add { slot } => write!(f, "add {slot}"),
            Self::Remove { slot } => write!(f, "remove {slot}"),
            Self::Broker { node, killed, away_ms } => {
                write!(f, "{} broker {node} for {away_ms} ms", if *killed { "kill" } else { "terminate" })
            }
            Self::Cql { away_ms } => write!(f, "kill the CQL server for {away_ms} ms"),
            Self::NoFetchers { away_ms } => write!(f, "kill all fetchers for {away_ms} ms"),
            Self::Cut { server, for_ms } => write!(f, "cut {server} off from all services for {for_ms} ms"),
            Self::CutOff { slot, for_ms } => write!(f, "cut {slot} off from all servers for {for_ms} ms"),
            Self::Slow { by_ms, for_ms } => write!(f, "slow the network by {by_ms} ms for {for_ms} ms"),
            Self::Outages { times, for_ms, pause_ms } => {
                write!(f, "cut all servers off {times} times for {for_ms} ms, {pause_ms} ms between")
            }
        }
    }
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Milliseconds after the seed was sown.
    pub at_ms: u64,
    /// What then happens.
    pub fault: Fault,
}

/// A fault that waits for a victim.
#[derive(Debug, Clone, Copy)]
enum Wish {
    Kill(Service),
    OutOfMemory(Service),
    DiskFull,
    ClockBack,
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
    Outages,
}

/// How much a schedule has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Brokers, each of which is unavailable once: one, or three that replicate.
    pub brokers: u8,
    /// Fetchers stay away for longer than a lease, and there are long outages.
    pub long: bool,
    /// The time between two faults is this many times as long.
    pub stretch: u32,
}

/// The schedule of a seed: each service is killed, frozen, drained and added to once, three are reduced, each broker, the CQL
/// server and all fetchers go away, one server is cut off from the services, a fetcher and another instance are cut off from the
/// servers, one instance runs out of memory, the disk is full, clocks are an hour behind and the network is slow for a while, in
/// an order and at times of the seed's choice. When it is over, each service has an instance again. With `long`, the fetchers stay
/// away for longer than a lease, and all servers are cut off for more than a minute three times in a row.
#[must_use]
pub fn schedule(seed: u64, extent: Extent) -> Vec<Step> {
    let mut planner = Planner::new(seed, extent);
    let mut wishes = planner.wishes();
    let mut steps = vec![];
    while !wishes.is_empty() {
        let found = wishes.iter().enumerate().find_map(|(at, wish)| Some((at, planner.grant(*wish)?)));
        if let Some((at, fault)) = found {
            wishes.remove(at);
            steps.push(Step { at_ms: planner.now_ms, fault });
        }
        planner.now_ms += planner.dice.roll(GAP_MS.0, GAP_MS.1) * u64::from(extent.stretch);
    }
    steps
}

struct Planner {
    dice: Dice,
    brokers: u8,
    now_ms: u64,
    away_ms: u64,
    is_long: bool,
    /// Who there is, and until when each is left alone.
    slots: BTreeMap<Slot, u64>,
    servers_free_ms: u64,
    added: u32,
}

impl Planner {
    fn new(seed: u64, extent: Extent) -> Self {
        let Extent { brokers, long, .. } = extent;
        // Neighbouring seeds are spread, and the zero that this generator cannot leave is avoided.
        let mut dice = Dice(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll(0, 1);
        }
        let slots = Service::ALL.into_iter().map(|service| (Slot { service, number: 1 }, 0)).collect();
        let away_ms = if long { LONGER_THAN_A_LEASE_MS } else { dice.roll(8_000, 14_000) };
        Self { dice, brokers, now_ms: FIRST_MS, away_ms, is_long: long, slots, servers_free_ms: 0, added: 1 }
    }

    /// All that is to happen, in an order of the seed's choice (Fisher and Yates).
    fn wishes(&mut self) -> Vec<Wish> {
        let mut wishes: Vec<_> = (1..=self.brokers).map(Wish::Broker).collect();
        wishes.extend([
            Wish::Cql,
            Wish::NoFetchers,
            Wish::Cut,
            Wish::Slow,
            Wish::DiskFull,
            Wish::ClockBack,
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

    /// The instances of a service that are not in the middle of something.
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

    /// The fault that is wished for, where it is possible now.
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
            Wish::ClockBack => {
                Fault::ClockBack { for_ms: if self.is_long { LONG_CLOCK_BACK_MS } else { CLOCK_BACK_MS } }
            }
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
                // Until the end there may be none to spare: then another service is reduced.
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

    /// Longer than a session, in milliseconds.
    fn beyond_a_session(&mut self) -> u64 {
        let session_ms = u64::try_from(SESSION.as_millis()).unwrap_or(u64::MAX);
        session_ms + self.dice.roll(BEYOND_A_SESSION_MS.0, BEYOND_A_SESSION_MS.1)
    }

    /// How long a server that is away may take to be back, in milliseconds.
    fn server_back_ms(&self) -> u64 {
        if self.brokers > 1 { ONE_OF_SEVERAL_BACK_MS } else { SERVER_BACK_MS }
    }

    /// Takes a server away for so long, when all are there.
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
