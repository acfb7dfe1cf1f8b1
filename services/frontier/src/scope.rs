//! What waits and is outside of its crawl by now.

use std::collections::HashMap;

use orbweaver_log::Delivered;
use orbweaver_messages::{Sighting, Waiting};
use orbweaver_scope::{Applied, Change, ControlRecord, Definitions, Outside, Version};

/// The definitions of all crawls, as far as `crawl.control` was read.
#[derive(Debug, Default)]
pub struct CrawlScopes {
    definitions: Definitions,
    /// By crawl, the last version by which something that waits was let through.
    used: HashMap<String, Version>,
}

/// What a record of `crawl.control` changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read<'r> {
    /// Which definition of this crawl applies.
    Definition(&'r str),
    /// Nothing: a definition that cannot be used.
    Refused,
    /// Nothing.
    Nothing,
}

impl CrawlScopes {
    /// Takes a record of `crawl.control`. A definition that cannot be used changes nothing, and is told.
    pub fn apply<'r>(&mut self, record: &'r Delivered) -> Read<'r> {
        let (partition, offset) = (record.place.partition, record.offset);
        let (key, value) = (record.key.as_deref(), record.value.as_ref());
        match self.definitions.apply(ControlRecord { partition, offset, key, value }) {
            Change::Applied(crawl, _) | Change::Deleted(crawl) => Read::Definition(crawl),
            Change::Refused { crawl, applies, reason } => {
                tracing::error!(crawl, version = offset, applies, %reason, "a definition cannot be used");
                Read::Refused
            }
            Change::Lost(_) | Change::Known | Change::Foreign => Read::Nothing,
        }
    }

    /// A URL waits, which some version of its crawl's definition let through. `crawl.control` is read beside the log of
    /// what waits, so this may be behind that version; then nothing of the crawl is refused until it was read.
    pub fn note(&mut self, waiting: &Waiting) {
        if waiting.definition > 0 {
            match self.used.get_mut(&waiting.crawl) {
                Some(used) => *used = waiting.definition.max(*used),
                None => drop(self.used.insert(waiting.crawl.clone(), waiting.definition)),
            }
        }
    }

    /// Why a URL is outside of its crawl by now, if it is. Only a later version is held against it than the one that let it
    /// through. What seeds brought into scope only grows, so depth and patterns are all that can refuse. A seed is always in
    /// scope.
    #[must_use]
    pub fn outside(&self, waiting: &Waiting) -> Option<Outside> {
        let Applied { version, rules, .. } = self.definitions.applied(&waiting.crawl)?;
        if waiting.sighting == Sighting::Seed || waiting.definition >= *version {
            return None;
        }
        if self.used.get(&waiting.crawl).is_some_and(|used| used > version) {
            return None;
        }
        if rules.is_too_deep(waiting.depth) { Some(Outside::TooDeep) } else { rules.refusal(waiting.key()) }
    }

    /// The cap on the pages of a crawl, if it has one.
    #[must_use]
    pub fn max_pages(&self, crawl: &str) -> Option<u64> {
        self.definitions.applied(crawl)?.definition.max_pages
    }

    /// All crawls that have a definition, by name, with its version.
    pub fn versions(&self) -> impl Iterator<Item = (&str, Version)> {
        self.definitions.all().map(|(crawl, applied)| (crawl, applied.version))
    }
}
