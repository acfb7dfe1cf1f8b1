use super::*;
use crate::index::{CrawlKey, MemoryIndex};

/// Returns the entry of a URL at offset 0 that is not demoted.
fn entry(site: QueueKey, crawl: CrawlKey) -> IndexEntry {
    let (depth, by_weight, failures, blocks) = (0, 0, 0, 0);
    IndexEntry {
        offset: 0,
        crawl,
        site,
        depth,
        by_weight,
        failures,
        blocks,
        demoted: false,
        not_before_ms: 0,
        asleep: false,
    }
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
