//! The sites of one partition.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use orbweaver_log::Offset;
use orbweaver_messages::{CLOCK_MARGIN_MS, Millis, SiteMemory};
use orbweaver_stage::Origin;

use crate::{
    config::RateLimiterConfig,
    site::{Decision, Deferral, Remembered, Site, Terms},
    wire::{Heard, Scheduled},
    writes::Writes,
};

/// A record for `crawl.sites`, and what completes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteRecord {
    /// The record.
    pub memory: SiteMemory,
    /// The outcomes that taught it.
    pub completes: Vec<Origin>,
}

/// What becomes of an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lesson {
    /// Nothing must be remembered: it is complete.
    Complete,
    /// It completes with this record.
    Write(SiteRecord),
    /// It completes with a record that follows the one in flight.
    Held,
}

#[derive(Debug, Default)]
struct Entry {
    site: Site,
    writes: Writes,
}

/// The sites of a partition, from its opening on.
#[derive(Debug)]
pub struct Sites {
    config: Arc<RateLimiterConfig>,
    /// The offset of our claim in `crawl.sites`: what we write carries it.
    epoch: Offset,
    /// When the partition was opened; `None` when nobody owned it before, so that no site was ever asked.
    opened_ms: Option<Millis>,
    entries: HashMap<Box<str>, Entry>,
    /// Blocked sites by the end of their block.
    blocked: BTreeSet<(Millis, Box<str>)>,
    /// Outcomes that wait for a record behind the one in flight.
    held: usize,
}

/// What a log of sites says, while it is replayed.
#[derive(Debug, Default)]
pub struct Restored {
    remembered: HashMap<Box<str>, Remembered>,
    newest_epoch: u64,
}

impl Restored {
    /// Takes a record. One of an epoch before the newest was written by an owner that had lost the partition (rule 3).
    pub fn take(&mut self, memory: SiteMemory) {
        if memory.epoch < self.newest_epoch {
            return;
        }
        self.newest_epoch = memory.epoch;
        let told = memory.blocks > 0 || memory.blocked_until_ms > 0;
        // By the clock of another process, which may be behind ours.
        let margin_ms = if memory.blocked_until_ms > 0 { CLOCK_MARGIN_MS } else { 0 };
        let remembered = Remembered {
            blocked_until_ms: memory.blocked_until_ms.saturating_add(margin_ms),
            blocks: memory.blocks,
            crawl_delay_ms: memory.crawl_delay_ms,
            event_ms: if told { memory.updated_at_ms } else { 0 },
        };
        self.remembered.insert(memory.site.into(), remembered);
    }

    /// Forgets a site by a tombstone. One of an epoch before the newest does not apply; one without an epoch was made by hand.
    pub fn forget(&mut self, site: &str, epoch: Option<u64>) {
        if epoch.is_none_or(|epoch| epoch >= self.newest_epoch) {
            self.remembered.remove(site);
        }
    }
}

impl Sites {
    /// Opens a partition whose log of sites was replayed up to our claim at `epoch`.
    ///
    /// Each site counts as asked at the latest moment that the owner before may have given (rule 20). A claim at offset 0 had
    /// no owner before it.
    #[must_use]
    pub fn open(config: Arc<RateLimiterConfig>, restored: Restored, epoch: Offset, now: Millis) -> Self {
        let opened_ms = (epoch > 0).then_some(now);
        let mut sites = Self { config, epoch, opened_ms, entries: HashMap::new(), blocked: BTreeSet::new(), held: 0 };
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

    /// The epoch that our records carry.
    #[must_use]
    pub fn epoch(&self) -> Offset {
        self.epoch
    }

    /// What becomes of a dispatch.
    pub fn decide(&mut self, dispatch: &Scheduled<'_>, now: Millis) -> Decision {
        if now > dispatch.expires_ms {
            return Decision::Drop;
        }
        if now > dispatch.not_after_ms {
            return Decision::Defer { reason: Deferral::Late, retry_at_ms: now };
        }
        let terms = self.terms(&dispatch.site);
        if let Some(entry) = self.entries.get_mut(dispatch.site.as_ref()) {
            return entry.site.decide(dispatch.not_after_ms, terms, now);
        }
        if terms.base_ms == 0 {
            // Of an unlimited site there is nothing to keep until it teaches something.
            return Decision::Pass { not_before_ms: now, interval_ms: 0 };
        }
        let mut site = self.new_site(terms);
        let decision = site.decide(dispatch.not_after_ms, terms, now);
        self.entries.insert(dispatch.site.as_ref().into(), Entry { site, writes: Writes::default() });
        decision
    }

    /// Learns from an outcome.
    pub fn learn(&mut self, heard: &Heard<'_>, origin: Origin, now: Millis) -> Lesson {
        let name = heard.site.as_ref();
        let terms = self.terms(name);
        if !self.entries.contains_key(name) {
            let mut site = self.new_site(terms);
            let changed = site.learn(heard, terms, now);
            if !changed && (terms.base_ms == 0 || site.is_idle(terms, now)) {
                return Lesson::Complete;
            }
            let blocked = site.blocked_until_ms(now);
            self.entries.insert(name.into(), Entry { site, writes: Writes::default() });
            self.note_block(name, None, blocked);
            return if changed { self.write(name, Some(origin), now) } else { Lesson::Complete };
        }
        let Some(entry) = self.entries.get_mut(name) else { return Lesson::Complete };
        let before = entry.site.blocked_until_ms(now);
        let changed = entry.site.learn(heard, terms, now);
        let after = entry.site.blocked_until_ms(now);
        if before != after {
            self.note_block(name, before, after);
        }
        if changed { self.write(name, Some(origin), now) } else { Lesson::Complete }
    }

    /// The record of a site that was in flight is durable. Gives the next one, if there must be one.
    pub fn settled(&mut self, name: &str, now: Millis) -> Option<SiteRecord> {
        let completes = self.entries.get_mut(name)?.writes.settled()?;
        self.held = self.held.saturating_sub(completes.len());
        Some(SiteRecord { memory: self.memory(name, now), completes })
    }

    /// Someone else's record of a site was read back. When it is of an older epoch, gives ours, to be written after it
    /// (rule 3); it may also follow the one in flight.
    pub fn heard_record(&mut self, theirs: &SiteMemory, now: Millis) -> Option<SiteRecord> {
        if theirs.epoch >= self.epoch {
            return None;
        }
        if !self.entries.contains_key(theirs.site.as_str()) {
            // What we know of a site that we do not keep is: nothing.
            let site = self.new_site(self.terms(&theirs.site));
            self.entries.insert(theirs.site.as_str().into(), Entry { site, writes: Writes::default() });
        }
        match self.write(&theirs.site, None, now) {
            Lesson::Write(record) => Some(record),
            Lesson::Held | Lesson::Complete => None,
        }
    }

    /// Forgets sites of which nothing is worth keeping.
    pub fn sweep(&mut self, now: Millis) {
        let config = &self.config;
        self.entries.retain(|name, entry| entry.writes.is_busy() || !entry.site.is_idle(terms_of(config, name), now));
        if self.entries.capacity() > 1024 && self.entries.capacity() / 4 > self.entries.len() {
            self.entries.shrink_to_fit();
        }
    }

    /// Forgets blocks that are over.
    pub fn unblock(&mut self, now: Millis) {
        while self.blocked.first().is_some_and(|(until, _)| *until <= now) {
            self.blocked.pop_first();
        }
    }

    /// How many sites are blocked, and the first `most` of them with the end of their block, the soonest first.
    pub fn blocked(&self, most: usize) -> (usize, Vec<(Millis, &str)>) {
        (self.blocked.len(), self.blocked.iter().take(most).map(|(until, name)| (*until, name.as_ref())).collect())
    }

    /// Sites in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no site is in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Outcomes that wait for a record.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    fn terms(&self, name: &str) -> Terms {
        terms_of(&self.config, name)
    }

    /// A site of which nothing is known but that an owner before us may have planned it ahead.
    fn new_site(&self, terms: Terms) -> Site {
        let horizon_ms = Millis::try_from(terms.horizon_ms).unwrap_or(Millis::MAX);
        Site::asked_at(self.opened_ms.map(|opened| opened.saturating_add(horizon_ms)))
    }

    fn write(&mut self, name: &str, origin: Option<Origin>, now: Millis) -> Lesson {
        let Some(entry) = self.entries.get_mut(name) else { return Lesson::Complete };
        match entry.writes.request(origin) {
            Some(completes) => Lesson::Write(SiteRecord { memory: self.memory(name, now), completes }),
            None => {
                self.held += usize::from(origin.is_some());
                Lesson::Held
            }
        }
    }

    fn memory(&self, name: &str, now: Millis) -> SiteMemory {
        let remembered = self.entries.get(name).map(|entry| entry.site.remembered().clone()).unwrap_or_default();
        SiteMemory {
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
