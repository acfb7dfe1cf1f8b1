//! The sites of one partition.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use orbweaver_log::Offset;
use orbweaver_messages::{CLOCK_MARGIN_MS, Millis, SiteState};
use orbweaver_stage::Origin;

use crate::{
    config::RateLimiterConfig,
    partial_messages::{DispatchFields, OutcomeFields},
    site::{Decision, Deferral, Remembered, Site, Terms},
    writes::Writes,
};

/// A record for `crawl.sites`, and the outcomes that complete with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRecord {
    /// State to write.
    pub memory: SiteState,
    /// Outcomes that complete once the record is durable.
    pub completes: Vec<Origin>,
}

/// Effect of an outcome on the persistent state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutcomeEffect {
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
    writes: Writes,
}

/// The open sites of a partition.
#[derive(Debug)]
pub struct Sites {
    config: Arc<RateLimiterConfig>,
    /// Offset of this owner's claim in `crawl.sites`; written into each of its records.
    epoch: Offset,
    /// Time at which the partition was opened; `None` for its first owner ever, when no site has been requested yet.
    opened_ms: Option<Millis>,
    entries: HashMap<Box<str>, Entry>,
    /// Blocked sites, ordered by the end of their block.
    blocked: BTreeSet<(Millis, Box<str>)>,
    /// Number of outcomes that wait for the record after the one in flight.
    held: usize,
    /// Sites for which the restore found a record of a stale owner that the current record has yet to follow.
    overtaken: BTreeSet<Box<str>>,
}

/// State of sites during the replay of `crawl.sites`.
#[derive(Debug, Default)]
pub struct Restored {
    remembered: HashMap<Box<str>, Remembered>,
    newest_epoch: u64,
    /// Sites whose last record is by an owner before the newest.
    overtaken: BTreeSet<Box<str>>,
}

impl Restored {
    /// Applies a record, unless its epoch is older than the newest one: an owner that had lost the partition wrote it
    /// (docs/protocol.md#claims).
    pub fn take(&mut self, memory: SiteState) {
        if memory.epoch < self.newest_epoch {
            self.overtaken.insert(memory.site.into());
            return;
        }
        self.newest_epoch = memory.epoch;
        self.overtaken.remove(memory.site.as_str());
        let explicit = memory.blocks > 0 || memory.blocked_until_ms > 0;
        // The end of a block is by another process's clock, which may be behind.
        let margin_ms = if memory.blocked_until_ms > 0 { CLOCK_MARGIN_MS } else { 0 };
        let remembered = Remembered {
            blocked_until_ms: memory.blocked_until_ms.saturating_add(margin_ms),
            blocks: memory.blocks,
            crawl_delay_ms: memory.crawl_delay_ms,
            event_ms: if explicit { memory.updated_at_ms } else { 0 },
        };
        self.remembered.insert(memory.site.into(), remembered);
    }

    /// Removes a site because of a tombstone. A tombstone of an epoch before the newest is ignored; one without an
    /// epoch was written by hand and applies.
    pub fn forget(&mut self, site: &str, epoch: Option<u64>) {
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
    #[must_use]
    pub fn open(config: Arc<RateLimiterConfig>, restored: Restored, epoch: Offset, now: Millis) -> Self {
        let opened_ms = (epoch > 0).then_some(now);
        let (entries, blocked, overtaken) = (HashMap::new(), BTreeSet::new(), restored.overtaken);
        let mut sites = Self { config, epoch, opened_ms, entries, blocked, held: 0, overtaken };
        for (name, remembered) in restored.remembered {
            let terms = sites.terms(&name);
            let mut site = sites.new_site(terms);
            site.recall(remembered, terms, now);
            if !site.is_idle(terms, now) {
                sites.note_block(&name, None, site.blocked_until_ms(now));
                sites.entries.insert(name, Entry { site, writes: Writes::default() });
            }
        }
        sites
    }

    /// Returns the owner epoch that this owner's records carry.
    #[must_use]
    pub fn epoch(&self) -> Offset {
        self.epoch
    }

    /// Decides whether a dispatch is scheduled or deferred.
    pub fn decide(&mut self, dispatch: &DispatchFields<'_>, now: Millis) -> Decision {
        if now > dispatch.not_after_ms {
            return Decision::Defer { reason: Deferral::Late, retry_at_ms: now };
        }
        let terms = self.terms(&dispatch.context.site);
        if let Some(entry) = self.entries.get_mut(dispatch.context.site.as_ref()) {
            return entry.site.decide(dispatch.not_after_ms, terms, now);
        }
        if terms.base_ms == 0 {
            // An unlimited site has no state until an outcome changes it.
            return Decision::Pass { not_before_ms: now, interval_ms: 0 };
        }
        let mut site = self.new_site(terms);
        let decision = site.decide(dispatch.not_after_ms, terms, now);
        self.entries.insert(dispatch.context.site.as_ref().into(), Entry { site, writes: Writes::default() });
        decision
    }

    /// Applies an outcome to its site.
    pub fn learn(&mut self, outcome: &OutcomeFields<'_>, origin: Origin, now: Millis) -> OutcomeEffect {
        let name = outcome.context.site.as_ref();
        let terms = self.terms(name);
        if !self.entries.contains_key(name) {
            let mut site = self.new_site(terms);
            let changed = site.learn(outcome, terms, now);
            if !changed && (terms.base_ms == 0 || site.is_idle(terms, now)) {
                return OutcomeEffect::Complete;
            }
            let blocked = site.blocked_until_ms(now);
            self.entries.insert(name.into(), Entry { site, writes: Writes::default() });
            self.note_block(name, None, blocked);
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
    pub fn settled(&mut self, name: &str, now: Millis) -> Option<SiteRecord> {
        let completes = self.entries.get_mut(name)?.writes.settled()?;
        self.held = self.held.saturating_sub(completes.len());
        Some(SiteRecord { memory: self.memory(name, now), completes })
    }

    /// Handles a record of another owner that was read back. If its epoch is older, returns the current record, to be
    /// appended after it (docs/protocol.md#claims); while a record is in flight, returns `None`, and the current one
    /// follows.
    pub fn on_foreign_record(&mut self, theirs: &SiteState, now: Millis) -> Option<SiteRecord> {
        if theirs.epoch >= self.epoch { None } else { self.restate(&theirs.site, now) }
    }

    /// Returns the next record that must follow a stale owner's record found by the restore.
    pub fn next_overtaken(&mut self, now: Millis) -> Option<SiteRecord> {
        while let Some(name) = self.overtaken.pop_first() {
            if let Some(record) = self.restate(&name, now) {
                return Some(record);
            }
        }
        None
    }

    fn restate(&mut self, name: &str, now: Millis) -> Option<SiteRecord> {
        if !self.entries.contains_key(name) {
            // A site that is not in memory has no known state.
            let site = self.new_site(self.terms(name));
            self.entries.insert(name.into(), Entry { site, writes: Writes::default() });
        }
        match self.write(name, None, now) {
            OutcomeEffect::Write(record) => Some(record),
            OutcomeEffect::Held | OutcomeEffect::Complete => None,
        }
    }

    /// Evicts idle sites.
    pub fn sweep(&mut self, now: Millis) {
        let config = &self.config;
        self.entries.retain(|name, entry| entry.writes.is_busy() || !entry.site.is_idle(terms_of(config, name), now));
        if self.entries.capacity() > 1024 && self.entries.capacity() / 4 > self.entries.len() {
            self.entries.shrink_to_fit();
        }
    }

    /// Removes blocks that have ended.
    pub fn unblock(&mut self, now: Millis) {
        while self.blocked.first().is_some_and(|(until, _)| *until <= now) {
            self.blocked.pop_first();
        }
    }

    /// Returns the number of blocked sites, and the first `most` of them with the end of their block, earliest first.
    pub fn blocked(&self, most: usize) -> (usize, Vec<(Millis, &str)>) {
        (self.blocked.len(), self.blocked.iter().take(most).map(|(until, name)| (*until, name.as_ref())).collect())
    }

    /// Returns the number of sites in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if no site is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of outcomes that wait for a record.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    fn terms(&self, name: &str) -> Terms {
        terms_of(&self.config, name)
    }

    /// Creates a site without known state, for which a previous owner may have scheduled requests up to the horizon.
    fn new_site(&self, terms: Terms) -> Site {
        let horizon_ms = Millis::try_from(terms.horizon_ms).unwrap_or(Millis::MAX);
        Site::asked_at(self.opened_ms.map(|opened| opened.saturating_add(horizon_ms)))
    }

    fn write(&mut self, name: &str, origin: Option<Origin>, now: Millis) -> OutcomeEffect {
        let Some(entry) = self.entries.get_mut(name) else { return OutcomeEffect::Complete };
        match entry.writes.request(origin) {
            Some(completes) => OutcomeEffect::Write(SiteRecord { memory: self.memory(name, now), completes }),
            None => {
                self.held += usize::from(origin.is_some());
                OutcomeEffect::Held
            }
        }
    }

    fn memory(&self, name: &str, now: Millis) -> SiteState {
        let remembered = self.entries.get(name).map(|entry| entry.site.remembered().clone()).unwrap_or_default();
        SiteState {
            site: name.to_owned(),
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

fn terms_of(config: &RateLimiterConfig, name: &str) -> Terms {
    let base_ms = config.base_interval_ms(name);
    Terms { base_ms, horizon_ms: config.horizon_ms(base_ms) }
}

#[cfg(test)]
mod tests;
