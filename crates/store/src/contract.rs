//! The contract of every store, as a suite of tests. The tests of an implementation call [`holds`] on one of its
//! stores, which may contain other data and keeps the rows of the suite.

#![allow(clippy::unwrap_used, reason = "a suite of tests: a failure is a panic with its place")]

mod rows;

use orbweaver_messages::Millis;
use orbweaver_url::{CrawlName, Fingerprint};

pub use self::rows::{capture, links, long_links, page, page_write};
use self::rows::{content_hash, fingerprint, redirect, robots, write_in};
use crate::{CaptureRow, ContentRow, Erase, LinksOut, PageRow, RedirectRow, RobotsRow, SitePage, Store, Write};

/// Runs the whole suite. `run` is a name that was not used by an earlier run on the same data.
///
/// # Panics
/// Panics if the store breaks the contract.
pub async fn holds(store: &dyn Store, run: &str) {
    what_was_never_written_is_absent(store, run).await;
    an_older_event_never_overwrites_a_newer_one_and_a_replay_changes_nothing(store, run).await;
    one_write_may_carry_old_and_new_in_any_order(store, run).await;
    history_is_newest_first_and_bounded(store, run).await;
    history_of_neighbours_is_not_mixed(store, run).await;
    many_links_survive(store, run).await;
    long_lists_replace_each_other(store, run).await;
    concurrent_writes_leave_the_newest(store, run).await;
    what_a_newer_event_lacks_is_gone(store, run).await;
    captures_are_newest_first_and_of_each_fetch_that_of_the_highest_epoch(store, run).await;
    a_content_leads_to_its_latest_fetch(store, run).await;
    the_pages_of_a_site_are_listed_once_and_in_order_from_any_page_on(store, run).await;
    a_page_is_listed_from_its_first_write_on_with_its_newest_status(store, run).await;
    nothing_to_write_is_written_at_once(store).await;
}

/// Runs the suite of a store from which pages can be deleted.
///
/// # Panics
/// Panics if the store breaks the contract.
pub async fn erases(store: &impl Erase, run: &str) {
    let (erased, kept) = (Rows::new(run, "erased", 2000), Rows::new(run, "kept", 2000));
    erased.write_to(store).await;
    kept.write_to(store).await;
    store.write(vec![Write::Links(long_links(erased.page.fingerprint, 2500, 300))]).await.unwrap();
    for late in [None, Some(1000), Some(3000)] {
        if let Some(late) = late {
            Rows::new(run, "erased", late).write_to(store).await;
        } else {
            store.erase(&CrawlName::default(), erased.page.fingerprint, 3000).await.unwrap();
        }
        is_absent(store, erased.page.fingerprint).await;
    }
    kept.are_the_newest_in(store).await;
    let later = Rows::new(run, "erased", 3001);
    later.write_to(store).await;
    later.are_the_newest_in(store).await;
    assert_eq!(store.history(erased.page.fingerprint, 10).await.unwrap().len(), 1, "deleted events stay deleted");
}

async fn is_absent(store: &dyn Store, fingerprint: Fingerprint) {
    assert_eq!(store.page(fingerprint).await.unwrap(), None);
    assert_eq!(store.history(fingerprint, 10).await.unwrap(), []);
    assert_eq!(store.links(fingerprint).await.unwrap(), None);
    assert_eq!(store.canonical(fingerprint).await.unwrap(), None);
    assert_eq!(store.redirect(fingerprint).await.unwrap(), None);
    assert_eq!(store.captures(fingerprint, 10).await.unwrap(), []);
    assert_eq!(entry(store, fingerprint).await, None);
}

/// Returns the entry of a page in the list of the site of [`page`].
async fn entry(store: &dyn Store, fingerprint: Fingerprint) -> Option<SitePage> {
    let before = u128::from_be_bytes(fingerprint.0).checked_sub(1).map(|before| Fingerprint(before.to_be_bytes()));
    let site = page(fingerprint, 0).site;
    let next = store.site_pages(&CrawlName::default(), &site, before, 1).await.unwrap();
    next.first().copied().filter(|entry| entry.fingerprint == fingerprint)
}

/// Performs the same writes, in the same order, on `store` and on a store that is known to be correct, and compares the
/// resulting contents. Each write is one call, or all are one call. `writes` are arguments of [`write_of`]; the caller
/// chooses order and repetitions.
///
/// # Panics
/// Panics if the contents of the two stores differ.
pub async fn ends_alike(store: &dyn Store, right: &dyn Store, run: &str, writes: &[(u8, u8, u8)], at_once: bool) {
    let all: Vec<Write> = writes.iter().map(|&write| write_of(run, write)).collect();
    for store in [store, right] {
        if at_once {
            store.write(all.clone()).await.unwrap();
        } else {
            for write in &all {
                store.write(vec![write.clone()]).await.unwrap();
            }
        }
    }
    for key in writes.iter().map(|(_, key, _)| *key) {
        let (fingerprint, authority) = (fingerprint(run, &key.to_string()), format!("https://{key}.{run}"));
        assert_eq!(store.page(fingerprint).await.unwrap(), right.page(fingerprint).await.unwrap());
        assert_eq!(store.history(fingerprint, 1000).await.unwrap(), right.history(fingerprint, 1000).await.unwrap());
        assert_eq!(store.links(fingerprint).await.unwrap(), right.links(fingerprint).await.unwrap());
        assert_eq!(store.redirect(fingerprint).await.unwrap(), right.redirect(fingerprint).await.unwrap());
        assert_eq!(store.robots(&authority).await.unwrap(), right.robots(&authority).await.unwrap());
        assert_eq!(store.captures(fingerprint, 1000).await.unwrap(), right.captures(fingerprint, 1000).await.unwrap());
        assert_eq!(entry(store, fingerprint).await, entry(right, fingerprint).await);
        let hash = content_hash(fingerprint);
        assert_eq!(store.content(&hash).await.unwrap(), right.content(&hash).await.unwrap());
    }
}

/// Returns a write with the given type (mostly a page; links, a redirect, a robots.txt, a capture), key and time. The
/// optional fields and their values follow from these three, so that a repetition is the same event.
#[must_use]
pub fn write_of(run: &str, (what, key, time): (u8, u8, u8)) -> Write {
    let (what, name, at_ms) = ((what % 7).max(2), key.to_string(), 1_767_225_600_000 + Millis::from(time));
    let (fingerprint, authority) = (fingerprint(run, &name), format!("https://{name}.{run}"));
    let has = |option: u8| {
        Fingerprint::of(&CrawlName::default(), &format!("{what} {key} {time} {option}")).0[0].is_multiple_of(2)
    };
    let text = |option: u8| has(option).then(|| format!("{option} at {time}"));
    match what {
        2 => page_write(&PageRow {
            url: format!("https://example.org/{time}"),
            status: has(0).then_some(200 + u16::from(time)),
            reason: text(1),
            content_type: text(2),
            etag: text(3),
            last_modified: text(4),
            bytes: time.into(),
            content_hash: text(5),
            depth: time.into(),
            via: text(6),
            ..page(fingerprint, at_ms)
        }),
        3 => Write::Links(links(fingerprint, at_ms, usize::from(time) * 3)),
        4 => Write::Redirect(redirect(fingerprint, at_ms)),
        5 => Write::Capture(CaptureRow {
            status: 200 + u16::from(time),
            is_revisit: has(0),
            content_hash: has(0).then(|| content_hash(fingerprint)),
            ..capture(fingerprint, at_ms)
        }),
        _ => Write::Robots(RobotsRow { status: has(0).then_some(404), ..robots(&authority, at_ms) }),
    }
}

async fn what_was_never_written_is_absent(store: &dyn Store, run: &str) {
    is_absent(store, fingerprint(run, "absent")).await;
    assert_eq!(store.robots(&format!("https://absent.{run}")).await.unwrap(), None);
    assert_eq!(store.content(&content_hash(fingerprint(run, "absent"))).await.unwrap(), None);
}

/// A row of each table.
struct Rows {
    page: PageRow,
    links: LinksOut,
    redirect: RedirectRow,
    robots: RobotsRow,
    capture: CaptureRow,
}

impl Rows {
    fn new(run: &str, name: &str, at_ms: Millis) -> Self {
        let fingerprint = fingerprint(run, name);
        Self {
            page: page(fingerprint, at_ms),
            links: links(fingerprint, at_ms, 3),
            redirect: redirect(fingerprint, at_ms),
            robots: robots(&format!("https://{}.{run}:8443", name.replace(' ', "-")), at_ms),
            capture: capture(fingerprint, at_ms),
        }
    }

    /// Returns the rows without their optional fields.
    fn bare(self) -> Self {
        let (fingerprint, at_ms) = (self.page.fingerprint, self.page.fetched_at_ms);
        Self {
            page: PageRow {
                status: None,
                reason: None,
                content_type: None,
                etag: None,
                last_modified: None,
                content_hash: None,
                via: None,
                ..self.page
            },
            links: links(fingerprint, at_ms, 0),
            robots: RobotsRow { status: None, body: String::new(), ..self.robots },
            redirect: self.redirect,
            capture: CaptureRow { is_revisit: true, content_hash: None, ..self.capture },
        }
    }

    fn writes(&self) -> [Write; 5] {
        let (links, redirect) = (Write::Links(self.links.clone()), Write::Redirect(self.redirect.clone()));
        let (robots, capture) = (Write::Robots(self.robots.clone()), Write::Capture(self.capture.clone()));
        [page_write(&self.page), links, redirect, robots, capture]
    }

    async fn write_to(&self, store: &dyn Store) {
        store.write(self.writes().into()).await.unwrap();
    }

    async fn are_the_newest_in(&self, store: &dyn Store) {
        let fingerprint = self.page.fingerprint;
        assert_eq!(store.page(fingerprint).await.unwrap().as_ref(), Some(&self.page));
        assert_eq!(store.history(fingerprint, 1).await.unwrap(), [self.page.event()]);
        assert_eq!(store.links(fingerprint).await.unwrap().as_ref(), Some(&self.links));
        assert_eq!(store.redirect(fingerprint).await.unwrap().as_ref(), Some(&self.redirect));
        assert_eq!(store.robots(&self.robots.authority).await.unwrap().as_ref(), Some(&self.robots));
        assert_eq!(store.captures(fingerprint, 1).await.unwrap(), std::slice::from_ref(&self.capture));
        let status = self.page.status;
        assert_eq!(entry(store, fingerprint).await, Some(SitePage { fingerprint, status }));
    }
}

async fn an_older_event_never_overwrites_a_newer_one_and_a_replay_changes_nothing(store: &dyn Store, run: &str) {
    let rows = |at_ms| Rows::new(run, "older", at_ms);
    for (at_ms, newest) in
        [(2000, 2000), (1000, 2000), (1999, 2000), (2000, 2000), (3000, 3000), (3000, 3000), (1000, 3000)]
    {
        rows(at_ms).write_to(store).await;
        rows(newest).are_the_newest_in(store).await;
    }
    let events = store.history(fingerprint(run, "older"), 10).await.unwrap();
    assert_eq!(events, [3000, 2000, 1999, 1000].map(|at_ms| rows(at_ms).page.event()));
}

async fn one_write_may_carry_old_and_new_in_any_order(store: &dyn Store, run: &str) {
    for (name, times) in [("ascending", [1000, 2000, 3000]), ("descending", [3000, 2000, 1000])] {
        store.write(times.into_iter().flat_map(|at_ms| Rows::new(run, name, at_ms).writes()).collect()).await.unwrap();
        Rows::new(run, name, 3000).are_the_newest_in(store).await;
        assert_eq!(store.history(fingerprint(run, name), 10).await.unwrap().len(), 3, "{name}");
    }
}

async fn history_is_newest_first_and_bounded(store: &dyn Store, run: &str) {
    let fingerprint = fingerprint(run, "history");
    let times: [Millis; 7] = [5, 0, 1_767_225_600_000, 256, 255, 65_536, 4_294_967_296];
    store.write(times.iter().map(|&at_ms| page_write(&page(fingerprint, at_ms))).collect()).await.unwrap();
    let mut newest_first = times;
    newest_first.sort_unstable_by(|a, b| b.cmp(a));
    for limit in [0, 1, 3, 7, 100] {
        let events = store.history(fingerprint, limit).await.unwrap();
        let found: Vec<Millis> = events.iter().map(|event| event.at_ms).collect();
        assert_eq!(found, newest_first[..limit.min(7)], "limit {limit}");
    }
}

async fn history_of_neighbours_is_not_mixed(store: &dyn Store, run: &str) {
    let middle = fingerprint(run, "neighbour");
    let mut below = middle;
    below.0[15] = below.0[15].wrapping_sub(1);
    let mut above = middle;
    above.0[15] = above.0[15].wrapping_add(1);
    let neighbours = [(below, 1), (middle, 2), (above, 3)];
    store.write(neighbours.map(|(fingerprint, at_ms)| page_write(&page(fingerprint, at_ms))).to_vec()).await.unwrap();
    assert_eq!(store.history(middle, 10).await.unwrap(), [page(middle, 2).event()]);
}

async fn many_links_survive(store: &dyn Store, run: &str) {
    let fingerprint = fingerprint(run, "many links");
    let many = links(fingerprint, 1000, 20_000);
    store.write(vec![Write::Links(many.clone())]).await.unwrap();
    assert_eq!(store.links(fingerprint).await.unwrap(), Some(many));
}

/// A newer list of another length completely replaces an older one, and no replay of the older one restores any of it.
async fn long_lists_replace_each_other(store: &dyn Store, run: &str) {
    for (name, older, newer) in [("shorter", 900, 300), ("longer", 300, 900), ("to none", 300, 0), ("to one", 300, 1)] {
        let fingerprint = fingerprint(run, name);
        let (older, newer) = (long_links(fingerprint, 1000, older), long_links(fingerprint, 2000, newer));
        let put = async |row: &LinksOut| store.write(vec![Write::Links(row.clone())]).await.unwrap();
        put(&older).await;
        assert!(store.links(fingerprint).await.unwrap() == Some(older.clone()), "{name}: the older list");
        for row in [&newer, &older, &newer] {
            put(row).await;
            assert!(store.links(fingerprint).await.unwrap() == Some(newer.clone()), "{name}: the newer list");
            assert_eq!(store.canonical(fingerprint).await.unwrap(), newer.canonical, "{name}");
        }
    }
}

async fn concurrent_writes_leave_the_newest(store: &dyn Store, run: &str) {
    let fingerprint = fingerprint(run, "concurrent");
    let times = (0..200).map(|i| (i * 7919) % 200 + 1);
    let writes = times.map(|at_ms| store.write(vec![page_write(&page(fingerprint, at_ms))]));
    futures::future::try_join_all(writes).await.unwrap();
    assert_eq!(store.page(fingerprint).await.unwrap(), Some(page(fingerprint, 200)));
    assert_eq!(store.history(fingerprint, 1000).await.unwrap().len(), 200);
}

async fn what_a_newer_event_lacks_is_gone(store: &dyn Store, run: &str) {
    for (name, is_late) in [("lacks", false), ("lacks, late", true)] {
        let (older, newer) = (Rows::new(run, name, 1000), Rows::new(run, name, 2000).bare());
        let [first, second] = if is_late { [&newer, &older] } else { [&older, &newer] };
        first.write_to(store).await;
        first.are_the_newest_in(store).await;
        second.write_to(store).await;
        newer.are_the_newest_in(store).await;
    }
}

async fn captures_are_newest_first_and_of_each_fetch_that_of_the_highest_epoch(store: &dyn Store, run: &str) {
    let fingerprint = fingerprint(run, "captures");
    let row = |at_ms, epoch: u64| CaptureRow {
        epoch,
        file: format!("{at_ms}-{epoch}"),
        offset: epoch * 10,
        ..capture(fingerprint, at_ms)
    };
    for (at_ms, epoch) in [(2000, 5), (1000, 300), (2000, 7), (2000, 6), (3000, 0), (1000, 2), (2000, 7)] {
        store.write(vec![Write::Capture(row(at_ms, epoch))]).await.unwrap();
    }
    let newest = [row(3000, 0), row(2000, 7), row(1000, 300)];
    for limit in 0..5 {
        assert_eq!(store.captures(fingerprint, limit).await.unwrap(), newest[..limit.min(3)], "limit {limit}");
    }
    let many = (0..250).map(|epoch| Write::Capture(row(4000, epoch))).collect();
    store.write(many).await.unwrap();
    assert_eq!(store.captures(fingerprint, 2).await.unwrap(), [row(4000, 249), row(3000, 0)]);
}

async fn a_content_leads_to_its_latest_fetch(store: &dyn Store, run: &str) {
    let (first, second) = (fingerprint(run, "content"), fingerprint(run, "the same content"));
    let content_hash = content_hash(first);
    let row =
        |fingerprint, at_ms| CaptureRow { content_hash: Some(content_hash.clone()), ..capture(fingerprint, at_ms) };
    for (written, at_ms, latest) in
        [(first, 2000, (first, 2000)), (second, 1000, (first, 2000)), (second, 3000, (second, 3000))]
    {
        store.write(vec![Write::Capture(row(written, at_ms))]).await.unwrap();
        let content = ContentRow { content_hash: content_hash.clone(), fingerprint: latest.0, at_ms: latest.1 };
        assert_eq!(store.content(&content_hash).await.unwrap(), Some(content));
    }
    let revisit = CaptureRow { is_revisit: true, content_hash: None, ..capture(first, 4000) };
    store.write(vec![Write::Capture(revisit)]).await.unwrap();
    assert_eq!(store.content(&content_hash).await.unwrap().map(|content| content.at_ms), Some(3000));
}

async fn the_pages_of_a_site_are_listed_once_and_in_order_from_any_page_on(store: &dyn Store, run: &str) {
    let (site, crawl) = (format!("{run}.example"), CrawlName::default());
    let mut pages: Vec<_> = (0..60).map(|number| fingerprint(run, &format!("listed {number}"))).collect();
    // The first and the last ones that there are, and neighbours.
    pages.extend([[0; 16], [0xff; 16], [0x0f; 16], [0x10; 16]].map(Fingerprint));
    let of = |crawl: &CrawlName, site: &str, at_ms| {
        let (crawl, site) = (crawl.clone(), site.to_owned());
        move |fingerprint: &Fingerprint| {
            write_in(&crawl, &PageRow { site: site.as_str().into(), ..page(*fingerprint, at_ms) })
        }
    };
    store.write(pages.iter().map(of(&crawl, &site, 2000)).collect()).await.unwrap();
    for at_ms in [1000, 2000, 3000] {
        store.write(pages.iter().rev().map(of(&crawl, &site, at_ms)).collect()).await.unwrap();
    }
    let list = async |crawl: &CrawlName, site: &str, after, limit| {
        let entries = store.site_pages(crawl, site, after, limit).await.unwrap();
        entries.into_iter().map(|entry| entry.fingerprint).collect::<Vec<_>>()
    };
    // Sites and crawls whose names are before and after, or begin with the same characters.
    let sites = [&site[..site.len() - 1], &format!("{site}.a"), &format!("{site}a")];
    let of_site = sites.into_iter().map(|name| (crawl.clone(), name));
    let of_crawl = ["defaul", "default#2", "default2"].into_iter().map(|name| (name.parse().unwrap(), &site[..]));
    for (number, (crawl, site)) in of_site.chain(of_crawl).enumerate() {
        let other = fingerprint(run, &format!("of another list {number}"));
        store.write(vec![of(&crawl, site, 1000)(&other)]).await.unwrap();
        assert_eq!(list(&crawl, site, None, 10).await, [other], "{crawl} {site}");
    }
    pages.sort_unstable();
    for limit in [0, 1, 7, 63, 64, 65, 1000, usize::MAX] {
        assert_eq!(list(&crawl, &site, None, limit).await, pages[..limit.min(64)], "limit {limit}");
    }
    for (number, after) in pages.iter().enumerate() {
        let later = &pages[number + 1..];
        assert_eq!(list(&crawl, &site, Some(*after), 5).await, later[..later.len().min(5)], "after {after}");
    }
    let absent = fingerprint(run, "not listed");
    let later: Vec<_> = pages.iter().filter(|page| **page > absent).copied().collect();
    assert_eq!(list(&crawl, &site, Some(absent), 100).await, later);
    assert_eq!(list(&crawl, &format!("absent.{run}"), None, 10).await, []);
}

async fn a_page_is_listed_from_its_first_write_on_with_its_newest_status(store: &dyn Store, run: &str) {
    let fingerprint = fingerprint(run, "listed");
    store.write(vec![Write::Links(links(fingerprint, 500, 3))]).await.unwrap();
    assert_eq!(entry(store, fingerprint).await, None, "a page without a fetch is not listed");
    for (at_ms, status, newest) in [
        (3000, Some(200), Some(200)),
        (2000, Some(404), Some(200)),
        (5000, Some(200), Some(200)),
        (4000, Some(404), Some(200)),
        (6000, None, None),
        (6000, None, None),
        (5500, Some(200), None),
        (7000, Some(500), Some(500)),
    ] {
        store.write(vec![page_write(&PageRow { status, ..page(fingerprint, at_ms) })]).await.unwrap();
        let expected = Some(SitePage { fingerprint, status: newest });
        assert_eq!(entry(store, fingerprint).await, expected, "{at_ms}: {status:?}");
    }
    let rows =
        [(9000, Some(404)), (8000, Some(200))].map(|(at_ms, status)| PageRow { status, ..page(fingerprint, at_ms) });
    store.write(rows.iter().map(page_write).collect()).await.unwrap();
    assert_eq!(entry(store, fingerprint).await.and_then(|entry| entry.status), Some(404));
}

async fn nothing_to_write_is_written_at_once(store: &dyn Store) {
    store.write(vec![]).await.unwrap();
}
