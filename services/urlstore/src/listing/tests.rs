//! Lists over scripted entries.

use proptest::prelude::*;

use super::*;

fn selection(crawl: &str, status: StatusFilter) -> Selection {
    Selection { crawl: crawl.parse().unwrap(), site: "a.example".into(), status }
}

fn row(crawl: &str, number: usize, status: u16) -> (Fingerprint, PageRow) {
    let key = format!("https://a.example/{number}");
    let fingerprint = Fingerprint::of(&crawl.parse().unwrap(), &key);
    let row = PageRow {
        fingerprint,
        url: key.clone(),
        key,
        site: "a.example".into(),
        fetched_at_ms: 1,
        status: Some(status),
        outcome: "fetched".to_owned(),
        reason: None,
        content_type: None,
        etag: None,
        last_modified: None,
        bytes: 0,
        content_hash: None,
        depth: 0,
        via: None,
    };
    (fingerprint, row)
}

/// Performs the reads of an answer on sorted entries.
fn answer(mut listing: Listing, entries: &[(Fingerprint, PageRow)]) -> (Vec<PageRow>, Option<Fingerprint>, usize) {
    let mut read = 0;
    while let Some((after, count)) = listing.next_read() {
        let later = entries.iter().filter(|(fingerprint, _)| after.is_none_or(|after| *fingerprint > after));
        let found: Vec<_> = later.take(count).cloned().collect();
        let (is_last, mut taken) = (found.len() < count, 0);
        for (fingerprint, row) in &found {
            taken += 1;
            let is_admitted = listing.selection().status.admits(row.status);
            let has_room =
                if is_admitted { listing.add(*fingerprint, Some(row.clone())) } else { listing.pass(*fingerprint) };
            if !has_room {
                break;
            }
        }
        read += taken;
        if is_last && taken == found.len() {
            listing.end();
        }
    }
    let (_, pages, next) = listing.into_parts();
    (pages, next, read)
}

fn sorted(mut entries: Vec<(Fingerprint, PageRow)>) -> Vec<(Fingerprint, PageRow)> {
    entries.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
    entries
}

proptest! {
    #[test]
    fn each_selected_page_is_in_one_answer_and_in_order(
        statuses in prop::collection::vec((prop::sample::select(vec!["docs", "shop"]), 200_u16..203), 0..400),
        limit in 1_usize..150,
        status in prop::sample::select(vec![StatusFilter::Any, StatusFilter::One(201), StatusFilter::Class(3)]),
    ) {
        let rows = statuses.into_iter().enumerate().map(|(number, (crawl, status))| row(crawl, number, status));
        let entries = sorted(rows.collect());
        let selection = selection("docs", status);
        let (mut found, mut after, mut answers) = (vec![], None, 0);
        loop {
            let (pages, next, read) = answer(Listing::begin(selection.clone(), after, limit), &entries);
            prop_assert!(pages.len() <= limit && read <= MAX_READ);
            answers += 1;
            found.extend(pages);
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let expected: Vec<_> = entries.iter().filter(|(fingerprint, row)| selection.selects(*fingerprint, row)).map(|(_, row)| row.clone()).collect();
        prop_assert!(answers <= expected.len() / limit + 1, "{} answers", answers);
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn an_answer_reads_a_bounded_number_of_entries_even_if_none_is_selected() {
    let reads = |crawl, count, status| {
        let entries = sorted((0..count).map(|number| row(crawl, number, 200)).collect());
        let (mut after, mut reads) = (None, vec![]);
        loop {
            let (pages, next, read) = answer(Listing::begin(selection("docs", status), after, 10), &entries);
            assert_eq!(pages, []);
            reads.push(read);
            after = next;
            if after.is_none() {
                return reads;
            }
        }
    };
    assert_eq!(reads("shop", 2500, StatusFilter::Any), [1000, 1000, 500], "their pages are read");
    assert_eq!(reads("docs", 25_000, StatusFilter::One(404)), [10_000, 10_000, 5000], "their pages are not read");
}

#[test]
fn an_answer_with_long_texts_ends_early_and_continues_after_it() {
    let long = |number| {
        let (fingerprint, row) = row("docs", number, 200);
        (fingerprint, PageRow { via: Some("v".repeat(1 << 20)), ..row })
    };
    let entries = sorted((0..6).map(long).collect());
    let (pages, next, _) = answer(Listing::begin(selection("docs", StatusFilter::Any), None, 100), &entries);
    assert_eq!((pages.len(), next), (4, Some(entries[3].0)));
    let (pages, next, _) = answer(Listing::begin(selection("docs", StatusFilter::Any), next, 100), &entries);
    assert_eq!((pages.len(), next), (2, None));
}

#[test]
fn a_page_that_was_deleted_or_has_another_site_or_crawl_is_not_listed() {
    let mut listing = Listing::begin(selection("docs", StatusFilter::Any), None, 10);
    let (fingerprint, page) = row("docs", 1, 200);
    assert!(listing.add(fingerprint, None));
    assert!(listing.add(fingerprint, Some(PageRow { site: "b.example".into(), ..page.clone() })));
    let (other, foreign) = row("shop", 1, 200);
    assert!(listing.add(other, Some(foreign)));
    assert!(listing.add(fingerprint, Some(page.clone())));
    listing.end();
    assert!(!listing.is_unknown());
    assert_eq!(listing.into_parts().1, [page]);
}

#[test]
fn a_site_without_entries_is_unknown_only_from_the_beginning() {
    let unknown = |after| {
        let mut listing = Listing::begin(selection("docs", StatusFilter::Any), after, 10);
        listing.end();
        listing.is_unknown()
    };
    assert!(unknown(None));
    assert!(!unknown(Some(Fingerprint([1; 16]))));
}
