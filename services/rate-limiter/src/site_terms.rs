//! Terms of each site: the configuration, and the site's own settings from `crawl.control`.

use orbweaver_scope::{ControlRecord, SiteChange, SiteControls};

use crate::{
    config::{FASTEST_MS, RateLimiterConfig},
    site::Terms,
};

/// Terms of all sites.
#[derive(Debug)]
pub(crate) struct SiteTerms {
    config: RateLimiterConfig,
    controls: SiteControls,
}

impl SiteTerms {
    /// Creates the terms of a configuration, without settings of single sites.
    pub(crate) fn new(config: RateLimiterConfig) -> Self {
        Self { config, controls: SiteControls::default() }
    }

    /// Applies a record of `crawl.control`.
    pub(crate) fn apply(&mut self, record: ControlRecord<'_>) -> SiteChange {
        self.controls.apply(record)
    }

    /// Returns the terms of a site. Settings of its own do not change the horizon, which a later owner must know
    /// (docs/protocol.md#delays-restart).
    pub(crate) fn of(&self, site: &str) -> Terms {
        let terms = self.config.terms(site);
        match self.controls.of(site).and_then(|settings| settings.interval_ms) {
            Some(interval_ms) => Terms { base_ms: interval_ms.max(FASTEST_MS), ..terms },
            None => terms,
        }
    }

    /// Returns `true` if no request may be sent to the site.
    pub(crate) fn is_frozen(&self, site: &str) -> bool {
        self.controls.is_frozen(site)
    }
}
