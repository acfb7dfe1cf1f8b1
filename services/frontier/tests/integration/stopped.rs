//! Stopped crawls, as the stage handles them.

use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{Dispatch, Outcome, OutcomeKind, PageCount, encode, topic};
use orbweaver_stage::{Origin, Stage as _};
use prometheus::Registry;

use crate::play::{self, NOW, Wanted, delivered, follow, open, produced, receive, stage, tick};

fn definition(version: u64, max_pages: Option<u64>, paused: bool, stopped: bool) -> ConsumerRecord {
    play::definition(version, "docs", |definition| {
        (definition.max_pages, definition.paused, definition.stopped) = (max_pages, paused, stopped);
    })
}

fn waiting(offsets: std::ops::Range<u64>) -> Vec<(Origin, ConsumerRecord)> {
    offsets.map(|offset| play::waiting(offset, "docs", &offset.to_string(), |_| {})).collect()
}

fn dispatched(actions: &Wanted) -> Vec<Dispatch> {
    produced(actions, topic::SCHEDULED, "dispatch")
}

/// Returns the number of refused URLs.
fn refused(actions: &Wanted) -> usize {
    let outcomes: Vec<Outcome> = produced(actions, topic::OUTCOMES, "outcome");
    assert!(outcomes.iter().all(|outcome| outcome.reason.as_deref() == Some("stopped")), "{outcomes:?}");
    outcomes.len()
}

fn ended(offset: u64, dispatch: &Dispatch, kind: OutcomeKind, until_ms: i64) -> (Origin, ConsumerRecord) {
    let mut outcome = Outcome::of(dispatch, kind, Some("x"), NOW);
    (outcome.retry_at_ms, outcome.blocked_until_ms) = (Some(until_ms), Some(until_ms));
    delivered(topic::OUTCOMES, offset, outcome.context.site.to_string(), Some(encode(&outcome)))
}

#[test]
fn the_delayed_urls_of_a_stopped_crawl_end_at_once_also_after_a_restart_and_those_of_others_stay_delayed() {
    let in_an_hour = |offset: u64, crawl: &str| {
        play::waiting(offset, crawl, &offset.to_string(), |waiting| waiting.not_before_ms = NOW + 3_600_000)
    };
    for restarts in [false, true] {
        let mut stage = stage(&Registry::new(), 100);
        follow(&mut stage, &definition(3, None, false, restarts));
        // More than are checked in one call, most of them of another crawl.
        let records = (0..2_500).map(|offset| in_an_hour(offset, if offset % 5 == 0 { "docs" } else { "news" }));
        if restarts {
            for (_, record) in records {
                stage.restore(record.tp.partition, &record).unwrap();
            }
            open(&mut stage, 1);
        } else {
            open(&mut stage, 1);
            assert_eq!(dispatched(&receive(&mut stage, records.collect())), []);
            follow(&mut stage, &definition(4, None, false, true));
        }
        let ends: usize = (0..20)
            .map(|_| {
                let actions = tick(&mut stage, NOW);
                assert_eq!(dispatched(&actions), []);
                refused(&actions)
            })
            .sum();
        assert_eq!(ends, 500);
    }
}

#[test]
fn no_count_of_a_deleted_crawl_is_written() {
    for deleted in [false, true] {
        let mut stage = stage(&Registry::new(), 100);
        follow(&mut stage, &definition(3, None, false, false));
        open(&mut stage, 1);
        let leased = dispatched(&receive(&mut stage, waiting(0..1)));
        receive(&mut stage, vec![ended(0, &leased[0], OutcomeKind::Fetched, NOW)]);
        follow(&mut stage, &definition(4, None, false, true));
        if deleted {
            follow(
                &mut stage,
                &play::definition(5, "docs", |definition| {
                    (definition.stopped, definition.deleted) = (true, true);
                }),
            );
        }
        let actions = tick(&mut stage, NOW + 60_000);
        let counts: Vec<PageCount> = produced(&actions, topic::CONTROL, "page count");
        assert_eq!(counts.len(), usize::from(!deleted), "{counts:?}");
    }
}

#[test]
fn the_urls_of_a_stopped_crawl_end_without_a_request_also_at_its_cap_and_after_a_pause() {
    for (max_pages, paused, first) in [(None, false, 10), (Some(2), false, 2), (None, true, 0)] {
        let mut stage = stage(&Registry::new(), 100);
        follow(&mut stage, &definition(3, max_pages, paused, false));
        open(&mut stage, 1);
        let leased = dispatched(&receive(&mut stage, waiting(0..30)));
        assert_eq!(leased.len(), first);
        follow(&mut stage, &definition(4, max_pages, false, true));
        let mut ends = 0;
        let end = |stage: &mut _| {
            let actions = tick(stage, NOW);
            assert_eq!(dispatched(&actions), []);
            refused(&actions)
        };
        ends += end(&mut stage);
        // The slots of the site are full: the others follow as these end, whatever the site demands.
        for (dispatch, offset) in leased.iter().zip(0..) {
            let kind = [OutcomeKind::Deferred, OutcomeKind::Retry, OutcomeKind::Blocked][offset as usize % 3];
            let outcome = ended(offset, dispatch, kind, NOW + 86_400_000);
            let actions = receive(&mut stage, vec![outcome]);
            assert_eq!(dispatched(&actions), []);
            ends += refused(&actions);
        }
        ends += end(&mut stage);
        // A retry is a new record, which ends once it is read back.
        let retries = (0..first as u64).filter(|offset| offset % 3 > 0).count();
        assert_eq!(ends + retries, 30, "{max_pages:?} {paused}");
        assert_eq!(refused(&receive(&mut stage, waiting(40..45))), 5, "admitted before normalizer-dedup knew");
    }
}
