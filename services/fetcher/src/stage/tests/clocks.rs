//! Time: the end of ownership, and clocks that are set.

use orbweaver_store::{MemoryStore, Store as _};
use orbweaver_url::CrawlName;

use super::*;

#[test]
fn nothing_is_requested_later_than_half_a_session_after_the_last_accepted_commit() {
    let mut around = Surroundings::unlimited();
    around.stage.ownership.until_ms = START + 2000;
    let waits = |around: &Surroundings, sequence, at| {
        let ready = around.ready_every(1, &format!("https://{sequence}.example/"), sequence);
        ReadyDispatch { not_before_ms: at, ..ready }
    };
    around.deliver(&waits(&around, 1, START + 2000));
    around.deliver(&waits(&around, 2, START + 2001));
    // A redirect to itself is a request like any other.
    around.client.on("https://1.example/", moved("https://1.example/", &["a=b"]));
    around.client.on("https://1.example/", page("one"));
    around.client.on("https://2.example/", page("two"));
    around.pass(10_000);
    assert_eq!(around.asked(), ["https://1.example/"]);
    assert_eq!(around.stage.due(around.now()), 0, "what may not be sent is not overdue");
    around.stage.owns_until(around.now() + 2000);
    around.pass(1000);
    assert_eq!(around.asked().len(), 3, "{:?}", around.asked());
    around.assert_all_complete();
}

#[test]
fn a_wall_clock_that_is_set_by_an_hour_hurries_no_site_and_makes_nothing_late() {
    for step in [3_600_000, -3_600_000] {
        let mut around = Surroundings::unlimited();
        for (sequence, path) in [(1, "a"), (2, "b")] {
            let ready = around.ready_every(5000, &format!("https://a.example/{path}"), sequence);
            around.client.on(&ready.dispatch.context.url, page(path));
            around.deliver(&ready);
        }
        around.pass(5001);
        assert_eq!(around.asked().len(), 1);
        around.clock.step(step);
        around.pass(4999);
        assert_eq!(around.asked().len(), 1, "hurried by {step}");
        around.pass(2);
        assert_eq!(around.asked().len(), 2, "held up by {step}");
        around.assert_all_complete();
    }
}

#[test]
fn a_dispatch_from_a_clock_that_is_an_hour_ahead_counts_as_made_now() {
    let mut around = Surroundings::unlimited();
    let mut ready = around.ready("https://a.example/", 1);
    for at in [&mut ready.dispatch.dispatched_at_ms, &mut ready.dispatch.not_after_ms, &mut ready.dispatch.expires_ms] {
        *at += 3_600_000;
    }
    ready.not_before_ms += 3_600_400;
    around.client.on("https://a.example/", page("a"));
    around.deliver(&ready);
    around.pass(399);
    assert_eq!(around.asked(), [""; 0]);
    around.pass(1);
    assert_eq!(around.asked(), ["https://a.example/"]);
    around.assert_all_complete();
}

#[test]
fn a_later_version_is_in_the_store_although_the_clock_of_the_earlier_writer_was_an_hour_ahead() {
    let url = "https://a.example/x";
    let (store, mut written_at_ms) = (MemoryStore::new(), 0);
    for (ahead_ms, answer) in [(3_600_000, page("early")), (0, page("later")), (0, moved("https://a.example/y", &[]))] {
        let mut around = Surroundings::unlimited();
        around.clock.advance(ahead_ms);
        around.client.on(url, answer);
        let mut ready = around.ready(url, 1);
        ready.dispatch.written_at_ms = written_at_ms;
        around.deliver(&ready);
        around.settle();
        let rows = around.durable.iter().filter_map(|durable| match durable {
            Durable::Row(row) => Some(row.clone()),
            Durable::Record(_) => None,
        });
        store.write(rows.collect()).now_or_never().unwrap().unwrap();
        let outcome = around.outcomes().remove(0);
        let row = store.page(outcome.context.fingerprint).now_or_never().unwrap().unwrap().unwrap();
        assert_eq!((row.outcome.as_str(), row.fetched_at_ms), (outcome.kind.name(), outcome.event_ms()));
        assert!(row.fetched_at_ms > written_at_ms && outcome.ended_at_ms == START + ahead_ms);
        // The rows that the extractor writes for the page carry the time of the page's row.
        for record in around.records(topic::PAGES) {
            let page: Page = decode("page", Some(&record.headers[2].1)).unwrap();
            assert_eq!((page.event_ms(), page.fetched_at_ms), (row.fetched_at_ms, outcome.ended_at_ms));
            assert_eq!(row.content_hash, Some(page.content_hash));
        }
        if let Some(redirect) = store.redirect(outcome.context.fingerprint).now_or_never().unwrap().unwrap() {
            assert_eq!(redirect.at_ms, row.fetched_at_ms);
        }
        written_at_ms = outcome.event_ms();
    }
    let history = store.history(Fingerprint::of(&CrawlName::default(), url), 10).now_or_never().unwrap().unwrap();
    let times: Vec<_> = history.iter().map(|event| event.at_ms - START - 3_600_000).collect();
    assert_eq!(times, [2, 1, 0]);
}
