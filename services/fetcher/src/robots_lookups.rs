//! Running lookups of robots.txt files, and the dispatches that wait for them: pure.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use orbweaver_log::Record;
use orbweaver_messages::Millis;
use orbweaver_politeness::AgentRules;
use orbweaver_store::RobotsRow;
use orbweaver_url::{CrawlName, SiteName, Url};

use crate::{
    active_dispatch::ActiveDispatch,
    profile::{RequestProfile, token_of},
    robots_cache::CachedRobots,
};

/// A lookup of a robots.txt, and the dispatches that wait for it.
#[derive(Debug)]
pub(crate) struct RobotsLookup {
    pub(crate) waiting: VecDeque<Box<ActiveDispatch>>,
    /// Crawl of the dispatch that started the lookup, and the settings of its requests.
    pub(crate) crawl: CrawlName,
    pub(crate) profile: Arc<RequestProfile>,
    /// Site of the authority; a dispatch of another site waits here too if a redirect to itself led it to this one.
    pub(crate) site: SiteName,
    /// URL of the first request.
    pub(crate) url: Url,
    pub(crate) redirects: u8,
    /// Expired row of the store, which applies while the authority is unreachable.
    pub(crate) stale: Option<RobotsRow>,
    /// Event time of the row in the store, in milliseconds since the Unix epoch; 0 if none is known.
    pub(crate) stored_ms: Millis,
    /// Response for the archive, to be durable before the row.
    pub(crate) archived: Option<Record>,
}

impl RobotsLookup {
    /// Returns the interval of its crawl at each site, in milliseconds; 0: none.
    pub(crate) fn own_ms(&self) -> u64 {
        let of_dispatches = self.waiting.iter().map(|active| active.ready.crawl_interval_ms).max();
        if self.profile.interval_ms > 0 { self.profile.interval_ms } else { of_dispatches.unwrap_or(0) }
    }

    /// Returns a waiting dispatch of this site; its interval and its partition are those of the site.
    pub(crate) fn dispatch_of(&self, site: &SiteName) -> Option<&ActiveDispatch> {
        self.waiting.iter().map(|active| &**active).find(|active| active.is_of(site))
    }
}

/// Evaluates a stored robots.txt.
pub(crate) fn read(row: &RobotsRow) -> CachedRobots {
    match row.status {
        Some(200..=299) => {
            CachedRobots::Rules(Arc::new(AgentRules::parse(row.body.as_bytes(), token_of(&row.authority))))
        }
        Some(300..=428 | 430..=499) => CachedRobots::Rules(Arc::default()),
        _ => CachedRobots::Unreachable,
    }
}

/// Running lookups, by the key of the robots.txt. Sorted, since they are iterated.
#[derive(Debug, Default)]
pub(crate) struct RobotsLookups {
    running: BTreeMap<Arc<str>, RobotsLookup>,
}

impl RobotsLookups {
    pub(crate) fn get(&self, key: &str) -> Option<&RobotsLookup> {
        self.running.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut RobotsLookup> {
        self.running.get_mut(key)
    }

    /// Adds a dispatch of a crawl with this profile to the lookup of its robots.txt; `true` if that starts with it.
    pub(crate) fn add(&mut self, key: &Arc<str>, active: Box<ActiveDispatch>, profile: &Arc<RequestProfile>) -> bool {
        if let Some(lookup) = self.running.get_mut(key) {
            lookup.waiting.push_back(active);
            return false;
        }
        let mut url = active.url.clone();
        url.set_path("/robots.txt");
        url.set_query(None);
        url.set_fragment(None);
        let (crawl, site) = (active.dispatch().context.crawl.clone(), active.site.clone());
        let lookup = RobotsLookup {
            waiting: VecDeque::from([active]),
            crawl,
            profile: profile.clone(),
            site,
            url,
            redirects: 0,
            stale: None,
            stored_ms: 0,
            archived: None,
        };
        self.running.insert(key.clone(), lookup);
        true
    }

    /// Ends a lookup, and returns the dispatches that wait for it.
    pub(crate) fn end(&mut self, key: &str) -> VecDeque<Box<ActiveDispatch>> {
        self.running.remove(key).map(|lookup| lookup.waiting).unwrap_or_default()
    }

    /// Removes and returns the dispatches that have waited too long. Of those that wait for a request in flight
    /// (`asked`), one stays until the response has arrived: its record keeps the partition here.
    pub(crate) fn expire(&mut self, asked: &HashSet<Arc<str>>, now: Millis) -> VecDeque<Box<ActiveDispatch>> {
        let mut late = VecDeque::new();
        for (key, lookup) in &mut self.running {
            let kept = usize::from(asked.contains(key));
            while lookup.waiting.len() > kept
                && lookup.waiting.front().is_some_and(|active| now > active.not_after_ms())
            {
                late.extend(lookup.waiting.pop_front());
            }
        }
        late
    }

    /// Removes and returns the waiting dispatches that match, and ends lookups without other dispatches. Of those that
    /// wait for a request in flight, one stays as in [`Self::expire`].
    pub(crate) fn take_where(
        &mut self,
        matches: impl Fn(&ActiveDispatch) -> bool,
        asked: &HashSet<Arc<str>>,
    ) -> VecDeque<Box<ActiveDispatch>> {
        let mut left = VecDeque::new();
        self.running.retain(|key, lookup| {
            let waiting = std::mem::take(&mut lookup.waiting).into_iter();
            let (mut leaving, mut staying): (VecDeque<_>, VecDeque<_>) = waiting.partition(|active| matches(active));
            if asked.contains(key) {
                staying.extend(leaving.pop_front());
            }
            lookup.waiting = staying;
            let orphaned = lookup.waiting.is_empty() && !leaving.is_empty();
            left.extend(leaving);
            !orphaned
        });
        left
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}
