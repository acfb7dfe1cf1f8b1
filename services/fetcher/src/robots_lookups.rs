//! Running lookups of robots.txt files, and the dispatches that wait for them: pure.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use orbweaver_messages::Millis;
use orbweaver_politeness::AgentRules;
use orbweaver_store::RobotsRow;
use orbweaver_url::{SiteName, Url};

use crate::{active_dispatch::ActiveDispatch, robots_cache::CachedRobots};

/// A lookup of a robots.txt, and the dispatches that wait for it.
#[derive(Debug)]
pub(crate) struct RobotsLookup {
    pub(crate) waiting: VecDeque<Box<ActiveDispatch>>,
    /// Site of the authority; a dispatch of another site waits here too if a redirect to itself led it to this one.
    pub(crate) site: SiteName,
    /// URL of the first request.
    pub(crate) url: Url,
    pub(crate) redirects: u8,
    /// Expired row of the store, which applies while the authority is unreachable.
    pub(crate) stale: Option<RobotsRow>,
    /// Event time of the row in the store, in milliseconds since the Unix epoch; 0 if none is known.
    pub(crate) stored_ms: Millis,
}

impl RobotsLookup {
    /// Returns a waiting dispatch of this site; its interval and its partition are those of the site.
    pub(crate) fn dispatch_of(&self, site: &SiteName) -> Option<&ActiveDispatch> {
        self.waiting.iter().map(|active| &**active).find(|active| active.is_of(site))
    }
}

/// Running lookups, by authority. Sorted, since they are iterated.
#[derive(Debug)]
pub(crate) struct RobotsLookups {
    /// User agent, whose product token is looked up in the files.
    agent: String,
    running: BTreeMap<Arc<str>, RobotsLookup>,
}

impl RobotsLookups {
    pub(crate) fn new(user_agent: &str) -> Self {
        Self { agent: user_agent.to_owned(), running: BTreeMap::new() }
    }

    pub(crate) fn get(&self, authority: &str) -> Option<&RobotsLookup> {
        self.running.get(authority)
    }

    pub(crate) fn get_mut(&mut self, authority: &str) -> Option<&mut RobotsLookup> {
        self.running.get_mut(authority)
    }

    /// Evaluates a stored robots.txt.
    pub(crate) fn read(&self, row: &RobotsRow) -> CachedRobots {
        match row.status {
            Some(200..=299) => CachedRobots::Rules(Arc::new(AgentRules::parse(row.body.as_bytes(), &self.agent))),
            Some(300..=428 | 430..=499) => CachedRobots::Rules(Arc::default()),
            _ => CachedRobots::Unreachable,
        }
    }

    /// Adds a dispatch to the lookup of its authority; `true` if that starts with it.
    pub(crate) fn add(&mut self, authority: &Arc<str>, active: Box<ActiveDispatch>) -> bool {
        if let Some(lookup) = self.running.get_mut(authority) {
            lookup.waiting.push_back(active);
            return false;
        }
        let mut url = active.url.clone();
        url.set_path("/robots.txt");
        url.set_query(None);
        url.set_fragment(None);
        let (site, waiting) = (active.site.clone(), VecDeque::from([active]));
        let lookup = RobotsLookup { waiting, site, url, redirects: 0, stale: None, stored_ms: 0 };
        self.running.insert(authority.clone(), lookup);
        true
    }

    /// Ends a lookup, and returns the dispatches that wait for it.
    pub(crate) fn end(&mut self, authority: &str) -> VecDeque<Box<ActiveDispatch>> {
        self.running.remove(authority).map(|lookup| lookup.waiting).unwrap_or_default()
    }

    /// Removes and returns the dispatches that have waited too long. Of those that wait for a request in flight
    /// (`asked`), one stays until the response has arrived: its record keeps the partition here.
    pub(crate) fn expire(&mut self, asked: &HashSet<Arc<str>>, now: Millis) -> VecDeque<Box<ActiveDispatch>> {
        let mut late = VecDeque::new();
        for (authority, lookup) in &mut self.running {
            let kept = usize::from(asked.contains(authority));
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
        self.running.retain(|authority, lookup| {
            let waiting = std::mem::take(&mut lookup.waiting).into_iter();
            let (mut leaving, mut staying): (VecDeque<_>, VecDeque<_>) = waiting.partition(|active| matches(active));
            if asked.contains(authority) {
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
