use orbweaver_messages::{FrontierUrl, UrlContext};
use orbweaver_url::{CrawlName, Fingerprint};
use proptest::prelude::*;

use super::*;
use crate::index::{CrawlKey, MemoryIndex, SiteKey};

/// Returns the entry of a URL at offset 0 that is not demoted.
fn entry(site: QueueKey, crawl: CrawlKey) -> IndexEntry {
    let (depth, by_weight, failures, blocks) = (0, 0, 0, 0);
    IndexEntry { offset: 0, crawl, site, depth, by_weight, failures, blocks, demoted: false, not_before_ms: 0 }
}

#[test]
fn demoted_urls_that_are_refused_without_a_request_make_no_room_for_more_of_them() {
    let id = QueueKey(1);
    let entry = |offset| IndexEntry { offset, demoted: true, ..entry(id, CrawlKey(0)) };
    let (mut sites, mut index, mut idle) = (SiteQueues::new(100), MemoryIndex::default(), Offsets::default());
    for offset in 0..30 {
        idle.insert(offset);
        sites.admit(&entry(offset));
        sites.enqueue(id, entry(offset).rank(), 0);
    }
    let mut source = Source { index: &mut index, idle: &idle };
    for offset in 0..10 {
        assert_eq!(sites.next(100, 0, &mut source).unwrap(), Some((id, entry(offset).rank())));
        sites.pass_over(&entry(offset), None, 0);
    }
    assert_eq!(sites.next(100, 0, &mut source).unwrap(), Some((id, entry(10).rank())));
    assert_eq!(sites.next(100, 0, &mut source).unwrap(), None, "one is in flight, and none has ended");
    sites.end(&entry(10), None, 0);
    let next = std::iter::from_fn(|| sites.next(100, 0, &mut source).unwrap());
    assert_eq!(next.count(), 2, "one for each that has ended");
}

proptest! {
    #[test]
    fn crawls_at_the_same_sites_never_exceed_its_slots_together_and_none_of_their_urls_is_forgotten(
        urls in proptest::collection::vec((0..3u32, 0..2u64), 1..120),
        ends in proptest::collection::vec(any::<proptest::sample::Index>(), 1..40),
        shares in proptest::collection::vec(1..1000u32, 3..4),
        paused in proptest::collection::vec((0..3u32, 0..2u64, 0..3000i64), 0..6),
    ) {
        let (mut sites, mut index, mut idle) = (SiteQueues::new(500), MemoryIndex::default(), Offsets::default());
        for (crawl, share) in (0..).zip(&shares) {
            sites.set_terms(CrawlKey(crawl), Some(CrawlTerms { share: *share, ..CrawlTerms::default() }), 0);
        }
        let key = |crawl: u32, site: u64| QueueKey::at(SiteKey(site), CrawlKey(crawl));
        let entries: Vec<IndexEntry> = (0..)
            .zip(&urls)
            .map(|(offset, (crawl, site))| IndexEntry { offset, ..entry(key(*crawl, *site), CrawlKey(*crawl)) })
            .collect();
        let context = UrlContext::of_seed(CrawlName::default(), String::new(), "a.example".into());
        let (waiting, fingerprint) = (FrontierUrl::admitted(context, 0), |offset: u64| Fingerprint(u128::from(offset).to_be_bytes()));
        for entry in &entries {
            idle.insert(entry.offset);
            index.replace(fingerprint(entry.offset), None, Some((*entry, &waiting)));
            sites.admit(entry);
            sites.enqueue(entry.site, entry.rank(), 0);
        }
        for (crawl, site, until_ms) in &paused {
            sites.pause(key(*crawl, *site), *until_ms);
        }
        let (mut now, mut flying, mut left) = (0, vec![], entries.len());
        for end in ends.iter().cycle() {
            sites.wake(now);
            while let Some((_, (_, offset))) =
                sites.next(100, now, &mut Source { index: &mut index, idle: &idle }).unwrap()
            {
                idle.remove(offset);
                flying.push(entries[usize::try_from(offset).unwrap()]);
                left -= 1;
            }
            for site in 0..2 {
                let at_site = flying.iter().filter(|entry| entry.site.site(entry.crawl) == SiteKey(site)).count();
                prop_assert!(at_site <= 2, "{} dispatches in flight at an interval of 500 ms", at_site);
            }
            if left == 0 {
                break;
            }
            prop_assert!(!flying.is_empty() || now <= 3000, "{} URLs are never dispatched", left);
            if flying.is_empty() {
                now += 500;
            } else {
                let ended: IndexEntry = flying.swap_remove(end.index(flying.len()));
                sites.end(&ended, None, now);
                index.replace(fingerprint(ended.offset), Some(ended), None);
                sites.remove_url(ended.site, now);
            }
        }
    }
}
