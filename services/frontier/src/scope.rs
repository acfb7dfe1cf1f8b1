//! Queued URLs that are out of scope by now.

use std::collections::HashMap;

use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{CrawlDefinition, DiscoveryKind, FrontierUrl, RevisitPolicy};
use orbweaver_scope::{Applied, Change, ControlRecord, Definitions, RuleRejection, SiteChange, SiteControls, Version};
use orbweaver_url::CrawlName;

use crate::pages::PageCaps;

/// Definitions of all crawls and settings of sites, up to the offset of `crawl.control` that was read.
#[derive(Debug, Default)]
pub struct CrawlScopes {
    definitions: Definitions,
    sites: SiteControls,
    /// Latest version, by crawl, under which a queued URL was admitted.
    used: HashMap<CrawlName, Version>,
}

/// Effect of a record of `crawl.control`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlChange {
    /// A new definition of this crawl applies, or none applies any longer.
    Definition(CrawlName),
    /// No effect: the definition is unusable.
    Refused,
    /// No effect.
    Nothing,
}

impl CrawlScopes {
    /// Applies a record of `crawl.control`. An unusable definition changes nothing and is logged.
    pub fn apply(&mut self, record: &ConsumerRecord) -> ControlChange {
        let (partition, offset) = (record.tp.partition, record.offset);
        let (key, value) = (record.key.as_deref(), record.value.as_ref());
        let record = ControlRecord { partition, offset, key, value };
        if self.sites.apply(record) != SiteChange::Nothing {
            // The rate-limiter reports settings of a site that cannot be used.
            return ControlChange::Nothing;
        }
        match self.definitions.apply(record) {
            Change::Applied(crawl, _) | Change::Deleted(crawl) => ControlChange::Definition(crawl),
            Change::Refused { crawl, applies, reason } => {
                tracing::error!(crawl, version = offset, applies, %reason, "a definition cannot be used");
                ControlChange::Refused
            }
            Change::Conflict(_) | Change::Known | Change::Foreign => ControlChange::Nothing,
        }
    }

    /// Notes the version of its crawl's definition that admitted a queued URL. `crawl.control` is read concurrently
    /// with the log of queued URLs, so that this version may not have been read yet; until it has, no URL of the crawl
    /// is refused.
    pub fn note(&mut self, waiting: &FrontierUrl) {
        if waiting.definition > 0 {
            match self.used.get_mut(&waiting.context.crawl) {
                Some(used) => *used = waiting.definition.max(*used),
                None => drop(self.used.insert(waiting.context.crawl.clone(), waiting.definition)),
            }
        }
    }

    /// Returns why a URL is out of scope by now, if it is. A URL is compared only with a later version than the one
    /// that admitted it. The scope that seeds define only grows, so only depth and patterns can exclude a URL. A seed
    /// is always in scope, a requisite unless it is excluded, and an external URL too while such are checked. No URL of a
    /// stopped crawl is.
    #[must_use]
    pub fn outside(&self, waiting: &FrontierUrl) -> Option<RuleRejection> {
        let Applied { version, rules, .. } = self.definitions.applied(&waiting.context.crawl)?;
        if rules.is_stopped() {
            return Some(RuleRejection::Stopped);
        }
        if waiting.context.sighting == DiscoveryKind::Seed || waiting.definition >= *version {
            return None;
        }
        if self.used.get(&waiting.context.crawl).is_some_and(|used| used > version) {
            return None;
        }
        if waiting.context.sighting == DiscoveryKind::External && !rules.checks_external() {
            Some(RuleRejection::NotIncluded)
        } else if !waiting.context.sighting.is_page() {
            rules.refusal_of_no_page(waiting.context.key())
        } else if rules.is_too_deep(waiting.context.depth) {
            Some(RuleRejection::TooDeep)
        } else {
            rules.refusal(waiting.context.key())
        }
    }

    /// Sets the caps of a crawl, and whether it is paused. A stopped crawl has no caps, since its URLs end without a request.
    pub fn cap(&self, crawl: &CrawlName, pages: &mut PageCaps) {
        let applied = self.definitions.applied(crawl).filter(|applied| !applied.rules.is_stopped());
        let definition = applied.map(|applied| &applied.definition);
        pages.limit(crawl, definition.and_then(|definition| definition.max_pages));
        let (max_bytes, ends_at_ms) =
            definition.map_or((None, None), |definition| (definition.max_bytes, definition.ends_at_ms));
        pages.limit_further(crawl, max_bytes, ends_at_ms);
        pages.pause(crawl, self.is_paused(crawl));
    }

    /// Returns `true` if a crawl has been stopped.
    #[must_use]
    pub fn is_stopped(&self, crawl: &CrawlName) -> bool {
        self.definitions.applied(crawl).is_some_and(|applied| applied.rules.is_stopped())
    }

    /// Returns the revisit policy of a crawl; `None` if its URLs end with their next visit.
    #[must_use]
    pub fn revisit(&self, crawl: &CrawlName) -> Option<&RevisitPolicy> {
        let Applied { definition, rules, .. } = self.definitions.applied(crawl)?;
        definition.revisit.as_ref().filter(|_| !rules.is_stopped())
    }

    /// Returns `true` if a crawl has been deleted.
    #[must_use]
    pub fn is_deleted(&self, crawl: &CrawlName) -> bool {
        self.definitions.applied(crawl).is_some_and(|applied| applied.definition.deleted)
    }

    /// Returns the version of the definition that applies to a crawl; 0: none.
    #[must_use]
    pub fn version(&self, crawl: &CrawlName) -> Version {
        self.definitions.applied(crawl).map_or(0, |applied| applied.version)
    }

    /// Returns the definition that applies to a crawl.
    pub(crate) fn definition(&self, crawl: &CrawlName) -> Option<&CrawlDefinition> {
        self.definitions.applied(crawl).map(|applied| &applied.definition)
    }

    /// Returns the factor of the weight of a site, in percent, if it has one.
    pub(crate) fn site_weight(&self, site: &str) -> Option<u32> {
        self.sites.of(site)?.weight_percent
    }

    /// Returns the definitions of all crawls.
    #[must_use]
    pub fn definitions(&self) -> &Definitions {
        &self.definitions
    }

    /// Returns `true` if no request may be sent for a crawl.
    #[must_use]
    pub fn is_paused(&self, crawl: &CrawlName) -> bool {
        self.definitions.is_paused(crawl)
    }

    /// Returns all crawls that have a definition, by name, with its version.
    pub fn versions(&self) -> impl Iterator<Item = (&CrawlName, Version)> {
        self.definitions.all().map(|(crawl, applied)| (crawl, applied.version))
    }
}
