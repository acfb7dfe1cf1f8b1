//! The sites of one partition.

use std::collections::{BTreeSet, HashMap};

use orbweaver_log::Offset;
use orbweaver_messages::{CLOCK_MARGIN_MS, Millis, SiteState};
use orbweaver_stage::Origin;
use orbweaver_url::SiteName;

use crate::{
    partial_messages::{ContextFields, DispatchFields, OutcomeFields},
    site::{Decision, Deferral, Remembered, Site, Terms},
    site_terms::SiteTerms,
};

/// A record for `crawl.sites`, and the outcomes that complete with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteRecord {
    pub(crate) memory: SiteState,
    /// Outcomes that complete once the record is durable.
    pub(crate) completes: Vec<Origin>,
}

/// Effect of an outcome on the persistent state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OutcomeEffect {
    /// No change: the outcome is complete.
    Complete,
    /// The outcome completes with this record.
    Write(SiteRecord),
    /// The outcome completes with the record that follows the one in flight.
    Held,
}

#[derive(Debug, Default)]
struct Entry {
    site: Site,
    /// Whether a record of the site is unacknowledged; there is one at a time (docs/protocol.md#one-write-per-key).
    in_flight: bool,
    /// State changed after the record in flight was made, so another one follows.
    again: bool,
    /// Outcomes that complete with the next record.
    held: Vec<Origin>,
}

impl From<Site> for Entry {
    fn from(site: Site) -> Self {
        Self { site, ..Self::default() }
    }
}

/// The open sites of a partition.
#[derive(Debug)]
pub(crate) struct Sites {
    /// Offset of this owner's claim in `crawl.sites`; written into each of its records.
    pub(crate) epoch: Offset,
    /// Time at which the partition was opened; `None` for its first owner ever, when no site has been requested yet.
    opened_ms: Option<Millis>,
    entries: HashMap<SiteName, Entry>,
    /// Blocked sites, ordered by the end of their block.
    blocked: BTreeSet<(Millis, SiteName)>,
    /// Number of outcomes that wait for the record after the one in flight.
    pub(crate) held: usize,
    /// Sites for which the restore found a record of a stale owner that the current record has yet to follow.
    overtaken: BTreeSet<SiteName>,
}

/// State of sites during the replay of `crawl.sites`.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    remembered: HashMap<SiteName, Remembered>,
    newest_epoch: u64,
    /// Sites whose last record is by an owner before the newest.
    overtaken: BTreeSet<SiteName>,
}

impl Restored {
    /// Applies a record, unless its epoch is older than the newest one: an owner that had lost the partition wrote it
    /// (docs/protocol.md#claims).
    pub(crate) fn take(&mut self, memory: SiteState) {
        if memory.epoch < self.newest_epoch {
            self.overtaken.insert(memory.site);
            return;
        }
        self.newest_epoch = memory.epoch;
        self.overtaken.remove(&memory.site);
        let explicit = memory.blocks > 0 || memory.blocked_until_ms > 0;
        // The end of a block is by another process's clock, which may be behind.
        let margin_ms = if memory.blocked_until_ms > 0 { CLOCK_MARGIN_MS } else { 0 };
        let remembered = Remembered {
            blocked_until_ms: memory.blocked_until_ms.saturating_add(margin_ms),
            blocks: memory.blocks,
            crawl_delay_ms: memory.crawl_delay_ms,
            event_ms: if explicit { memory.updated_at_ms } else { 0 },
        };
        self.remembered.insert(memory.site, remembered);
    }

    /// Removes a site because of a tombstone. A tombstone of an epoch before the newest is ignored; one without an
    /// epoch was written by hand and applies.
    pub(crate) fn forget(&mut self, site: &str, epoch: Option<u64>) {
        if epoch.is_none_or(|epoch| epoch >= self.newest_epoch) {
            self.remembered.remove(site);
            self.overtaken.remove(site);
        } else {
            self.overtaken.insert(site.into());
        }
    }
}

impl Sites {
    /// Opens a partition after the replay of its `crawl.sites` up to the claim at `epoch`.
    ///
    /// Each site counts as requested at the latest time that the previous owner may have scheduled
    /// (docs/protocol.md#delays-restart). A claim at offset 0 has no previous owner.
    pub(crate) fn open(terms: &SiteTerms, restored: Restored, epoch: Offset, now: Millis) -> Self {
        let opened_ms = (epoch > 0).then_some(now);
        let (entries, blocked, overtaken) = (HashMap::new(), BTreeSet::new(), restored.overtaken);
        let mut sites = Self { epoch, opened_ms, entries, blocked, held: 0, overtaken };
        for (name, remembered) in restored.remembered {
            let terms = terms.of_site(&name);
            let mut site = sites.new_site(terms);
            site.recall(remembered, terms, now);
            if !site.is_idle(terms, now) {
                sites.note_block(&name, None, site.blocked_until_ms(now));
                sites.entries.insert(name, site.into());
            }
        }
        sites
    }

    /// Decides whether a dispatch is scheduled or deferred.
    pub(crate) fn decide(&mut self, terms: &SiteTerms, dispatch: &DispatchFields<'_>, now: Millis) -> Decision {
        if now > dispatch.not_after_ms {
            return Decision::Defer { reason: Deferral::Late, retry_at_ms: now };
        }
        if let Some(hold) = terms.hold(dispatch) {
            return Decision::Defer { reason: hold.into(), retry_at_ms: hold.retry_at_ms(now) };
        }
        let ContextFields { crawl, site: name } = &dispatch.context;
        let terms = terms.of(name, crawl);
        if let Some(entry) = self.entries.get_mut(name.as_ref()) {
            return entry.site.decide(crawl, dispatch.not_after_ms, terms, now);
        }
        if terms.is_unlimited() {
            // An unlimited site has no state until an outcome changes it.
            return Decision::Pass { not_before_ms: now, interval_ms: 0, own_ms: 0 };
        }
        let mut site = self.new_site(terms);
        let decision = site.decide(crawl, dispatch.not_after_ms, terms, now);
        self.entries.insert(name.as_ref().into(), site.into());
        decision
    }

    /// Applies an outcome to its site.
    pub(crate) fn learn(
        &mut self,
        terms: &SiteTerms,
        outcome: &OutcomeFields<'_>,
        origin: Origin,
        now: Millis,
    ) -> OutcomeEffect {
        let name = outcome.context.site.as_ref();
        let terms = terms.of(name, &outcome.context.crawl);
        if !self.entries.contains_key(name) {
            let mut site = self.new_site(terms);
            let changed = site.learn(outcome, terms, now);
            if !changed && (terms.is_unlimited() || site.is_idle(terms, now)) {
                return OutcomeEffect::Complete;
            }
            self.note_block(name, None, site.blocked_until_ms(now));
            self.entries.insert(name.into(), site.into());
            return if changed { self.write(name, Some(origin), now) } else { OutcomeEffect::Complete };
        }
        let Some(entry) = self.entries.get_mut(name) else { return OutcomeEffect::Complete };
        let before = entry.site.blocked_until_ms(now);
        let changed = entry.site.learn(outcome, terms, now);
        let after = entry.site.blocked_until_ms(now);
        if before != after {
            self.note_block(name, before, after);
        }
        if changed { self.write(name, Some(origin), now) } else { OutcomeEffect::Complete }
    }

    /// Handles the acknowledgement of a site's record. Returns the next record, if one is needed.
    pub(crate) fn settled(&mut self, name: &str, now: Millis) -> Option<SiteRecord> {
        let entry = self.entries.get_mut(name)?;
        entry.in_flight = std::mem::take(&mut entry.again);
        if !entry.in_flight {
            return None;
        }
        let completes = std::mem::take(&mut entry.held);
        self.held = self.held.saturating_sub(completes.len());
        Some(SiteRecord { memory: self.memory(name, now), completes })
    }

    /// Returns the next record that must follow a stale owner's record found by the restore.
    pub(crate) fn next_overtaken(&mut self, terms: &SiteTerms, now: Millis) -> Option<SiteRecord> {
        while let Some(name) = self.overtaken.pop_first() {
            if let Some(record) = self.restate(terms, &name, now) {
                return Some(record);
            }
        }
        None
    }

    /// Returns the current record of a site, to be appended after one of a stale owner (docs/protocol.md#claims); while a
    /// record is in flight, returns `None`, and the current one follows.
    pub(crate) fn restate(&mut self, terms: &SiteTerms, name: &str, now: Millis) -> Option<SiteRecord> {
        if !self.entries.contains_key(name) {
            // A site that is not in memory has no known state.
            let site = self.new_site(terms.of_site(name));
            self.entries.insert(name.into(), site.into());
        }
        match self.write(name, None, now) {
            OutcomeEffect::Write(record) => Some(record),
            OutcomeEffect::Held | OutcomeEffect::Complete => None,
        }
    }

    /// Evicts idle sites.
    pub(crate) fn sweep(&mut self, terms: &SiteTerms, now: Millis) {
        self.entries.retain(|name, entry| {
            let terms = terms.of_site(name);
            entry.site.prune_crawls(terms, now);
            entry.in_flight || !entry.site.is_idle(terms, now)
        });
        if self.entries.capacity() > 1024 && self.entries.capacity() / 4 > self.entries.len() {
            self.entries.shrink_to_fit();
        }
    }

    /// Removes blocks that have ended.
    pub(crate) fn unblock(&mut self, now: Millis) {
        while self.blocked.first().is_some_and(|(until, _)| *until <= now) {
            self.blocked.pop_first();
        }
    }

    /// Returns the number of blocked sites, and the first `most` of them with the end of their block, earliest first.
    pub(crate) fn blocked(&self, most: usize) -> (usize, Vec<(Millis, &str)>) {
        (self.blocked.len(), self.blocked.iter().take(most).map(|(until, name)| (*until, name.as_ref())).collect())
    }

    /// Returns the number of sites in memory.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Creates a site without known state, for which a previous owner may have scheduled requests up to the horizon.
    fn new_site(&self, terms: Terms) -> Site {
        let horizon_ms = Millis::try_from(terms.horizon_ms).unwrap_or(Millis::MAX);
        Site::asked_at(self.opened_ms.map(|opened| opened.saturating_add(horizon_ms)))
    }

    fn write(&mut self, name: &str, origin: Option<Origin>, now: Millis) -> OutcomeEffect {
        let Some(entry) = self.entries.get_mut(name) else { return OutcomeEffect::Complete };
        entry.held.extend(origin);
        if entry.in_flight {
            entry.again = true;
            self.held += usize::from(origin.is_some());
            return OutcomeEffect::Held;
        }
        entry.in_flight = true;
        let completes = std::mem::take(&mut entry.held);
        OutcomeEffect::Write(SiteRecord { memory: self.memory(name, now), completes })
    }

    fn memory(&self, name: &str, now: Millis) -> SiteState {
        let remembered = self.entries.get(name).map(|entry| entry.site.remembered.clone()).unwrap_or_default();
        SiteState {
            site: name.into(),
            epoch: self.epoch,
            blocked_until_ms: remembered.blocked_until_ms,
            blocks: remembered.blocks,
            crawl_delay_ms: remembered.crawl_delay_ms,
            updated_at_ms: if remembered.event_ms > 0 { remembered.event_ms } else { now },
        }
    }

    fn note_block(&mut self, name: &str, before: Option<Millis>, after: Option<Millis>) {
        if let Some(before) = before {
            self.blocked.remove(&(before, name.into()));
        }
        if let Some(after) = after {
            self.blocked.insert((after, name.into()));
        }
    }
}

#[cfg(test)]
mod tests;
