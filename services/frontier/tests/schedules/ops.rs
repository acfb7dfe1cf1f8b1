//! The events that may occur in a schedule.

use std::collections::HashSet;

use orbweaver_messages::{DiscoveryKind, DispatchId, EXTERNAL_DEPTH, Millis, OutcomeKind, REQUISITE_DEPTH};
use orbweaver_url::Fingerprint;
use proptest::prelude::*;

use crate::world::World;

#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// A new URL of one of four sites is admitted.
    Admit(u8),
    /// A new requisite or external URL of one of four sites is admitted.
    Require(u8),
    /// A URL that was admitted before is admitted again.
    Again(u8),
    /// A sitemap lists a URL that was admitted before as modified now, or a second ago.
    List(u8),
    /// Forty pages of a trap, on one of four sites, lead to one URL of the trap each.
    Flood(u8),
    /// The oldest dispatch ends with this outcome.
    Answer(OutcomeKind),
    /// The oldest dispatch is lost.
    Lose,
    /// The oldest dispatch ends with this outcome, which arrives twice.
    Repeat(OutcomeKind),
    /// The crawl is redefined; the frontier reads half of the definitions only together with the next one.
    Define(u8),
    /// Time passes.
    Pass(u16),
    /// The frontier writes the changes that its index keeps in memory.
    Write,
    /// The process is killed and restarts: from the checkpoint of its index if that is on disk, otherwise from the
    /// commit points.
    Crash,
    /// The process is killed and restarts, and its index was lost or is not trusted.
    CrashWithoutIndex,
    /// The oldest dispatch ends with this outcome, and a URL is admitted again before the frontier carries out its
    /// decisions. The process is killed after a few more records, and restarts.
    Cut(OutcomeKind, u8),
    /// A former owner resumes: its tombstone is appended now, for a record that a later one of the same URL has
    /// replaced.
    Stale(u8),
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        4 => Just(OutcomeKind::Fetched),
        1 => Just(OutcomeKind::Gone),
        2 => Just(OutcomeKind::Retry),
        1 => Just(OutcomeKind::Blocked),
        2 => Just(OutcomeKind::Deferred),
    ];
    prop_oneof![
        4 => any::<u8>().prop_map(Op::Admit),
        1 => any::<u8>().prop_map(Op::Require),
        1 => any::<u8>().prop_map(Op::Again),
        1 => any::<u8>().prop_map(Op::List),
        2 => any::<u8>().prop_map(Op::Flood),
        6 => kind.clone().prop_map(Op::Answer),
        1 => Just(Op::Lose),
        1 => kind.clone().prop_map(Op::Repeat),
        1 => (kind, any::<u8>()).prop_map(|(kind, demoted)| Op::Cut(kind, demoted)),
        1 => any::<u8>().prop_map(Op::Define),
        3 => any::<u16>().prop_map(Op::Pass),
        1 => Just(Op::Write),
        1 => Just(Op::Crash),
        1 => Just(Op::CrashWithoutIndex),
        1 => any::<u8>().prop_map(Op::Stale),
    ]
}

impl World {
    /// Admits a requisite or an external URL.
    fn require(&mut self, site: u8) {
        let mut waiting = self.new_url(site, "");
        (waiting.context.depth, waiting.context.sighting) = if site.is_multiple_of(2) {
            (REQUISITE_DEPTH, DiscoveryKind::Requisite)
        } else {
            (EXTERNAL_DEPTH, DiscoveryKind::External)
        };
        self.admitted += u32::from(self.find(waiting));
    }

    pub(crate) fn play(&mut self, op: &Op) {
        match *op {
            Op::Admit(site) => self.admit(site),
            Op::Require(site) => self.require(site),
            Op::Again(demoted) => self.admit_again(demoted),
            Op::List(which) => self.list(which),
            Op::Flood(site) => (0..40).for_each(|_| self.admit_trap(site)),
            Op::Answer(kind) => self.answer(kind, 1),
            Op::Repeat(kind) => self.answer(kind, 2),
            Op::Lose if self.in_flight.is_empty() => {}
            Op::Lose => drop(self.in_flight.remove(0)),
            Op::Define(what) => self.control.define(what),
            Op::Pass(by) => self.now += Millis::from(by),
            Op::Write => self.frontier.write().unwrap(),
            Op::Crash => self.crash(true),
            Op::CrashWithoutIndex => self.crash(false),
            Op::Cut(kind, demoted) => {
                self.answer(kind, 1);
                self.cut(demoted, usize::from(demoted % 5));
                self.crash(demoted >= 128);
            }
            Op::Stale(demoted) => {
                self.bury_late(demoted);
                // The tombstone is not read before the next owner restores it.
                self.crash(demoted >= 128);
            }
        }
        self.settle();
        // A URL whose outcome was received is not leased, after a restart either.
        let answered: HashSet<DispatchId> = self.outcomes.iter().map(|outcome| outcome.id).collect();
        let without = self.scheduled.iter().filter(|dispatch| !answered.contains(&dispatch.id));
        let without: HashSet<Fingerprint> = without.map(|dispatch| dispatch.context.fingerprint).collect();
        assert!(self.frontier.load().1 <= without.len(), "a URL is leased although its dispatch has an outcome");
    }
}
