use orbweaver_log::{Cleanup, Log as _, MemoryLog, Record, TopicPartition, TopicSpec};
use orbweaver_messages::{
    decode,
    topic::{CONTROL, EVENTS},
};

use super::*;

const NOW: Millis = 1_000_000_000;

fn state() -> CrawlState {
    CrawlState {
        name: "docs".parse().unwrap(),
        version: 7,
        is_paused: false,
        is_stopped: false,
        is_deleted: false,
        revisit_ms: None,
        is_at_cap: false,
        changes: 0,
        counts: CrawlCounts::default(),
    }
}

fn counts(live: u64, leased: u64) -> CrawlCounts {
    CrawlCounts { pages: 100 - live, bytes: 0, leased, live, asleep: 0 }
}

/// Takes steps until nothing is due; a crawl that must be proven is complete. Returns the kinds of the events.
fn settle(last: &mut Option<CrawlEvent>, state: &CrawlState, now: Millis) -> Vec<CrawlEventKind> {
    let mut kinds = vec![];
    loop {
        let event = match next_step(last.as_ref(), state, true, now) {
            Step::Write(kind) => state.event(last.as_ref(), kind, now),
            Step::Prove => {
                let CrawlCounts { pages, bytes, live, asleep, .. } = state.counts;
                state.proven(last.as_ref(), CrawlTotals { live, asleep, pages, bytes, moved: 0 }, now)
            }
            Step::Nothing => return kinds,
        };
        kinds.push(event.kind);
        assert!(kinds.len() < 10, "{kinds:?}");
        *last = Some(event);
    }
}

#[test]
fn each_change_of_a_crawl_is_one_event() {
    use CrawlEventKind::{Capped, Complete, Created, Deleted, Paused, Reopened, Resumed, Stopped};
    let begun = CrawlState { changes: 1, ..state() };
    let of = |live, leased| CrawlState { counts: counts(live, leased), ..begun.clone() };
    let at_cap = |live, leased| CrawlState { is_at_cap: true, ..of(live, leased) };
    let stopped = |live| CrawlState { version: 8, is_stopped: true, ..of(live, 0) };
    let steps: Vec<(CrawlState, &[CrawlEventKind])> = vec![
        (state(), &[Created]),
        (of(5, 1), &[]),
        (CrawlState { is_paused: true, ..of(5, 0) }, &[Paused]),
        (of(5, 0), &[Resumed]),
        (of(0, 1), &[]),
        (of(0, 0), &[Complete]),
        (of(3, 0), &[Reopened]),
        (at_cap(3, 1), &[]),
        (at_cap(3, 0), &[Capped]),
        (CrawlState { is_paused: true, ..at_cap(3, 0) }, &[Paused]),
        (at_cap(3, 0), &[Resumed]),
        (of(3, 0), &[Reopened]),
        (stopped(2), &[Stopped]),
        (stopped(0), &[Complete]),
        (CrawlState { version: 9, is_deleted: true, ..stopped(0) }, &[Deleted]),
        (CrawlState { version: 9, is_deleted: true, counts: CrawlCounts::default(), ..stopped(0) }, &[]),
    ];
    let mut last = None;
    for (number, (state, kinds)) in steps.iter().enumerate() {
        assert_eq!(settle(&mut last, state, NOW), *kinds, "step {number}: {state:?}");
        assert_eq!(settle(&mut last, state, NOW), [], "step {number}, repeated");
    }
}

#[test]
fn a_crawl_that_was_never_queued_or_is_paused_with_queued_urls_is_not_complete() {
    let mut last = None;
    assert_eq!(settle(&mut last, &state(), NOW), [CrawlEventKind::Created]);
    assert_eq!(settle(&mut last, &state(), NOW), []);
    let paused = CrawlState { is_paused: true, is_at_cap: true, changes: 1, counts: counts(3, 0), ..state() };
    assert_eq!(settle(&mut last, &paused, NOW), [CrawlEventKind::Paused]);
    let idle = CrawlState { counts: counts(0, 0), ..paused };
    assert_eq!(settle(&mut last, &idle, NOW), [CrawlEventKind::Complete], "nothing is left to be resumed");
}

#[test]
fn rounds_are_proven_at_most_once_in_the_shortest_interval_and_only_after_changes() {
    let round = CrawlState {
        revisit_ms: Some(3_600_000),
        changes: 1,
        counts: CrawlCounts { asleep: 50, ..counts(0, 0) },
        ..state()
    };
    let mut last = None;
    assert_eq!(settle(&mut last, &round, NOW), [CrawlEventKind::Created, CrawlEventKind::RoundComplete]);
    let visiting = CrawlState { counts: CrawlCounts { asleep: 40, ..counts(10, 0) }, ..round.clone() };
    assert_eq!(settle(&mut last, &visiting, NOW), [], "visits reopen nothing");
    assert_eq!(settle(&mut last, &round, NOW + 3_599_999), []);
    assert_eq!(next_step(last.as_ref(), &round, false, NOW + 3_600_000), Step::Nothing, "nothing has changed since");
    assert_eq!(settle(&mut last, &round, NOW + 3_600_000), [CrawlEventKind::RoundComplete]);
}

#[test]
fn a_complete_crawl_is_proven_again_after_its_counts_have_changed_even_if_nothing_was_seen_to_be_queued() {
    let idle = CrawlState { changes: 3, counts: counts(0, 0), ..state() };
    let mut last = None;
    settle(&mut last, &idle, NOW);
    let steps = [(true, NOW + 59_999), (false, NOW + 60_000), (true, NOW + 60_000)];
    let steps = steps.map(|(has_moved, now)| next_step(last.as_ref(), &idle, has_moved, now));
    assert_eq!(steps, [Step::Nothing, Step::Nothing, Step::Prove]);
}

#[test]
fn a_crawl_whose_revisits_end_is_complete_once_nothing_of_it_sleeps() {
    let asleep = |revisit_ms, asleep| CrawlState {
        revisit_ms,
        changes: 1,
        counts: CrawlCounts { asleep, ..counts(0, 0) },
        ..state()
    };
    let mut last = None;
    assert_eq!(settle(&mut last, &asleep(None, 5), NOW), [CrawlEventKind::Created, CrawlEventKind::RoundComplete]);
    let visiting = CrawlState { counts: CrawlCounts { asleep: 4, ..counts(1, 1) }, ..asleep(None, 4) };
    assert_eq!(settle(&mut last, &visiting, NOW), []);
    assert_eq!(settle(&mut last, &asleep(None, 0), NOW), [CrawlEventKind::Complete]);
    let stopped = CrawlState { is_stopped: true, ..asleep(None, 3) };
    assert_eq!(settle(&mut last, &stopped, NOW), [CrawlEventKind::Stopped], "what sleeps ends soon");
    assert_eq!(settle(&mut last, &CrawlState { is_stopped: true, ..asleep(None, 0) }, NOW), [CrawlEventKind::Complete]);
}

#[test]
fn an_owner_that_has_not_read_the_definition_of_the_last_event_writes_nothing() {
    let stopped = CrawlState { version: 8, is_stopped: true, ..state() };
    let mut last = None;
    settle(&mut last, &stopped, NOW);
    assert_eq!(settle(&mut last, &CrawlState { is_paused: true, ..state() }, NOW), []);
    let unknown = CrawlState { is_deleted: true, ..state() };
    assert_eq!(settle(&mut None, &unknown, NOW), [], "it was deleted before there were events");
}

fn kinds(log: &MemoryLog) -> Vec<CrawlEventKind> {
    let records = log.records(TopicPartition::new(EVENTS, 0)).into_iter();
    records.filter_map(|record| Some(decode::<CrawlEvent>("event", record.value.as_ref()).ok()?.kind)).collect()
}

#[tokio::test]
async fn a_writer_continues_from_the_last_event_in_the_log() {
    let log = MemoryLog::new(&[EVENTS, CONTROL].map(|topic| TopicSpec::new(topic, 2, Cleanup::Compact)));
    let (mut first, mut second) = (EventWriter::default(), EventWriter::default());
    let paused = CrawlState { is_paused: true, ..state() };
    for _ in 0..3 {
        first.step(&log, std::slice::from_ref(&paused), NOW).await.unwrap();
    }
    assert_eq!(kinds(&log), [CrawlEventKind::Created, CrawlEventKind::Paused]);
    let broken = Record::new(TopicPartition::new(EVENTS, 0), None, Some("{".into()), NOW);
    log.append(vec![broken]).await.unwrap();
    for writer in [&mut second, &mut first] {
        for _ in 0..2 {
            writer.step(&log, &[state()], NOW).await.unwrap();
        }
    }
    assert_eq!(kinds(&log), [CrawlEventKind::Created, CrawlEventKind::Paused, CrawlEventKind::Resumed]);
}
