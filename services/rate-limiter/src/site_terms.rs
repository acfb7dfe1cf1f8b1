//! Terms of each site: the configuration, and the settings from `crawl.control`.

use std::collections::BTreeSet;

use orbweaver_scope::{ControlChange, ControlRecord, Controls, Hold};
use orbweaver_url::CrawlName;

use crate::{
    config::{FASTEST_MS, RateLimiterConfig},
    partial_messages::DispatchFields,
    site::Terms,
};

/// Terms of all sites.
#[derive(Debug)]
pub(crate) struct SiteTerms {
    config: RateLimiterConfig,
    controls: Controls,
    /// Crawls with an interval of their own.
    own: BTreeSet<CrawlName>,
}

impl SiteTerms {
    /// Creates the terms of a configuration, without settings of single sites.
    pub(crate) fn new(config: RateLimiterConfig) -> Self {
        Self { config, controls: Controls::default(), own: BTreeSet::new() }
    }

    /// Applies a record of `crawl.control`.
    pub(crate) fn apply(&mut self, record: ControlRecord<'_>) -> ControlChange {
        let change = self.controls.apply(record);
        if let ControlChange::Crawl(crawl) = &change {
            match self.own_ms(crawl) {
                Some(_) => self.own.insert(crawl.clone()),
                None => self.own.remove(crawl),
            };
        }
        change
    }

    /// Returns the interval of a crawl's profile, in milliseconds.
    fn own_ms(&self, crawl: &str) -> Option<u64> {
        let own_ms = self.controls.profile(crawl)?.interval_ms;
        own_ms.map(|ms| ms.max(FASTEST_MS))
    }

    /// Returns the terms of a crawl at a site. Settings of its own do not change the horizon, which a later owner must
    /// know (docs/protocol.md#delays-restart). A crawl without an interval keeps that of the configured rate where another one
    /// may share the site's clock; otherwise that clock alone suffices.
    pub(crate) fn of(&self, site: &str, crawl: &str) -> Terms {
        let terms = self.of_site(site);
        let needs_clock = !self.own.is_empty() && terms.site_ms.is_none();
        let own_ms = self.own_ms(crawl).unwrap_or(if needs_clock { terms.rate_ms } else { 0 });
        Terms { own_ms, share: self.controls.share(crawl), ..terms }
    }

    /// Returns the terms of a crawl without settings of its own at a site.
    pub(crate) fn of_site(&self, site: &str) -> Terms {
        let terms = self.config.terms(site);
        match self.controls.site(site).and_then(|settings| settings.interval_ms) {
            Some(interval_ms) => Terms { site_ms: Some(interval_ms.max(FASTEST_MS)), ..terms },
            None => terms,
        }
    }

    /// Returns why no request may be sent for a dispatch, if that is so.
    pub(crate) fn hold(&self, dispatch: &DispatchFields<'_>) -> Option<Hold> {
        self.controls.hold(&dispatch.context.crawl, &dispatch.context.site, dispatch.definition)
    }
}
