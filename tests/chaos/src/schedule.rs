//! What goes wrong, and when: a seed gives a list, purely.

use std::collections::BTreeMap;
use std::fmt;

use orbweaver_cluster_tests::Service;
use orbweaver_pipeline_tests::Dice;

/// When the first fault comes, in milliseconds: something is under way by then.
const FIRST_MS: u64 = 4_000;
/// Least and most time from one fault to the next, in milliseconds.
const GAP_MS: (u64, u64) = (1_200, 3_600);
/// How long a process is frozen, in milliseconds: longer than the six seconds of a session on the brokers of `tests/stack`.
const FROZEN_MS: (u64, u64) = (7_000, 11_000);
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
}

impl Fault {
    /// The name of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill",
            Self::Freeze { .. } => "freeze",
            Self::Drain { .. } => "drain",
            Self::Add { .. } => "add",
            Self::Remove { .. } => "remove",
            Self::Broker { .. } => "broker",
            Self::Cql { .. } => "cql",
            Self::NoFetchers { .. } => "no_fetchers",
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
            Self::Freeze { slot, for_ms } => write!(f, "freeze {slot} for {for_ms} ms"),
            Self::Drain { slot, back_after_ms } => write!(f, "drain {slot}, back after {back_after_ms} ms"),
            Self::Add { slot } => write!(f, "add {slot}"),
            Self::Remove { slot } => write!(f, "remove {slot}"),
            Self::Broker { node, killed, away_ms } => {
                write!(f, "{} broker {node} for {away_ms} ms", if *killed { "kill" } else { "terminate" })
            }
            Self::Cql { away_ms } => write!(f, "kill the CQL server for {away_ms} ms"),
            Self::NoFetchers { away_ms } => write!(f, "kill all fetchers for {away_ms} ms"),
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
    Freeze(Service),
    Drain(Service),
    Add(Service),
    Remove(Service),
    Broker(u8),
    Cql,
    NoFetchers,
}

/// The schedule of a seed: each service is killed, frozen, drained and added to once, three are reduced, each broker, the CQL
/// server and all fetchers go away, in an order and at times of the seed's choice. When it is over, each service has an
/// instance again. With `long`, the fetchers stay away for longer than a lease.
#[must_use]
pub fn schedule(seed: u64, brokers: u8, long: bool) -> Vec<Step> {
    let mut planner = Planner::new(seed, brokers, long);
    let mut wishes = planner.wishes();
    let mut steps = vec![];
    while !wishes.is_empty() {
        let found = wishes.iter().enumerate().find_map(|(at, wish)| Some((at, planner.grant(*wish)?)));
        if let Some((at, fault)) = found {
            wishes.remove(at);
            steps.push(Step { at_ms: planner.now_ms, fault });
        }
        planner.now_ms += planner.dice.roll(GAP_MS.0, GAP_MS.1);
    }
    steps
}

struct Planner {
    dice: Dice,
    brokers: u8,
    now_ms: u64,
    away_ms: u64,
    /// Who there is, and until when each is left alone.
    slots: BTreeMap<Slot, u64>,
    servers_free_ms: u64,
    added: u32,
}

impl Planner {
    fn new(seed: u64, brokers: u8, long: bool) -> Self {
        // Neighbouring seeds are spread, and the zero that this generator cannot leave is avoided.
        let mut dice = Dice(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            dice.roll(0, 1);
        }
        let slots = Service::ALL.into_iter().map(|service| (Slot { service, number: 1 }, 0)).collect();
        let away_ms = if long { LONGER_THAN_A_LEASE_MS } else { dice.roll(8_000, 14_000) };
        Self { dice, brokers, now_ms: FIRST_MS, away_ms, slots, servers_free_ms: 0, added: 1 }
    }

    /// All that is to happen, in an order of the seed's choice (Fisher and Yates).
    fn wishes(&mut self) -> Vec<Wish> {
        let mut wishes: Vec<_> = (1..=self.brokers).map(Wish::Broker).collect();
        wishes.extend([Wish::Cql, Wish::NoFetchers]);
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
            Wish::Freeze(service) => {
                let for_ms = self.dice.roll(FROZEN_MS.0, FROZEN_MS.1);
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
                Fault::Broker { node, killed, away_ms: self.server()? }
            }
            Wish::Cql => Fault::Cql { away_ms: self.server()? },
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

    /// Takes a server away when all are there, and tells for how long.
    fn server(&mut self) -> Option<u64> {
        let away_ms = self.dice.roll(500, 8_000);
        if self.servers_free_ms > self.now_ms {
            return None;
        }
        let back_ms = if self.brokers > 1 { ONE_OF_SEVERAL_BACK_MS } else { SERVER_BACK_MS };
        self.servers_free_ms = self.now_ms + away_ms + back_ms;
        Some(away_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_schedule_always_and_another_seed_another() {
        for seed in 0..200 {
            assert_eq!(schedule(seed, 3, false), schedule(seed, 3, false));
            assert_ne!(schedule(seed, 3, false), schedule(seed + 1, 3, false));
        }
    }

    #[test]
    fn every_service_is_killed_frozen_drained_and_added_to_and_every_server_goes_away() {
        for (seed, brokers) in (0..200).zip([1, 3].into_iter().cycle()) {
            let steps = schedule(seed, brokers, false);
            let count = |kind: &str| steps.iter().filter(|step| step.fault.kind() == kind).count();
            let counts = ["kill", "freeze", "drain", "add", "remove", "broker", "cql", "no_fetchers"].map(count);
            assert_eq!(counts, [5, 5, 5, 5, 3, usize::from(brokers), 1, 1], "seed {seed}");
            for number in 1..=brokers {
                assert!(steps.iter().any(|step| matches!(step.fault, Fault::Broker { node, .. } if node == number)));
            }
            assert!(steps.is_sorted_by_key(|step| step.at_ms));
            assert!(steps.last().unwrap().at_ms < 150_000, "seed {seed}");
        }
    }

    #[test]
    fn nobody_is_disturbed_who_is_not_there_and_each_service_has_an_instance_at_the_end() {
        for seed in 0..200 {
            let mut there: Vec<_> = Service::ALL.into_iter().map(|service| Slot { service, number: 1 }).collect();
            for step in schedule(seed, 3, false) {
                match step.fault {
                    Fault::Add { slot } => {
                        assert!(!there.contains(&slot));
                        there.push(slot);
                    }
                    Fault::Remove { slot } => {
                        assert!(there.contains(&slot));
                        there.retain(|other| *other != slot);
                    }
                    Fault::Kill { slot, .. } | Fault::Freeze { slot, .. } | Fault::Drain { slot, .. } => {
                        assert!(there.contains(&slot), "seed {seed}: {}", step.fault);
                    }
                    Fault::Broker { .. } | Fault::Cql { .. } | Fault::NoFetchers { .. } => {}
                }
            }
            assert!(Service::ALL.iter().all(|service| there.iter().any(|slot| slot.service == *service)));
        }
    }

    #[test]
    fn a_freeze_is_longer_than_a_session_and_a_long_schedule_outlasts_a_lease() {
        let steps = schedule(3, 3, true);
        for step in &steps {
            match step.fault {
                Fault::Freeze { for_ms, .. } => assert!(for_ms > 6_000),
                Fault::NoFetchers { away_ms } => {
                    assert!(away_ms > orbweaver_messages::LEASE_MS.unsigned_abs());
                }
                _ => {}
            }
        }
    }
}
