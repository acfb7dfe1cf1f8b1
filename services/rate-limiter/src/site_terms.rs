//! Terms of each site: the configuration, and the site's own settings from `crawl.control`.

use std::{collections::HashMap, sync::Arc};

use orbweaver_messages::SiteSettings;
use orbweaver_url::SiteName;

use crate::{
    config::{FASTEST_MS, RateLimiterConfig},
    site::Terms,
};

/// Terms of the sites of a partition.
#[derive(Debug)]
pub(crate) struct SiteTerms {
    config: Arc<RateLimiterConfig>,
    settings: HashMap<SiteName, SiteSettings>,
}

impl SiteTerms {
    /// Creates the terms of a configuration, without settings of single sites.
    pub(crate) fn new(config: Arc<RateLimiterConfig>) -> Self {
        Self { config, settings: HashMap::new() }
    }

    /// Sets the settings of a site, or removes them.
    pub(crate) fn set(&mut self, site: SiteName, settings: Option<SiteSettings>) {
        match settings {
            Some(settings) => drop(self.settings.insert(site, settings)),
            None => drop(self.settings.remove(&site)),
        }
    }

    /// Returns the terms of a site. Settings of its own do not change the horizon, which a later owner must know
    /// (docs/protocol.md#delays-restart).
    pub(crate) fn of(&self, site: &str) -> Terms {
        let terms = self.config.terms(site);
        match self.settings.get(site).and_then(|settings| settings.interval_ms) {
            Some(interval_ms) => Terms { base_ms: interval_ms.max(FASTEST_MS), ..terms },
            None => terms,
        }
    }

    /// Returns `true` if no request may be sent to the site.
    pub(crate) fn is_frozen(&self, site: &str) -> bool {
        self.settings.get(site).is_some_and(|settings| settings.frozen)
    }
}
