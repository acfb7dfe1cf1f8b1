//! Faults and their times.

use std::fmt;

use crate::{random::Random, settings::Service};

/// A fault. Machines are numbered per service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Kills a process; it comes back on the same machine (whose local index is kept) or on another.
    Kill(Machine, Back),
    /// Kills a process as it begins an append, after this many more appends.
    KillAtAppend(Machine, Back, u64),
    /// Kills a process when an append has landed, before the acknowledgement, after this many more appends.
    KillAtLanding(Machine, Back, u64),
    /// Fails an append, a part of which lands, after this many more appends.
    FailAppend(Machine, u64),
    /// Suspends a process for this many milliseconds.
    Freeze(Machine, u64),
    /// Suspends a process for this many milliseconds; it resumes shortly before its group notices.
    FreezeUnnoticed(Machine, u64),
    /// Suspends a process for this many milliseconds as it sends its next tombstone, which lands on resumption.
    FreezeAtTombstone(Machine, u64),
    /// Suspends a process for this many milliseconds as it sends its next record of a site, which lands on resumption.
    FreezeAtSite(Machine, u64),
    /// Isolates a process from the log, not from the web and the store, for this many milliseconds.
    CutOff(Machine, u64),
    /// Rejects the commits of a process for this many milliseconds.
    RefuseCommits(Machine, u64),
    /// Loses the response to every n-th commit of a process from now on.
    LoseCommitAnswers(Machine, u64),
    /// Sets the clocks of all machines by this many milliseconds, permanently. Running processes keep the time of their
    /// start, new ones use the new time; after a while the old ones are restarted.
    SetClocks(i64),
    /// Sets the clock of one machine by this many milliseconds, and back after this many. A running process keeps the
    /// time of its start; one that starts meanwhile does not join while others are working.
    SetClock(Machine, i64, u64),
    /// Stops a process gracefully; it comes back after this many milliseconds.
    Stop(Machine, u64),
    /// Adds a process of a service.
    Add(Service),
    /// Moves a partition.
    Move(Service),
    /// Moves a partition, its last topic this many milliseconds after the others.
    MoveApart(Service, u64),
    /// Kills all processes of a service; they come back after this many milliseconds.
    AllAway(Service, u64),
    /// Makes the log unavailable for this many milliseconds.
    LogUnavailable(u64),
    /// Makes the store unavailable for this many milliseconds.
    StoreAway(u64),
}

/// The target of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// The service of the process.
    pub service: Service,
    /// Number among the running processes of the service, modulo their count.
    pub number: u64,
}

/// Restart of a killed process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Back {
    /// Delay, in milliseconds.
    pub after_ms: u64,
    /// Whether its local index is lost.
    pub loses_index: bool,
}

/// A fault and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Milliseconds from the start.
    pub at_ms: u64,
    pub fault: Fault,
}

/// Maximum deviation of a machine's clock in milliseconds, so that two never differ by more than
/// `orbweaver_messages::CLOCK_MARGIN_MS`.
pub const CLOCK_OFF_MS: u64 = 2_500;

/// Amount by which clocks are set.
const HOUR_MS: i64 = 3_600_000;

impl Fault {
    /// Returns the kind, for counts.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kill(..) => "killed",
            Self::KillAtAppend(..) => "killed at an append",
            Self::KillAtLanding(..) => "killed before an acknowledgement",
            Self::FailAppend(..) => "append failed in part",
            Self::Freeze(..) => "frozen",
            Self::FreezeUnnoticed(..) => "frozen, and woken unnoticed",
            Self::FreezeAtTombstone(..) => "frozen at a tombstone",
            Self::FreezeAtSite(..) => "frozen at a record of a site",
            Self::CutOff(..) => "cut off from the log",
            Self::RefuseCommits(..) => "commits refused",
            Self::LoseCommitAnswers(..) => "answers to commits lost",
            Self::SetClocks(..) => "clocks set",
            Self::SetClock(..) => "clock of one machine set",
            Self::Stop(..) => "stopped in order",
            Self::Add(..) => "added",
            Self::Move(..) => "partition moved",
            Self::MoveApart(..) => "partition moved topic by topic",
            Self::AllAway(..) => "service away",
            Self::LogUnavailable(..) => "log away",
            Self::StoreAway(..) => "store away",
        }
    }

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
            96..98 => Self::LogUnavailable(random.between(1_000, 60_000)),
            _ => Self::StoreAway(random.between(1_000, 60_000)),
        }
    }

    /// Draws the faults of a schedule.
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

/// Draws the deviation of a machine's clock, in milliseconds.
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
                write!(
                    f,
                    "{machine} is killed when an append has landed unacknowledged, {after} more before it, {back}"
                )
            }
            Fault::FailAppend(machine, after) => {
                write!(f, "{machine}: an append fails in part, {after} more before it")
            }
            Fault::Freeze(machine, ms) => write!(f, "{machine} is frozen for {ms} ms"),
            Fault::FreezeUnnoticed(machine, ms) => write!(f, "{machine} is frozen for {ms} ms, and wakes unnoticed"),
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
            Fault::SetClock(machine, by_ms, ms) => {
                write!(f, "the clock of {machine} is set by {by_ms} ms, and back after {ms} ms")
            }
            Fault::Stop(machine, ms) => write!(f, "{machine} is stopped in order, back after {ms} ms"),
            Fault::Add(service) => write!(f, "one more {} joins", service.name()),
            Fault::Move(service) => write!(f, "a partition of {} moves", service.name()),
            Fault::MoveApart(service, ms) => {
                write!(f, "a partition of {} moves, its last topic {ms} ms after the others", service.name())
            }
            Fault::AllAway(service, ms) => write!(f, "every {} is killed, back after {ms} ms", service.name()),
            Fault::LogUnavailable(ms) => write!(f, "the log is unavailable for {ms} ms"),
            Fault::StoreAway(ms) => write!(f, "the store is unavailable for {ms} ms"),
        }
    }
}
