//! Terms of each site: the configuration, and the settings from `crawl.control`.

use orbweaver_scope::{ControlChange, ControlRecord, Controls, Hold, Version};

use crate::{
    config::{FASTEST_MS, RateLimiterConfig},
    partial_messages::ContextFields,
    site::Terms,
};

/// Terms of all sites.
#[derive(Debug)]
pub(crate) struct SiteTerms {
    config: RateLimiterConfig,
    controls: Controls,
}

impl SiteTerms {
    /// Creates the terms of a configuration, without settings of single sites.
    pub(crate) fn new(config: RateLimiterConfig) -> Self {
        Self { config, controls: Controls::default() }
    }

    /// Applies a record of `crawl.control`.
    pub(crate) fn apply(&mut self, record: ControlRecord<'_>) -> ControlChange {
        self.controls.apply(record)
    }

    /// Returns the terms of a crawl at a site. Settings of its own do not change the horizon, which a later owner must
    /// know (docs/protocol.md#delays-restart).
    pub(crate) fn of(&self, site: &str, crawl: &str) -> Terms {
        let own_ms = self.controls.profile(crawl).and_then(|profile| profile.interval_ms);
        Terms { own_ms: own_ms.map_or(0, |ms| ms.max(FASTEST_MS)), ..self.of_site(site) }
    }

    /// Returns the terms of a crawl without settings of its own at a site.
    pub(crate) fn of_site(&self, site: &str) -> Terms {
        let terms = self.config.terms(site);
        match self.controls.site(site).and_then(|settings| settings.interval_ms) {
            Some(interval_ms) => Terms { site_ms: Some(interval_ms.max(FASTEST_MS)), ..terms },
            None => terms,
        }
    }

    /// Returns `true` if the definitions up to this version were read.
    pub(crate) fn has_read(&self, version: Version) -> bool {
        self.controls.has_read(version)
    }

    /// Returns why no request may be sent for a dispatch, if that is so.
    pub(crate) fn hold(&self, context: &ContextFields<'_>) -> Option<Hold> {
        self.controls.hold(&context.crawl, &context.site)
    }
}
