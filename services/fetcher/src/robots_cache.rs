//! What is known of the robots.txt of authorities, bounded by bytes.

use std::{collections::HashMap, sync::Arc};

use orbweaver_messages::Millis;
use orbweaver_politeness::robots::AgentRules;

/// What holds for an authority.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// What its robots.txt says to us; everything is allowed where there is none.
    Rules(Arc<AgentRules>),
    /// It could not be had, again and again: nothing is allowed.
    Unreachable,
    /// Its address is not public.
    Private,
    /// There is no such host.
    UnknownHost,
    /// It could not be had so many times; to be tried again when this knowledge ends.
    Failing(u8),
}

#[derive(Debug)]
struct Entry {
    known: Known,
    until_ms: Millis,
    bytes: usize,
}

/// Two generations: what is used moves to the young one; when that is half of the budget, the old one is dropped.
#[derive(Debug)]
pub(crate) struct RobotsCache {
    young: HashMap<Arc<str>, Entry>,
    old: HashMap<Arc<str>, Entry>,
    young_bytes: usize,
    budget: usize,
}

/// Charged for an entry besides its file.
const ENTRY_BYTES: usize = 256;

impl RobotsCache {
    /// An empty cache for `budget` bytes of files.
    #[must_use]
    pub(crate) fn new(budget: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), young_bytes: 0, budget }
    }

    /// Remembers what holds for an authority until `until_ms`; `bytes` is the size of its file.
    pub(crate) fn insert(&mut self, authority: &Arc<str>, known: Known, until_ms: Millis, bytes: usize) {
        self.old.remove(authority);
        self.put(authority.clone(), Entry { known, until_ms, bytes: bytes + ENTRY_BYTES });
    }

    /// What holds for an authority, with the moment until which it does.
    pub(crate) fn get(&mut self, authority: &str, now: Millis) -> Option<(Known, Millis)> {
        if let Some((authority, entry)) = self.old.remove_entry(authority) {
            self.put(authority, entry);
        }
        let entry = self.young.get(authority)?;
        (entry.until_ms > now).then(|| (entry.known.clone(), entry.until_ms))
    }

    /// How often it could not be had in a row, also when the time to try again has come.
    #[must_use]
    pub(crate) fn failures(&self, authority: &str) -> u8 {
        match self.young.get(authority).or_else(|| self.old.get(authority)).map(|entry| &entry.known) {
            Some(Known::Failing(failures)) => *failures,
            _ => 0,
        }
    }

    fn put(&mut self, authority: Arc<str>, entry: Entry) {
        if self.young_bytes + entry.bytes > self.budget / 2 && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += entry.bytes;
        if let Some(before) = self.young.insert(authority, entry) {
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
        cache.insert(&name(1), Known::Failing(2), 100, 0);
        assert!(matches!(cache.get("http://h1", 99), Some((Known::Failing(2), 100))));
        assert!(cache.get("http://h1", 100).is_none());
        assert_eq!(cache.failures("http://h1"), 2);
        assert_eq!(cache.failures("http://h2"), 0);
    }

    #[test]
    fn the_cache_stays_within_its_budget_and_keeps_what_is_used() {
        let mut cache = RobotsCache::new(100 * (ENTRY_BYTES + 1000));
        for number in 0..10_000 {
            cache.insert(&name(number), Known::Unreachable, 1, 1000);
            assert!(cache.get("http://h0", 0).is_some(), "in use at {number}");
            assert!(cache.young.len() + cache.old.len() <= 100);
        }
        assert!(cache.get("http://h9000", 0).is_none());
    }

    #[test]
    fn a_file_larger_than_the_budget_is_kept_alone() {
        let mut cache = RobotsCache::new(10);
        cache.insert(&name(1), Known::Unreachable, 1, 1000);
        cache.insert(&name(2), Known::Unreachable, 1, 1000);
        assert!(cache.young.len() + cache.old.len() <= 2 && cache.get("http://h2", 0).is_some());
    }
}
