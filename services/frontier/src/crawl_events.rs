//! Events of crawls (docs/protocol.md#crawl-events): decides which one is due, from the last one in `crawl.events`. Pure.

#[cfg(test)]
mod tests;
mod writer;

use orbweaver_messages::{CrawlDefinition, CrawlEvent, CrawlEventKind, Millis};
use orbweaver_stage::crawl_completion::CrawlTotals;
use orbweaver_url::CrawlName;

use crate::pages::CrawlCounts;

pub(crate) use writer::EVENTS_PARTITION;
pub use writer::EventWriter;

/// Minimum time between two proofs that a crawl is still, or again, complete, in milliseconds.
const SHORTEST_ROUND_MS: Millis = 60_000;

/// State of a crawl, as far as the owner of partition 0 knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrawlState {
    pub name: CrawlName,
    /// Version of its definition.
    pub version: u64,
    pub is_paused: bool,
    pub is_stopped: bool,
    pub is_deleted: bool,
    /// Shortest interval between two visits, in milliseconds; `None` if the crawl has no revisits, or is stopped.
    pub revisit_ms: Option<u64>,
    /// Whether it has reached one of its caps.
    pub is_at_cap: bool,
    /// Number of changes of its counts that the owner knows of, also of those to the same values; 0 if no URL of it was ever queued.
    pub changes: u64,
    pub counts: CrawlCounts,
}

impl CrawlState {
    pub(crate) fn of(version: u64, definition: &CrawlDefinition) -> Self {
        let CrawlDefinition { name, paused, stopped, deleted, revisit, .. } = definition;
        Self {
            name: name.clone(),
            version,
            is_paused: *paused,
            is_stopped: *stopped,
            is_deleted: *deleted,
            revisit_ms: revisit.as_ref().filter(|_| !stopped).map(|policy| policy.interval_ms),
            is_at_cap: false,
            changes: 0,
            counts: CrawlCounts::default(),
        }
    }

    /// Returns `true` if all that is left of the crawl, as far as it is known here, is held at its cap or sleeps.
    fn is_idle(&self) -> bool {
        self.counts.leased == 0 && (self.counts.live == 0 || self.is_at_cap)
    }

    /// Returns the event of this kind, which follows `last`.
    fn event(&self, last: Option<&CrawlEvent>, kind: CrawlEventKind, now: Millis) -> CrawlEvent {
        use CrawlEventKind::{Capped, Complete, Deleted, Paused, Reopened, Resumed, RoundComplete, Stopped};
        let CrawlCounts { pages, bytes, leased, live, asleep } = self.counts;
        let was = |of: fn(&CrawlEvent) -> bool| last.is_some_and(of);
        CrawlEvent {
            crawl: self.name.clone(),
            kind,
            version: self.version,
            at_ms: now,
            paused: match kind {
                Paused => true,
                Resumed | Stopped | Deleted => false,
                _ => was(|last| last.paused),
            },
            stopped: kind == Stopped || was(|last| last.stopped),
            complete: match kind {
                Capped | RoundComplete | Complete => true,
                Reopened | Stopped => false,
                _ => was(|last| last.complete),
            },
            pages,
            bytes,
            queued: live,
            asleep,
            in_flight: leased,
        }
    }

    /// Returns the event of a crawl that is proven complete with these counts.
    fn proven(&self, last: Option<&CrawlEvent>, totals: CrawlTotals, now: Millis) -> CrawlEvent {
        let CrawlTotals { live, asleep, pages, bytes, .. } = totals;
        // Without revisits by now, the next visits that were planned still take place.
        let kind = match (live, asleep) {
            (1.., _) => CrawlEventKind::Capped,
            (0, 1..) => CrawlEventKind::RoundComplete,
            (0, 0) => CrawlEventKind::Complete,
        };
        // An owner of an earlier version answers without pages.
        let (pages, bytes) = (pages.max(self.counts.pages), bytes.max(self.counts.bytes));
        CrawlEvent { pages, bytes, queued: live, asleep, in_flight: 0, ..self.event(last, kind, now) }
    }
}

/// Next step for a crawl.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Write(CrawlEventKind),
    /// The crawl is complete, unless its counts are out of date: it must be proven.
    Prove,
    Nothing,
}

/// Decides the next step for a crawl after its last event. `has_moved`: its counts have changed since then.
fn next_step(last: Option<&CrawlEvent>, state: &CrawlState, has_moved: bool, now: Millis) -> Step {
    let Some(last) = last else {
        return if state.is_deleted { Step::Nothing } else { Step::Write(CrawlEventKind::Created) };
    };
    // A later definition is in force, which this owner has not read.
    if state.version < last.version || last.kind == CrawlEventKind::Deleted {
        return Step::Nothing;
    }
    if state.is_deleted {
        return Step::Write(CrawlEventKind::Deleted);
    }
    if state.is_stopped && !last.stopped {
        return Step::Write(CrawlEventKind::Stopped);
    }
    if state.is_paused != last.paused && !state.is_stopped {
        let kind = if state.is_paused { CrawlEventKind::Paused } else { CrawlEventKind::Resumed };
        return Step::Write(kind);
    }
    let CrawlCounts { live, asleep, .. } = state.counts;
    // URLs of a paused crawl are not held by the cap alone, and those of a stopped one that sleep will end soon.
    let is_held = state.is_paused && live > 0 || state.is_stopped && asleep > 0;
    let has_rounds = state.revisit_ms.is_some() || last.asleep > 0;
    let is_due = if !last.complete || last.asleep > 0 && asleep == 0 {
        true
    } else {
        // URLs that are found and end between two counts leave no other trace.
        let round_ms = Millis::try_from(state.revisit_ms.unwrap_or(0)).unwrap_or(Millis::MAX);
        has_moved && now.saturating_sub(last.at_ms) >= round_ms.max(SHORTEST_ROUND_MS)
    };
    if state.changes > 0 && state.is_idle() && !is_held && is_due {
        return Step::Prove;
    }
    let is_reopened = last.complete && !has_rounds && !state.is_idle();
    if is_reopened { Step::Write(CrawlEventKind::Reopened) } else { Step::Nothing }
}
