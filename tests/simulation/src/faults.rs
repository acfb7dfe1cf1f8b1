//! What goes wrong, and when.

use std::fmt;

use crate::{random::Random, settings::Service};

/// What goes wrong. Machines are numbered within their service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed and comes back, on the same machine (whose local index is kept) or another.
    Kill(Machine, Back),
    /// It is killed when it begins its next append but `after`.
    KillAtAppend(Machine, Back, u64),
    /// It is killed when its next append but `after` has landed, before it hears of it.
    KillAtLanding(Machine, Back, u64),
    /// Its next append but `after` fails, a part of it landed.
    FailAppend(Machine, u64),
    /// It is frozen for so many milliseconds.
    Freeze(Machine, u64),
    /// It is frozen for so many milliseconds, and wakes a moment before its group hears of it.
    FreezeUnheard(Machine, u64),
    /// It is frozen for so many milliseconds as it sends its next tombstone, which lands when it wakes.
    FreezeAtTombstone(Machine, u64),
    /// A process is frozen for this number of milliseconds as it sends its next record of a site, which lands when it wakes.
    FreezeAtSite(Machine, u64),
    /// It reaches the web and the store, but not the log, for so many milliseconds.
    CutOff(Machine, u64),
    /// Its commits are refused for so many milliseconds.
    RefuseCommits(Machine, u64),
    /// Of every so many commits from now on the answer to one is lost.
    LoseCommitAnswers(Machine, u64),
    /// The clocks of all machines are set by so many milliseconds, and stay so: processes that run go on by the time that
    /// they began with, those that begin later begin with the new one, and after a while the old ones are started again.
    SetClocks(i64),
    /// It ends in order, and comes back after so many milliseconds.
    Stop(Machine, u64),
    /// One more process of a service joins.
    Add(Service),
    /// A partition moves.
    Move(Service),
    /// A partition moves, its last topic this number of milliseconds after the others.
    MoveApart(Service, u64),
    /// All processes of a service are killed, and come back after so many milliseconds.
    AllAway(Service, u64),
    /// The log is away for so many milliseconds.
    LogAway(u64),
    /// The store is away for so many milliseconds.
    StoreAway(u64),
}

/// A process' place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Of which service.
    pub service: Service,
    /// Its number among them.
    pub number: u64,
}

/// How a killed process comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Back {
    /// After so many milliseconds.
    pub after_ms: u64,
    /// Without what was on its disk.
    pub loses_index: bool,
}

/// A fault and its moment, in milliseconds from the begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When.
    pub at_ms: u64,
    /// What.
    pub fault: Fault,
}

/// The most milliseconds by which a machine's clock is off, so that two are never farther apart than
/// `orbweaver_messages::CLOCK_MARGIN_MS`.
pub const CLOCK_OFF_MS: u64 = 2_500;

/// By how much clocks are set.
const HOUR_MS: i64 = 3_600_000;

impl Fault {
    /// Its kind, for counts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill(..) => "killed",
            Self::KillAtAppend(..) => "killed at an append",
            Self::KillAtLanding(..) => "killed before an acknowledgement",
            Self::FailAppend(..) => "append failed in part",
            Self::Freeze(..) => "frozen",
            Self::FreezeUnheard(..) => "frozen, and woken unheard",
            Self::FreezeAtTombstone(..) => "frozen at a tombstone",
            Self::FreezeAtSite(..) => "frozen at a record of a site",
            Self::CutOff(..) => "cut off from the log",
            Self::RefuseCommits(..) => "commits refused",
            Self::LoseCommitAnswers(..) => "answers to commits lost",
            Self::SetClocks(..) => "clocks set",
            Self::Stop(..) => "stopped in order",
            Self::Add(..) => "added",
            Self::Move(..) => "partition moved",
            Self::MoveApart(..) => "partition moved topic by topic",
            Self::AllAway(..) => "service away",
            Self::LogAway(..) => "log away",
            Self::StoreAway(..) => "store away",
        }
    }

    /// Draws one.
    fn draw(random: &mut Random) -> Self {
        let service = random.pick(&Service::ALL);
        let machine = Machine { service, number: random.below(3) };
        let long = |random: &mut Random| match random.below(4) {
            0 => random.between(500, 8_000),
            1 => random.between(8_000, 44_000),
            _ => random.between(46_000, 100_000),
        };
        let back = |random: &mut Random| Back {
            after_ms: random.pick(&[200, 2_000, 10_000, 50_000]),
            loses_index: random.chance(40),
        };
        match random.below(100) {
            0..14 => Self::Kill(machine, back(random)),
            14..24 => Self::KillAtAppend(machine, back(random), random.below(6)),
            24..34 => Self::KillAtLanding(machine, back(random), random.below(6)),
            34..42 => Self::FailAppend(machine, random.below(6)),
            42..54 => Self::Freeze(machine, long(random)),
            54..62 => Self::CutOff(machine, long(random).min(55_000)),
            62..67 => Self::RefuseCommits(machine, random.between(500, 50_000)),
            67..70 => Self::LoseCommitAnswers(machine, random.between(1, 5)),
            70..74 => Self::SetClocks(random.pick(&[-HOUR_MS, HOUR_MS])),
            74..80 => Self::Stop(machine, random.between(500, 30_000)),
            80..84 => Self::Add(service),
            84..94 => Self::Move(service),
            94..96 => Self::AllAway(service, random.pick(&[20_000, 60_000, 140_000, 300_000])),
            96..98 => Self::LogAway(random.between(1_000, 60_000)),
            _ => Self::StoreAway(random.between(1_000, 60_000)),
        }
    }

    /// Draws what goes wrong in a schedule.
    #[must_use]
    pub fn plan(random: &mut Random) -> Vec<Planned> {
        let count = random.pick(&[0, 1, 2, 3, 4, 5, 6, 8, 12]);
        let mut window_ms = random.pick(&[5_000, 30_000, 90_000]);
        let mut planned: Vec<Planned> = vec![];
        for _ in 0..count {
            planned.push(Planned { at_ms: random.between(0, window_ms), fault: Self::draw(random) });
            window_ms += 1_000;
        }
        planned.sort_by_key(|planned| planned.at_ms);
        planned
    }
}

/// By how much a machine's clock is off.
pub(crate) fn skew(random: &mut Random) -> i64 {
    let off = random.between(0, 2 * CLOCK_OFF_MS);
    i64::try_from(off).unwrap_or_default() - i64::try_from(CLOCK_OFF_MS).unwrap_or_default()
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.service.name(), self.number)
    }
}

impl fmt::Display for Back {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = if self.loses_index { ", without its local index" } else { "" };
        write!(f, "back after {} ms{index}", self.after_ms)
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ms: ", self.at_ms)?;
        match &self.fault {
            Fault::Kill(machine, back) => write!(f, "{machine} is killed, {back}"),
            Fault::KillAtAppend(machine, back, after) => {
                write!(f, "{machine} is killed as it begins an append, {after} more before it, {back}")
            }
            Fault::KillAtLanding(machine, back, after) => {
                write!(f, "{machine} is killed when an append has landed unheard, {after} more before it, {back}")
            }
            Fault::FailAppend(machine, after) => {
                write!(f, "{machine}: an append fails in part, {after} more before it")
            }
            Fault::Freeze(machine, ms) => write!(f, "{machine} is frozen for {ms} ms"),
            Fault::FreezeUnheard(machine, ms) => write!(f, "{machine} is frozen for {ms} ms, and wakes unheard"),
            Fault::FreezeAtTombstone(machine, ms) => {
                write!(f, "{machine} is frozen for {ms} ms as it sends a tombstone")
            }
            Fault::FreezeAtSite(machine, ms) => {
                write!(f, "{machine} is frozen for {ms} ms as it sends a record of a site")
            }
            Fault::CutOff(machine, ms) => write!(f, "{machine} is cut off from the log for {ms} ms"),
            Fault::RefuseCommits(machine, ms) => write!(f, "{machine}: commits are refused for {ms} ms"),
            Fault::LoseCommitAnswers(machine, every) => {
                write!(f, "{machine}: the answer to each commit of {every} is lost from now on")
            }
            Fault::SetClocks(ms) => write!(f, "all clocks are set by {ms} ms"),
            Fault::Stop(machine, ms) => write!(f, "{machine} is stopped in order, back after {ms} ms"),
            Fault::Add(service) => write!(f, "one more {} joins", service.name()),
            Fault::Move(service) => write!(f, "a partition of {} moves", service.name()),
            Fault::MoveApart(service, ms) => {
                write!(f, "a partition of {} moves, its last topic {ms} ms after the others", service.name())
            }
            Fault::AllAway(service, ms) => write!(f, "every {} is killed, back after {ms} ms", service.name()),
            Fault::LogAway(ms) => write!(f, "the log is away for {ms} ms"),
            Fault::StoreAway(ms) => write!(f, "the store is away for {ms} ms"),
        }
    }
}
