//! Answers to the probes that prove the completion of a crawl, as the stage gives them.

use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{CompletionAnswer, CompletionProbe, Dispatch, Outcome, OutcomeKind, encode, probe_key, topic};
use orbweaver_stage::{Actions, Stage};
use prometheus::Registry;

use crate::play::{NOW, Wanted, definition, delivered, follow, open, produced, receive, stage, tick, waiting};

fn probe(version: u64, ends: u64) -> ConsumerRecord {
    let crawl = "docs".parse().unwrap();
    let key = probe_key(&crawl);
    let probe = CompletionProbe { crawl, ends: vec![ends], asked_at_ms: NOW };
    delivered(topic::CONTROL, version, key, Some(encode(&probe))).1
}

fn answers(actions: &Wanted) -> Vec<CompletionAnswer> {
    let keyed = actions.plans.iter().flat_map(|plan| &plan.steps).flat_map(crate::play::records);
    let answers = keyed.filter(|record| record.key.as_deref().is_some_and(|key| key.starts_with(b"answer/")));
    answers.map(|record| orbweaver_messages::decode("answer", record.value.as_ref()).unwrap()).collect()
}

/// Makes every plan of these actions durable.
fn settle(stage: &mut orbweaver_frontier::FrontierStage, actions: &Wanted) {
    for token in actions.plans.iter().filter_map(|plan| plan.token) {
        stage.plan_durable(token, &[], NOW, &mut Actions::default()).unwrap();
    }
}

#[test]
fn an_answer_waits_for_the_dispatches_before_it_and_for_the_crawl_to_rest() {
    let mut stage = stage(&Registry::new(), 0);
    for crawl in ["docs", "news"] {
        follow(&mut stage, &definition(3, crawl, |_| {}));
    }
    open(&mut stage, 1);
    let first = receive(&mut stage, vec![waiting(0, "docs", "a", |_| {})]);
    let dispatch = produced::<Dispatch>(&first, topic::SCHEDULED, "dispatch").remove(0);

    follow(&mut stage, &probe(9, 1));
    let [running] = &answers(&tick(&mut stage, NOW))[..] else { panic!("no answer about a live URL") };
    assert_eq!((running.probe, running.live, running.leased), (9, 1, 1));
    assert_eq!(answers(&tick(&mut stage, NOW)), vec![], "once");

    let gone = Outcome::of(&dispatch, OutcomeKind::Gone, None, NOW);
    let outcome = delivered(topic::OUTCOMES, 0, gone.context.site.to_string(), Some(encode(&gone)));
    let ended = receive(&mut stage, vec![outcome]);
    settle(&mut stage, &ended);
    let tombstone = delivered(topic::FRONTIER, 1, gone.context.fingerprint.to_string(), None);
    receive(&mut stage, vec![tombstone]);
    follow(&mut stage, &probe(10, 2));
    for _ in 0..3 {
        assert_eq!(answers(&tick(&mut stage, NOW)), vec![], "the dispatch is not durable");
    }
    settle(&mut stage, &first);
    let [done] = &answers(&tick(&mut stage, NOW))[..] else { panic!("no answer") };
    assert_eq!((done.probe, done.live, done.leased, done.moved), (10, 0, 0, 2));

    follow(&mut stage, &probe(11, 4));
    let other = receive(&mut stage, vec![waiting(2, "news", "b", |_| {})]);
    settle(&mut stage, &other);
    assert_eq!(answers(&tick(&mut stage, NOW)), vec![], "the log is not read as far as the probe demands");
    let other = receive(&mut stage, vec![waiting(3, "news", "c", |_| {})]);
    assert_eq!(answers(&tick(&mut stage, NOW)), vec![], "a dispatch of any crawl is not durable");
    settle(&mut stage, &other);
    let [rested] = &answers(&tick(&mut stage, NOW))[..] else { panic!("no answer") };
    assert_eq!((rested.probe, rested.live, rested.moved), (11, 0, 2), "another crawl does not move this one");

    follow(&mut stage, &probe(12, 5));
    for _ in 0..2 {
        assert_eq!(answers(&tick(&mut stage, NOW)), vec![], "a claim of another owner is not read");
    }
    stage.passed_over(delivered(topic::FRONTIER, 4, String::new(), None).0);
    assert_eq!(answers(&tick(&mut stage, NOW)), vec![], "from here on the crawl must rest");
    let again = receive(&mut stage, vec![waiting(5, "docs", "d", |_| {})]);
    let [moved] = &answers(&tick(&mut stage, NOW))[..] else { panic!("no answer about a live URL") };
    assert_eq!((moved.live, moved.leased, moved.moved), (1, 1, 6));
    settle(&mut stage, &again);
}
