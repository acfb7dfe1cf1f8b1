//! Counts of URLs by result.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use orbweaver_messages::{ChangeKind, DiscoveryKind, Outcome, OutcomeKind};
use serde::{Deserialize, Serialize};

/// Counts of the lines in `urls.jsonl` and `documents.jsonl`; part of the checkpoint, and therefore exact even after a
/// crash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Fetched pages: outcome `fetched`, without requisites and external URLs.
    pub fetched: u64,
    /// Fetched requisites.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requisites: u64,
    /// External URLs that exist.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub external: u64,
    /// Lines of `documents.jsonl`.
    pub documents: u64,
    /// Documents among them of pages without content, whose scripts only a browser would run.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub needs_render: u64,
    /// Documents among them that are marked as near duplicates.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub near_duplicates: u64,
    /// Outcome `unchanged`.
    pub unchanged: u64,
    /// Outcome `redirected`.
    pub redirected: u64,
    /// Outcome `refused`, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Outcome `gone`, by reason.
    pub gone: BTreeMap<String, u64>,
    /// Attempts with a transient failure, by reason; each was or will be retried.
    pub retries: BTreeMap<String, u64>,
    /// Responses with status 429 or 503.
    pub blocked: u64,
    /// Lines of `changes.jsonl`, by kind.
    #[serde(default)]
    pub changes: BTreeMap<String, u64>,
    /// Decoded bytes of all bodies.
    pub bytes: u64,
}

/// Maximum number of reasons that are counted separately; all others are counted as `other`.
const MAX_REASONS: usize = 100;

impl Tally {
    /// Counts a URL that ended.
    pub fn ended(&mut self, outcome: &Outcome) {
        self.bytes += outcome.bytes;
        match outcome.kind {
            OutcomeKind::Fetched => match outcome.context.sighting {
                DiscoveryKind::Requisite => self.requisites += 1,
                DiscoveryKind::External => self.external += 1,
                _ => self.fetched += 1,
            },
            OutcomeKind::Unchanged => self.unchanged += 1,
            OutcomeKind::Redirected => self.redirected += 1,
            OutcomeKind::Refused => count(&mut self.refused, outcome.reason.as_deref()),
            OutcomeKind::Gone => count(&mut self.gone, outcome.reason.as_deref()),
            OutcomeKind::Blocked | OutcomeKind::Retry | OutcomeKind::Deferred => {}
        }
    }

    /// Counts a change of a page.
    pub fn changed(&mut self, kind: ChangeKind) {
        count(&mut self.changes, Some(kind.name()));
    }

    /// Counts an attempt that did not end its URL.
    pub fn passed(&mut self, outcome: &Outcome) {
        match outcome.kind {
            OutcomeKind::Retry => count(&mut self.retries, outcome.reason.as_deref()),
            OutcomeKind::Blocked => self.blocked += 1,
            _ => {}
        }
    }

    /// Returns the number of URLs with a successful response: fetched, unchanged, redirected, or refused for their
    /// content type.
    #[must_use]
    pub fn answered(&self) -> u64 {
        let others = self.unchanged + self.redirected;
        let fetched = self.fetched + self.requisites + self.external;
        fetched + others + self.refused.get("content_type").copied().unwrap_or_default()
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde expects")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn count(counts: &mut BTreeMap<String, u64>, reason: Option<&str>) {
    let reason = reason.unwrap_or("unknown");
    if let Some(known) = counts.get_mut(reason) {
        *known += 1;
    } else if counts.len() < MAX_REASONS {
        counts.insert(reason.to_owned(), 1);
    } else {
        *counts.entry("other".to_owned()).or_default() += 1;
    }
}

/// State of the exporter, for the progress display and the collector.
#[derive(Debug, Default)]
pub struct ExportView {
    tally: Mutex<Tally>,
    revoked: AtomicBool,
}

impl ExportView {
    /// Returns the current tally.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns `true` if a partition was revoked, by another member of the group or at the shutdown.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, tally: &Tally) {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).clone_from(tally);
    }

    pub(crate) fn set_revoked(&self) {
        self.revoked.store(true, Ordering::Relaxed);
    }
}
