//! Each kind of violation is planted once, and found.

use orbweaver_cluster_tests::Digest;
use orbweaver_store::{PageRow, RedirectRow};
use orbweaver_url::{CrawlName, Fingerprint};

use super::*;
use crate::kept::{Contents, Kept, Robots};
use crate::stored::Rows;

const RULES: Rules =
    Rules { interval_us: 100, retry_after_us: 5_000, slow_us: 1_000, twice_at_most: 1, ends_within_ms: 20 };

fn expected(url: &str, fate: Fate, requests: u32) -> Expected {
    Expected { url: format!("http://{url}"), fate, least: requests, most: requests, kind: None }
}

fn entry(at_us: u64, host: &str, target: &str, status: u16) -> Entry {
    let (host, target, agent) = (host.to_owned(), target.to_owned(), String::new());
    Entry { at_us, epoch_us: at_us, host, target, status, agent, version: None }
}

/// Returns the expected content of a page with two targets, the first of which is linked twice.
fn contents() -> Contents {
    Contents {
        bytes: 100,
        hash: "0a".to_owned(),
        links: Digest::of(["http://10.0.0.1/a", "http://10.0.0.1/b", "http://10.0.0.1/a"]),
        targets: Digest::of(["http://10.0.0.1/a", "http://10.0.0.1/b"]),
        words: Digest::of(["two", "words"]),
    }
}

/// Returns the content of the document that [`contents`] demands.
fn content() -> Content {
    let Contents { bytes, hash, links, words, .. } = contents();
    Content { bytes, hash, links, words, is_cut: false }
}

/// Returns the expected stored data of [`good`]: two pages, a missing page, a redirect, a robots.txt.
fn kept() -> Keepsakes {
    let redirect = Kept::Redirect { status: 301, target: "http://10.0.0.1/".to_owned() };
    let urls = [
        ("http://10.0.0.1/", Kept::Page(contents())),
        ("http://10.0.0.1/slow", Kept::Page(contents())),
        ("http://10.0.0.2/gone", Kept::Gone { status: 404 }),
        ("http://10.0.0.2/moved", redirect),
    ];
    let robots = Robots { status: Some(200), body: "User-agent: *".to_owned() };
    Keepsakes {
        urls: urls.map(|(url, kept)| (url.to_owned(), kept)).into(),
        robots: [("http://10.0.0.1".to_owned(), robots)].into(),
    }
}

/// Returns the rows that [`kept`] demands.
fn stored() -> Stored {
    let kept = kept();
    let rows = |url: &str, kept: &Kept| match kept {
        Kept::Page(page) => {
            let fetched = PageRow { content_hash: Some(page.hash.clone()), ..row(url, "fetched", 200, page.bytes) };
            Rows { page: Some(fetched), links: Some(page.targets), redirect: None }
        }
        Kept::Redirect { status, target } => {
            let (from, to) = (url.to_owned(), target.clone());
            let redirect = RedirectRow {
                fingerprint: Fingerprint::of(&CrawlName::default(), url),
                from,
                to,
                status: *status,
                at_ms: 1,
            };
            Rows { page: Some(row(url, "redirected", *status, 0)), links: None, redirect: Some(redirect) }
        }
        _ => Rows { page: Some(row(url, "gone", 404, 0)), ..Rows::default() },
    };
    Stored {
        urls: kept.urls.iter().map(|(url, kept)| (url.clone(), rows(url, kept))).collect(),
        robots: kept.robots,
        pages: kept.urls.into_keys().collect(),
        crawls: 1,
    }
}

fn row(url: &str, outcome: &str, status: u16, bytes: u64) -> PageRow {
    PageRow {
        fingerprint: Fingerprint::of(&CrawlName::default(), url),
        key: url.to_owned(),
        url: url.to_owned(),
        site: "10.0.0.1".into(),
        fetched_at_ms: 1,
        status: Some(status),
        outcome: outcome.to_owned(),
        reason: None,
        content_type: None,
        etag: None,
        last_modified: None,
        bytes,
        content_hash: None,
        depth: 0,
        via: None,
    }
}

/// Returns a run without violations: two pages, a missing page, a page that robots.txt disallows.
fn good() -> Evidence {
    let slow = Expected { kind: Some(Kind::Slow), ..expected("10.0.0.1/slow", Fate::Fetched, 1) };
    Evidence {
        truth: vec![
            expected("10.0.0.1/", Fate::Fetched, 1),
            slow,
            expected("10.0.0.2/gone", Fate::Gone, 1),
            expected("10.0.0.2/private", Fate::RefusedByRobots, 0),
        ],
        requests: vec![
            entry(0, "10.0.0.1", "/robots.txt", 404),
            entry(0, "10.0.0.2", "/robots-moved.txt", 200),
            entry(100, "10.0.0.1", "/", 200),
            entry(150, "10.0.0.2", "/gone", 404),
            entry(200, "10.0.0.1", "/slow", 200),
        ],
        others: vec![],
        paused_ms: vec![],
        documents: ["http://10.0.0.1/", "http://10.0.0.1/slow"].map(|url| (url.to_owned(), 1)).into(),
        contents: ["http://10.0.0.1/", "http://10.0.0.1/slow"].map(|url| (url.to_owned(), content())).into(),
        kept: kept(),
        stored: stored(),
        deleted: vec![],
        dead_letters: 0,
        completions_ms: vec![3, 4],
        complete_at_the_end: true,
        faults_ms: vec![],
        clocks_ms: vec![],
        exits: vec![Exit { who: "fetcher-1".to_owned(), code: Some(0), took_ms: Some(20), servers_away: false }],
        troubles: vec![],
    }
}

fn verdict(spoil: impl FnOnce(&mut Evidence)) -> Verdict {
    let mut evidence = good();
    spoil(&mut evidence);
    Verdict::on(&evidence, &RULES)
}

fn fails(found: &Verdict, said: &str) {
    assert!(!found.is_ok() && found.to_string().ends_with("FAILED"), "{found}");
    let findings: Vec<_> = found.findings().collect();
    assert!(findings.iter().any(|line| line.contains(said)), "{said}: {findings:?}");
}

#[test]
fn a_run_in_which_all_went_well_passes() {
    let found = verdict(|_| {});
    assert!(found.is_ok(), "{:?}", found.findings().collect::<Vec<_>>());
    assert_eq!((found.reachable, found.fetched, found.twice), (3, 3, 0));
}

#[test]
fn a_page_that_was_never_requested_is_lost() {
    let found = verdict(|evidence| drop(evidence.requests.remove(2)));
    fails(&found, "http://10.0.0.1/: never requested");
    assert_eq!((found.fetched, found.lost.len()), (2, 1));
}

#[test]
fn a_page_without_a_document_is_lost() {
    let found = verdict(|evidence| {
        evidence.documents.remove("http://10.0.0.1/");
    });
    fails(&found, "there is no document");
}

#[test]
fn repeated_requests_count_up_to_what_the_faults_explain() {
    let again = |evidence: &mut Evidence, times: u64| {
        evidence.requests.extend((0..times).map(|time| entry(1_500 + time * 100, "10.0.0.1", "/", 200)));
    };
    let once = verdict(|evidence| again(evidence, 1));
    assert!(once.is_ok() && once.twice == 1, "{once}");
    let often = verdict(|evidence| again(evidence, 2));
    assert!(!often.is_ok() && often.twice == 2, "{often}");
}

#[test]
fn a_request_within_the_interval_is_impolite_whatever_lies_between() {
    fails(&verdict(|evidence| evidence.requests[2].at_us = 99), "1 us too early: the interval");
    // Requests of another site are not affected.
    assert!(verdict(|evidence| evidence.requests[3].at_us = 101).is_ok());
}

#[test]
fn a_request_while_an_answer_is_on_its_way_is_impolite() {
    let early = entry(1_299, "10.0.0.1", "/", 200);
    fails(&verdict(|evidence| evidence.requests.push(early)), "an answer was on its way");
    assert!(verdict(|evidence| evidence.requests.push(entry(1_300, "10.0.0.1", "/", 200))).is_ok());
}

#[test]
fn each_request_before_retry_after_is_over_is_impolite() {
    let found = verdict(|evidence| {
        evidence.truth.push(expected("10.0.0.3/busy", Fate::Fetched, 2));
        evidence.documents.insert("http://10.0.0.3/busy".to_owned(), 1);
        let statuses = [(0, 429), (4_999, 200), (4_999 + 100, 200)];
        // Completion and the web share a clock.
        evidence.completions_ms = vec![20];
        evidence.requests.extend(statuses.map(|(at_us, status)| entry(at_us, "10.0.0.3", "/busy", status)));
    });
    fails(&found, "1 us too early: Retry-After");
    assert_eq!(found.impolite.len(), 1);
    let twice = verdict(|evidence| {
        let times = [(0, 429), (100, 404), (300, 404)];
        evidence.requests = times.map(|(at_us, status)| entry(at_us, "10.0.0.2", "/gone", status)).to_vec();
    });
    assert_eq!(twice.impolite.len(), 2, "one who does not listen does not free the site for the next");
}

#[test]
fn while_all_instances_restart_by_clocks_that_were_set_a_retry_after_may_end_early_but_not_the_interval() {
    let with = |at_us: u64, clocks_ms: &[(Millis, Millis)]| {
        verdict(|evidence| {
            evidence.clocks_ms = clocks_ms.to_vec();
            evidence.completions_ms = vec![20];
            evidence.requests.retain(|entry| entry.host != "10.0.0.2");
            let requests = [(0, 429), (at_us, 404)];
            evidence.requests.extend(requests.map(|(at_us, status)| entry(at_us, "10.0.0.2", "/gone", status)));
        })
    };
    fails(&with(4_500, &[]), "500 us too early: Retry-After");
    fails(&with(4_500, &[(5, 9)]), "500 us too early: Retry-After");
    assert!(with(4_500, &[(4, 5)]).impolite.is_empty());
    fails(&with(99, &[(0, 5)]), "1 us too early: the interval");
}

#[test]
fn what_robots_txt_refuses_and_what_is_not_in_the_truth_must_not_be_asked_for() {
    let refused = entry(900, "10.0.0.2", "/private", 200);
    fails(&verdict(|evidence| evidence.requests.push(refused)), "http://10.0.0.2/private: requested");
    let unknown = entry(900, "10.0.0.2", "/else", 200);
    fails(&verdict(|evidence| evidence.requests.push(unknown)), "http://10.0.0.2/else: requested");
    let document = ("http://10.0.0.2/gone".to_owned(), 1);
    fails(&verdict(|evidence| evidence.documents.extend([document])), "has a document");
}

/// Returns the verdict on a run with altered rows of one URL.
fn with_rows(url: &str, change: impl FnOnce(&mut Rows)) -> Verdict {
    verdict(|evidence| change(evidence.stored.urls.get_mut(url).unwrap()))
}

#[test]
fn a_row_that_is_missing_fails_a_run() {
    let (page, moved) = ("http://10.0.0.1/", "http://10.0.0.2/moved");
    fails(&with_rows(page, |rows| rows.page = None), "http://10.0.0.1/: no row of the page");
    fails(&with_rows(page, |rows| rows.links = None), "http://10.0.0.1/: rows of its links: none, not 2 (");
    fails(&with_rows(moved, |rows| rows.redirect = None), "its redirect leads to nowhere, not to http://10.0.0.1/");
    fails(&verdict(|evidence| drop(evidence.stored.urls.remove("http://10.0.0.2/gone"))), "gone: no row of the page");
    fails(&verdict(|evidence| evidence.stored.robots.clear()), "http://10.0.0.1: no row of its robots.txt");
}

#[test]
fn a_row_that_is_wrong_or_too_much_fails_a_run() {
    let (page, gone) = ("http://10.0.0.1/slow", "http://10.0.0.2/gone");
    fails(&with_rows(page, |rows| rows.links = Some(Digest::of(["http://10.0.0.1/a"]))), "rows of its links: 1 (");
    fails(
        &with_rows(page, |rows| rows.page.as_mut().unwrap().bytes = 99),
        "its row says 99 bytes (hash 0a), not 100 (0a)",
    );
    let other = |rows: &mut Rows| rows.page.as_mut().unwrap().content_hash = Some("0b".to_owned());
    fails(&with_rows(page, other), "its row says 100 bytes (hash 0b), not 100 (0a)");
    let again = |rows: &mut Rows| rows.page.as_mut().unwrap().outcome = "retry".to_owned();
    fails(&with_rows(gone, again), "its row says retry with Some(404), not gone with 404");
    fails(&with_rows(gone, |rows| rows.links = Some(Digest::of([]))), "rows of its links: 0 (");
    let more = "http://10.0.0.3/".to_owned();
    fails(&verdict(|evidence| evidence.stored.pages.push(more)), "10.0.0.3/: a row of a page that must not be there");
    fails(&verdict(|evidence| evidence.stored.pages.push(gone.to_owned())), "2 rows of one page, with 1 crawls");
    let other = |evidence: &mut Evidence| evidence.stored.robots.values_mut().for_each(|row| row.body.clear());
    fails(&verdict(other), "the row of its robots.txt is");
}

/// Returns the verdict on a run with altered documents.
fn with_documents(change: fn(&mut Content)) -> Verdict {
    verdict(|evidence| evidence.contents.values_mut().for_each(change))
}

#[test]
fn a_document_with_fewer_links_or_bytes_or_cut_fails_a_run() {
    let fewer = |content: &mut Content| content.links = Digest::of(["http://10.0.0.1/a", "http://10.0.0.1/b"]);
    fails(&with_documents(fewer), "the links of its document: 2 (");
    fails(&with_documents(|content| content.bytes = 1), "its document is of 1 bytes");
    fails(&with_documents(|content| content.is_cut = true), "its document was cut");
}

#[test]
fn a_link_that_is_missing_and_replaced_by_another_fails_a_run() {
    let other = |content: &mut Content| {
        content.links = Digest::of(["http://10.0.0.1/a", "http://10.0.0.1/b", "http://10.0.0.1/b"]);
    };
    let found = with_documents(other);
    assert_eq!(found.differing.len(), 2, "one per document");
    fails(&found, "http://10.0.0.1/: the links of its document: 3 (");
    let other = |rows: &mut Rows| rows.links = Some(Digest::of(["http://10.0.0.1/a", "http://10.0.0.1/c"]));
    fails(&with_rows("http://10.0.0.1/slow", other), "http://10.0.0.1/slow: rows of its links: 2 (");
}

#[test]
fn a_document_of_another_body_or_with_another_word_fails_a_run() {
    fails(&with_documents(|content| content.hash = "0b".to_owned()), "its document is of 100 bytes (hash 0b)");
    let other = |content: &mut Content| content.words = Digest::of(["two", "sword"]);
    fails(&with_documents(other), "the words of its document: 2 (");
}

#[test]
fn of_many_findings_of_a_kind_the_first_are_listed_and_the_others_counted() {
    let found = verdict(|evidence| evidence.troubles = (0..50).map(|number| number.to_string()).collect());
    let findings: Vec<_> = found.findings().collect();
    assert_eq!((findings.len(), findings.last().unwrap().as_str()), (21, "trouble: and 30 more"));
}

#[test]
fn dead_letters_fail_a_run() {
    assert!(!verdict(|evidence| evidence.dead_letters = 1).is_ok());
}

#[test]
fn complete_before_all_was_requested_is_too_early() {
    let later = |evidence: &mut Evidence| {
        evidence.requests[4].at_us = 9_000;
        evidence.requests[4].epoch_us = 9_000;
        evidence.completions_ms = vec![12, 3];
    };
    let found = verdict(later);
    fails(&found, "1 URLs had not been requested");
    fails(&found, "requested after complete was reported");
}

#[test]
fn complete_is_complete_always() {
    let again = entry(9_000, "10.0.0.1", "/", 200);
    fails(&verdict(|evidence| evidence.requests.push(again)), "requested after complete was reported at 3");
}

#[test]
fn a_run_that_is_not_reported_complete_at_the_end_fails() {
    assert!(!verdict(|evidence| evidence.complete_at_the_end = false).is_ok());
}

#[test]
fn a_process_must_end_with_0_in_time_unless_servers_are_away() {
    let exit = |code, took_ms, servers_away| {
        verdict(|evidence| {
            evidence.exits[0] = Exit { who: "frontier-2".to_owned(), code, took_ms, servers_away };
        })
    };
    fails(&exit(Some(75), Some(20), false), "frontier-2 ended with Some(75)");
    assert!(exit(Some(75), Some(20), true).is_ok());
    fails(&exit(Some(70), Some(20), true), "frontier-2 ended with Some(70)");
    fails(&exit(None, Some(20), true), "frontier-2 ended with None");
    fails(&exit(Some(0), Some(21), false), "frontier-2 took 21 ms");
}

#[test]
fn a_request_counts_once_as_made_during_faults_however_many_last() {
    let during = |faults_ms: &[(Millis, Millis)]| {
        let late = |evidence: &mut Evidence| {
            evidence.requests[0].epoch_us = 5_999;
            evidence.faults_ms = faults_ms.to_vec();
        };
        verdict(late).during_faults
    };
    assert_eq!(during(&[]), 0);
    assert_eq!(during(&[(5, 6), (4, 7)]), 1);
    assert_eq!(during(&[(4, 5), (6, 7)]), 0);
    assert_eq!(during(&[(0, Millis::MAX)]), good().requests.len());
}

#[test]
fn a_process_that_ends_by_itself_must_be_one_that_a_supervisor_restarts() {
    let exit = |code| {
        let own = Exit { who: "extractor-1".to_owned(), code, took_ms: None, servers_away: false };
        verdict(|evidence| evidence.exits.push(own))
    };
    let stalled = exit(Some(75));
    assert!(stalled.is_ok() && stalled.restarted == 1, "{stalled}");
    fails(&exit(Some(70)), "extractor-1 ended by itself with Some(70)");
    fails(&exit(None), "extractor-1 ended by itself with None");
}

#[test]
fn requests_of_other_crawls_count_for_the_politeness_at_a_site_and_for_nothing_else() {
    let other = |at_us| verdict(|evidence| evidence.others.push(entry(at_us, "10.0.0.2", "/private", 200)));
    assert!(other(250).is_ok());
    fails(&other(249), "1 us too early: the interval");
}

#[test]
fn a_request_while_its_crawl_is_paused_fails_a_run() {
    let paused = |paused_ms| {
        verdict(|evidence| {
            evidence.requests[4].epoch_us = 2_999;
            evidence.paused_ms = vec![paused_ms];
        })
    };
    assert!(paused((3, 4)).is_ok());
    fails(&paused((2, 3)), "10.0.0.1/slow: requested while its crawl was paused");
}

#[test]
fn the_findings_about_two_crawls_add_up() {
    let lost = || verdict(|evidence| drop(evidence.requests.remove(2)));
    let both = verdict(|_| {}).and("second", lost());
    assert_eq!((both.reachable, both.fetched), (6, 5));
    fails(&both, "lost: second: http://10.0.0.1/: never requested");
}

#[test]
fn other_troubles_fail_a_run() {
    fails(&verdict(|evidence| evidence.troubles.push("cql: did not start".to_owned())), "cql: did not start");
}
