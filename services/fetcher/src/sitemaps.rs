//! Sitemaps of sites. Pure.

use std::{collections::HashSet, hash::Hasher as _};

use orbweaver_messages::{Discovered, DiscoveryKind, Millis, SeedMetadata, Trail};
use orbweaver_politeness::robots::AgentRules;
use orbweaver_url::{Url, WideDomains};
use xxhash_rust::xxh3::Xxh3;

use crate::active_dispatch::ActiveDispatch;

/// Place of a sitemap that no robots.txt names; the most frequent one.
const WELL_KNOWN: &str = "/sitemap.xml";
/// Maximum number of remembered hashes. Without them sitemaps are discovered again, which is only more work.
const MAX_ANNOUNCED: usize = 1 << 16;

/// Robots.txt files whose sitemaps each crawl has discovered, as hashes of both.
#[derive(Debug, Default)]
pub(crate) struct Announced(HashSet<u64>);

impl Announced {
    /// Returns the sitemaps of the authority of a dispatch's next request: those that its robots.txt names, else the
    /// one at the well-known place. None if the crawl has discovered them before.
    pub(crate) fn sitemaps(
        &mut self,
        active: &ActiveDispatch,
        rules: &AgentRules,
        wide: &WideDomains,
        now: Millis,
    ) -> Vec<Discovered> {
        let context = &active.dispatch().context;
        let Ok(robots) = active.url.join("/robots.txt") else { return vec![] };
        let mut hash = Xxh3::new();
        let named = rules.sitemaps().iter().map(|url| &**url);
        let texts = [&*context.crawl, robots.as_str()].into_iter().chain(named);
        for text in texts {
            hash.update(text.as_bytes());
            hash.write_u8(0);
        }
        if self.0.len() >= MAX_ANNOUNCED {
            self.0.clear();
        }
        if !self.0.insert(hash.finish()) {
            return vec![];
        }
        let mut urls: Vec<Url> =
            rules.sitemaps().iter().filter_map(|url| orbweaver_url::resolve(&robots, url).ok()).collect();
        if rules.sitemaps().is_empty() {
            urls.extend(robots.join(WELL_KNOWN));
        }
        let found = |url: Url| Discovered {
            crawl: context.crawl.clone(),
            site: wide.site_of(&url).into(),
            via: Some(robots.to_string()),
            depth: context.depth,
            sighting: DiscoveryKind::Sitemap,
            chain: vec![],
            trail: Trail::default(),
            content: None,
            priority: context.priority,
            metadata: SeedMetadata::default(),
            urls: vec![url.into()],
            modified_ms: vec![],
            found_at_ms: now,
        };
        urls.into_iter().map(found).collect()
    }

    /// Forgets all: a dispatch that discovered sitemaps may have been abandoned.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}
