//! Scripted in-memory store, for tests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::{BoxFuture, FutureExt, ready};
use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint};

use crate::{
    CaptureRow, ContentRow, Erase, FetchEvent, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage, Store, StoreError,
    Write,
};

/// Store that keeps everything in memory, and fails as scripted.
#[derive(Debug, Default)]
pub struct MemoryStore(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    pages: HashMap<Fingerprint, PageRow>,
    site_pages: BTreeSet<(CrawlName, String, Fingerprint)>,
    history: BTreeMap<(Fingerprint, Reverse<Millis>), FetchEvent>,
    links: HashMap<Fingerprint, LinksOut>,
    redirects: HashMap<Fingerprint, RedirectRow>,
    robots: HashMap<String, RobotsRow>,
    captures: BTreeMap<(Fingerprint, Reverse<Millis>, Reverse<u64>), CaptureRow>,
    contents: HashMap<String, ContentRow>,
    /// Time up to which the events of a page are deleted.
    erased: HashMap<Fingerprint, Millis>,
    failures: VecDeque<StoreError>,
    attempts: usize,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next `writes` writes fail with [`StoreError::Failed`], without any effect.
    pub fn fail_next(&self, writes: usize) {
        for _ in 0..writes {
            self.fail_next_with(StoreError::Failed("scripted failure".to_owned()));
        }
    }

    /// Makes the next write without a scripted failure fail with `error`, without any effect.
    pub fn fail_next_with(&self, error: StoreError) {
        self.state().failures.push_back(error);
    }

    /// Returns the number of writes, including failed ones.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.state().attempts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, write: Write) {
        let of_page = match &write {
            Write::Page { row, .. } => Some((row.fingerprint, row.fetched_at_ms)),
            Write::Links(links) => Some((links.fingerprint, links.at_ms)),
            Write::Redirect(row) => Some((row.fingerprint, row.at_ms)),
            Write::Capture(row) => Some((row.fingerprint, row.at_ms)),
            Write::Robots(_) => None,
        };
        if of_page
            .is_some_and(|(fingerprint, at_ms)| self.erased.get(&fingerprint).is_some_and(|until| at_ms <= *until))
        {
            return;
        }
        match write {
            Write::Page { crawl, row } => {
                self.site_pages.insert((crawl, row.site.to_string(), row.fingerprint));
                self.history.insert((row.fingerprint, Reverse(row.fetched_at_ms)), row.event());
                put_newer(&mut self.pages, row.fingerprint, *row, |row| row.fetched_at_ms);
            }
            Write::Links(links) => put_newer(&mut self.links, links.fingerprint, links, |links| links.at_ms),
            Write::Redirect(row) => put_newer(&mut self.redirects, row.fingerprint, row, |row| row.at_ms),
            Write::Robots(row) => put_newer(&mut self.robots, row.authority.clone(), row, |row| row.fetched_at_ms),
            Write::Capture(row) => {
                if let Some(content) = row.content() {
                    put_newer(&mut self.contents, content.content_hash.clone(), content, |row| row.at_ms);
                }
                self.captures.insert((row.fingerprint, Reverse(row.at_ms), Reverse(row.epoch)), row);
            }
        }
    }
}

fn put_newer<K: std::hash::Hash + Eq, V>(rows: &mut HashMap<K, V>, key: K, row: V, time: impl Fn(&V) -> Millis) {
    if rows.get(&key).is_none_or(|there| time(there) <= time(&row)) {
        rows.insert(key, row);
    }
}

impl Erase for MemoryStore {
    fn erase<'a>(
        &'a self,
        crawl: &'a CrawlName,
        fingerprint: Fingerprint,
        until_ms: Millis,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let mut state = self.state();
        state.pages.retain(|key, page| *key != fingerprint || page.fetched_at_ms > until_ms);
        if !state.pages.contains_key(&fingerprint) {
            state.site_pages.retain(|(of, _, key)| of != crawl || *key != fingerprint);
        }
        state.history.retain(|(key, at), _| *key != fingerprint || at.0 > until_ms);
        state.links.retain(|key, links| *key != fingerprint || links.at_ms > until_ms);
        state.redirects.retain(|key, row| *key != fingerprint || row.at_ms > until_ms);
        state.captures.retain(|(key, at, _), _| *key != fingerprint || at.0 > until_ms);
        let until = state.erased.entry(fingerprint).or_insert(until_ms);
        *until = until_ms.max(*until);
        ready(Ok(())).boxed()
    }
}

impl Store for MemoryStore {
    fn write_shared(&self, writes: Arc<[Write]>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let mut state = self.state();
            state.attempts += 1;
            if let Some(error) = state.failures.pop_front() {
                return Err(error);
            }
            writes.iter().for_each(|write| state.put(write.clone()));
            Ok(())
        }
        .boxed()
    }

    fn page(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<PageRow>, StoreError>> {
        ready(Ok(self.state().pages.get(&fingerprint).cloned())).boxed()
    }

    fn history(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<FetchEvent>, StoreError>> {
        let range = (fingerprint, Reverse(Millis::MAX))..=(fingerprint, Reverse(Millis::MIN));
        let events = self.state().history.range(range).take(limit).map(|(_, event)| event.clone()).collect();
        ready(Ok(events)).boxed()
    }

    fn links(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<LinksOut>, StoreError>> {
        ready(Ok(self.state().links.get(&fingerprint).cloned())).boxed()
    }

    fn redirect(&self, fingerprint: Fingerprint) -> BoxFuture<'_, Result<Option<RedirectRow>, StoreError>> {
        ready(Ok(self.state().redirects.get(&fingerprint).cloned())).boxed()
    }

    fn robots<'a>(&'a self, authority: &'a str) -> BoxFuture<'a, Result<Option<RobotsRow>, StoreError>> {
        ready(Ok(self.state().robots.get(authority).cloned())).boxed()
    }

    fn captures(&self, fingerprint: Fingerprint, limit: usize) -> BoxFuture<'_, Result<Vec<CaptureRow>, StoreError>> {
        let from = (fingerprint, Reverse(Millis::MAX), Reverse(u64::MAX));
        let to = (fingerprint, Reverse(Millis::MIN), Reverse(u64::MIN));
        let mut rows: Vec<CaptureRow> = self.state().captures.range(from..=to).map(|(_, row)| row.clone()).collect();
        rows.dedup_by_key(|row| row.at_ms);
        rows.truncate(limit);
        ready(Ok(rows)).boxed()
    }

    fn content<'a>(&'a self, content_hash: &'a str) -> BoxFuture<'a, Result<Option<ContentRow>, StoreError>> {
        ready(Ok(self.state().contents.get(content_hash).cloned())).boxed()
    }

    fn site_pages<'a>(
        &'a self,
        crawl: &'a CrawlName,
        site: &'a str,
        after: Option<Fingerprint>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<SitePage>, StoreError>> {
        let at = |fingerprint| (crawl.clone(), site.to_owned(), fingerprint);
        let first = after.map_or(Bound::Included(at(Fingerprint([0; 16]))), |after| Bound::Excluded(at(after)));
        let range = (first, Bound::Included(at(Fingerprint([0xff; 16]))));
        let state = self.state();
        // The status of a page is that of its row.
        let entry = |&(_, _, fingerprint): &(_, _, Fingerprint)| SitePage {
            fingerprint,
            status: state.pages.get(&fingerprint).and_then(|row| row.status),
        };
        let pages = state.site_pages.range(range).take(limit).map(entry).collect();
        ready(Ok(pages)).boxed()
    }
}
