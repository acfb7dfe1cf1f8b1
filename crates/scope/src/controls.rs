//! Settings that hold requests back: frozen sites and paused crawls.

use orbweaver_messages::{CrawlDefinition, FetchProfile, Millis, SiteSettings};
use orbweaver_url::{CrawlName, SiteName};

use crate::{Change, ControlRecord, DEFINITIONS_PARTITION, Definitions, SiteChange, SiteControls, Version};

/// Reason why no request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The site is frozen, for all crawls.
    Frozen,
    /// The crawl is paused, at all sites.
    Paused,
    /// The crawl has been stopped, at all sites.
    Stopped,
    /// The crawl's definition was not read up to the version that the frontier applied.
    Unread,
}

impl Hold {
    /// Returns the reason of the deferral.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Unread => "definition",
        }
    }

    /// Returns the time at which a dispatch that is deferred now may come again. The frontier holds the URLs of a paused
    /// crawl itself, and ends those of a stopped one; a frozen site is not known to it.
    #[must_use]
    pub fn retry_at_ms(self, now: Millis) -> Millis {
        let pause = match self {
            Self::Frozen => 10_000,
            Self::Paused | Self::Stopped | Self::Unread => 1_000,
        };
        now.saturating_add(pause)
    }
}

/// Settings of sites and crawls for services that send requests, up to the offset that was read.
#[derive(Debug, Default)]
pub struct Controls {
    sites: SiteControls,
    crawls: Definitions,
    /// Offset of the last record that was read of the definitions' partition.
    read: Option<Version>,
}

/// Effect of a record on requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlChange {
    Nothing,
    /// Other settings apply to this site from now on, or none.
    Site(SiteName),
    /// Another definition of this crawl applies from now on, or none.
    Crawl(CrawlName),
    /// No effect: the settings of this site cannot be used. The frontier reports definitions that cannot be used.
    RefusedSite(SiteName),
}

impl Controls {
    /// Applies a record of `crawl.control`. Records must be in log order.
    pub fn apply(&mut self, record: ControlRecord<'_>) -> ControlChange {
        if record.partition == DEFINITIONS_PARTITION {
            self.read = self.read.max(Some(record.offset));
        }
        match self.sites.apply(record) {
            SiteChange::Applied(site) => return ControlChange::Site(site),
            SiteChange::Refused(site) => return ControlChange::RefusedSite(site),
            SiteChange::Nothing => {}
        }
        match self.crawls.apply(record) {
            Change::Applied(crawl, _) | Change::Deleted(crawl) => ControlChange::Crawl(crawl),
            Change::Foreign | Change::Known | Change::Conflict(_) | Change::Refused { .. } => ControlChange::Nothing,
        }
    }

    /// Returns why no request may be sent to the site for the crawl, if that is so. `version` is that of the definition
    /// that the frontier applied, so that no request is made by an older one; 0: none.
    #[must_use]
    pub fn hold(&self, crawl: &str, site: &str, version: Version) -> Option<Hold> {
        if version > 0 && self.read < Some(version) {
            return Some(Hold::Unread);
        }
        if self.sites.is_frozen(site) {
            return Some(Hold::Frozen);
        }
        self.hold_of(crawl)
    }

    /// Returns why no request may be sent for the crawl to any site, if that is so.
    #[must_use]
    pub fn hold_of(&self, crawl: &str) -> Option<Hold> {
        let definition = self.crawls.definition(crawl)?;
        if definition.stopped {
            return Some(Hold::Stopped);
        }
        definition.paused.then_some(Hold::Paused)
    }

    /// Returns `true` if no request may be sent to the site for any crawl.
    #[must_use]
    pub fn is_frozen(&self, site: &str) -> bool {
        self.sites.is_frozen(site)
    }

    /// Returns the fetch profile of a crawl; `None` if the crawl is not defined.
    #[must_use]
    pub fn profile(&self, crawl: &str) -> Option<&FetchProfile> {
        self.crawls.definition(crawl).map(|definition| &definition.profile)
    }

    /// Returns the share of a crawl.
    #[must_use]
    pub fn share(&self, crawl: &str) -> u32 {
        self.crawls.definition(crawl).map_or(CrawlDefinition::EQUAL_SHARE, |definition| definition.share)
    }

    /// Returns the settings of a site; `None` if it has none.
    #[must_use]
    pub fn site(&self, site: &str) -> Option<&SiteSettings> {
        self.sites.of(site)
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::{encode, site_key};

    use super::*;

    const PAUSED: &str = include_str!("../../../schemas/examples/crawl-definition/1/paused.json");

    #[test]
    fn a_frozen_site_is_held_for_all_crawls_and_a_paused_crawl_at_all_sites() {
        let mut controls = Controls::default();
        let mut apply = |offset, key: &str, value| {
            controls.apply(ControlRecord { partition: 0, offset, key: Some(key.as_bytes()), value: Some(&value) });
            [("docs", "a.example"), ("docs", "b.example"), ("news", "a.example"), ("news", "b.example")]
                .map(|(crawl, site)| controls.hold(crawl, site, offset))
        };
        let paused: CrawlDefinition = serde_json::from_str(PAUSED).unwrap();
        let frozen = SiteSettings { frozen: true, ..SiteSettings::of("a.example".into(), 0) };
        let (paused_hold, frozen_hold) = (Some(Hold::Paused), Some(Hold::Frozen));
        assert_eq!(apply(12, "crawl/docs", encode(&paused)), [paused_hold, paused_hold, None, None]);
        assert_eq!(apply(13, &site_key("a.example"), encode(&frozen)), [frozen_hold, paused_hold, frozen_hold, None]);
        let resumed = CrawlDefinition { paused: false, replaces: vec![12], ..paused };
        assert_eq!(apply(14, "crawl/docs", encode(&resumed)), [frozen_hold, None, frozen_hold, None]);
    }
}
