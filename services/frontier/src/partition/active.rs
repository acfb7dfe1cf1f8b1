//! URLs that are leased, or whose records are being written.

use orbweaver_log::Offset;
use orbweaver_messages::{DiscoveryKind, DispatchId, FrontierUrl, Millis, UrlContext};
use orbweaver_stage::Origin;

use super::{Ending, merge::is_update};
use crate::index::IndexEntry;

/// State of a URL that is not idle.
#[derive(Debug)]
pub(super) enum ActiveState {
    /// Awaits the outcome of a dispatch.
    Leased(DispatchId, Box<FrontierUrl>),
    /// Awaits its own new record, which was appended and has not been read back (docs/protocol.md#one-write-per-key:
    /// one outstanding write for each key).
    Rewriting(Rewriting),
    /// The record at this offset has ended, at this depth; its tombstone was appended and has not been read back. A
    /// record that survives the tombstone keeps this time of the previous write to the store.
    Ended(Offset, u16, Millis),
}

/// New record of a URL that is being written.
#[derive(Debug)]
pub(super) struct Rewriting {
    /// Number of its visit.
    pub(super) visit: u32,
    /// Time of the previous write to the store in the record.
    pub(super) written_at_ms: Millis,
    /// Outcomes that have ended this visit meanwhile; they complete with the record that follows.
    pub(super) ended: Vec<(Origin, Ending)>,
    /// Record of an earlier visit that demands another one now, and its origin.
    pub(super) again: Option<(Origin, Box<FrontierUrl>)>,
}

impl Rewriting {
    pub(super) fn of(waiting: &FrontierUrl) -> Self {
        let (visit, written_at_ms) = (waiting.context.visit, waiting.written_at_ms);
        Self { visit, written_at_ms, ended: vec![], again: None }
    }
}

#[derive(Debug)]
pub(super) struct Active {
    /// Entry of the URL in the index.
    pub(super) entry: IndexEntry,
    pub(super) busy: ActiveState,
}

impl Active {
    /// Returns the latest known event time of the URL's writes to the store; 0: none.
    pub(super) fn written_at_ms(&self) -> Millis {
        match &self.busy {
            ActiveState::Leased(_, waiting) => waiting.written_at_ms,
            ActiveState::Rewriting(rewriting) => rewriting.written_at_ms,
            ActiveState::Ended(_, _, written_at_ms) => *written_at_ms,
        }
    }

    /// Returns `true` if a copy with a lesser depth takes precedence over this record: a queued copy of an ended URL, or
    /// one whose own new record will follow this one. Also if that is the record of a later visit, or this is an update.
    pub(super) fn precedes(&self, waiting: &FrontierUrl) -> bool {
        let is_lesser = self.entry.depth < waiting.context.depth || is_update(waiting);
        match &self.busy {
            ActiveState::Leased(..) => false,
            ActiveState::Rewriting(Rewriting { visit, .. }) if *visit > waiting.context.visit => true,
            ActiveState::Rewriting(Rewriting { visit, .. }) => *visit == waiting.context.visit && is_lesser,
            ActiveState::Ended(ended, ..) => self.entry.offset != *ended && is_lesser,
        }
    }

    /// Keeps a record of an earlier visit than that of the new record, if it demands another visit; of two, the one with
    /// the lesser depth. Returns the origin of the one that is not kept.
    pub(super) fn keep(&mut self, origin: Origin, waiting: &FrontierUrl) -> Option<Origin> {
        let UrlContext { visit: earlier, depth, sighting, .. } = waiting.context;
        let ActiveState::Rewriting(Rewriting { visit, again, .. }) = &mut self.busy else { return Some(origin) };
        let demands = depth < self.entry.depth || sighting == DiscoveryKind::Recrawl;
        let is_kept = again.as_ref().is_some_and(|(_, kept)| kept.context.depth <= depth);
        if *visit <= earlier || !demands || is_kept {
            return Some(origin);
        }
        again.replace((origin, Box::new(waiting.clone()))).map(|(origin, _)| origin)
    }
}
