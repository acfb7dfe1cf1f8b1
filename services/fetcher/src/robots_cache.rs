//! Cache of robots.txt files by authority, bounded in bytes.

use std::{collections::HashMap, sync::Arc};

use orbweaver_messages::Millis;
use orbweaver_politeness::robots::AgentRules;
use orbweaver_url::Url;

/// Unsuccessful requests for a robots.txt since its last answer. Each count has its own limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tries {
    /// Number of refusals (429, 503).
    pub(crate) refused: u8,
    /// Number of failures: no response, or another 5xx.
    pub(crate) failed: u8,
}

/// Cached state of an authority's robots.txt.
#[derive(Debug, Clone)]
pub(crate) enum CachedRobots {
    /// Rules for this crawler; everything is allowed if there is no file.
    Rules(Arc<AgentRules>),
    /// Unreachable after repeated attempts: nothing is allowed.
    Unreachable,
    /// The address of the authority is not public.
    Private,
    /// The host does not exist.
    UnknownHost,
    /// Redirected to this URL, by this number of redirects so far: the next lookup continues there. Otherwise a lookup would never
    /// reach the target at a site whose interval is as long as a dispatch may wait. The unsuccessful requests still count.
    Redirected(Url, u8, Tries),
    /// Without an answer so far; to be requested again when the entry expires.
    Failing(Tries),
}

#[derive(Debug)]
struct Entry {
    known: CachedRobots,
    until_ms: Millis,
    bytes: usize,
}

/// Two generations: entries in use move to the young one; when that reaches half of the budget, the old one is
/// dropped.
#[derive(Debug)]
pub(crate) struct RobotsCache {
    young: HashMap<Arc<str>, Entry>,
    old: HashMap<Arc<str>, Entry>,
    young_bytes: usize,
    budget: usize,
}

/// Bytes charged per entry in addition to its file.
const ENTRY_BYTES: usize = 256;

impl RobotsCache {
    /// Creates an empty cache for `budget` bytes of files.
    pub(crate) fn new(budget: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_bytes: 0, budget }
    }

    /// Stores the state of an authority until `until_ms`; `bytes` is the size of its file.
    pub(crate) fn insert(&mut self, key: &Arc<str>, known: CachedRobots, until_ms: Millis, bytes: usize) {
        self.old.remove(key);
        self.put(key.clone(), Entry { known, until_ms, bytes: bytes + ENTRY_BYTES });
    }

    /// Returns the state of an authority and its expiry time.
    pub(crate) fn get(&mut self, key: &str, now: Millis) -> Option<(CachedRobots, Millis)> {
        if let Some((key, entry)) = self.old.remove_entry(key) {
            self.put(key, entry);
        }
        let entry = self.young.get(key)?;
        (entry.until_ms > now).then(|| (entry.known.clone(), entry.until_ms))
    }

    /// Returns the unsuccessful requests since the last answer, even after the time of the next retry.
    pub(crate) fn tries(&self, key: &str) -> Tries {
        match self.young.get(key).or_else(|| self.old.get(key)).map(|entry| &entry.known) {
            Some(CachedRobots::Failing(tries) | CachedRobots::Redirected(.., tries)) => *tries,
            _ => Tries::default(),
        }
    }

    /// Returns the URL at which the lookup of an authority continues, and the number of redirects that led there.
    pub(crate) fn redirect(&mut self, key: &str, now: Millis) -> Option<(Url, u8)> {
        match self.get(key, now) {
            Some((CachedRobots::Redirected(target, redirects, _), _)) => Some((target, redirects)),
            _ => None,
        }
    }

    /// Returns the number of authorities that are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn put(&mut self, key: Arc<str>, entry: Entry) {
        if self.young_bytes + entry.bytes > self.budget / 2 && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += entry.bytes;
        if let Some(before) = self.young.insert(key, entry) {
            self.young_bytes -= before.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> Arc<str> {
        format!("http://h{number}").into()
    }

    #[test]
    fn knowledge_ends_at_its_time_but_failures_are_counted_on() {
        let mut cache = RobotsCache::new(1 << 20);
        let tries = Tries { refused: 1, failed: 2 };
        cache.insert(&name(1), CachedRobots::Failing(tries), 100, 0);
        assert!(matches!(cache.get("http://h1", 99), Some((CachedRobots::Failing(known), 100)) if known == tries));
        assert!(cache.get("http://h1", 100).is_none());
        assert_eq!(cache.tries("http://h1"), tries);
        assert_eq!(cache.tries("http://h2"), Tries::default());
    }

    #[test]
    fn the_cache_stays_within_its_budget_and_keeps_what_is_used() {
        let mut cache = RobotsCache::new(100 * (ENTRY_BYTES + 1000));
        for number in 0..10_000 {
            cache.insert(&name(number), CachedRobots::Unreachable, 1, 1000);
            assert!(cache.get("http://h0", 0).is_some(), "in use at {number}");
            assert!(cache.len() <= 100);
        }
        assert!(cache.get("http://h9000", 0).is_none());
    }

    #[test]
    fn a_file_larger_than_the_budget_is_kept_alone() {
        let mut cache = RobotsCache::new(10);
        cache.insert(&name(1), CachedRobots::Unreachable, 1, 1000);
        cache.insert(&name(2), CachedRobots::Unreachable, 1, 1000);
        assert!(cache.len() <= 2 && cache.get("http://h2", 0).is_some());
    }
}
