use orbweaver_messages::{
    CLOCK_MARGIN_MS, DISPATCH_TTL_MS, DiscoveryKind, DispatchId, FrontierUrl, Outcome, ReadyDispatch, UrlContext,
};
use orbweaver_url::CrawlName;
use prometheus::Registry;

use super::*;
use crate::site::tests::staggered;

const T: Millis = 1_000_000_000;

fn stage() -> RateLimiterStage {
    RateLimiterStage::new(RateLimiterConfig::default(), RateLimiterMetrics::register(&Registry::new()).unwrap())
}

fn open(stage: &mut RateLimiterStage, claim: Offset, now: Millis) {
    let opening =
        PartitionContext { partition: 3, partitions: 8, assignment_epoch: 1, owner_epoch: claim, commits: [0; 3] };
    stage.open(opening, now);
}

fn opened(claim: Offset) -> RateLimiterStage {
    let mut stage = stage();
    open(&mut stage, claim, T);
    stage
}

fn dispatch(site: &str, sequence: u64) -> Dispatch {
    let url = format!("https://{site}/päge?{sequence}");
    let context = UrlContext {
        key: Some("https://key.example/".into()),
        policy: orbweaver_url::Policy::AGGRESSIVE,
        depth: 2,
        sighting: DiscoveryKind::Link,
        via: Some("https://via.example/\"quoted\"".into()),
        chain: vec!["https://chain.example/".into()],
        ..UrlContext::of_seed(CrawlName::default(), url, site.into())
    };
    Dispatch::of(&FrontierUrl::admitted(context, T), DispatchId { epoch: 4, sequence }, false, T)
}

fn outcome(site: &str, kind: OutcomeKind, status: Option<u16>) -> Outcome {
    let mut outcome = Outcome::of(&dispatch(site, 0), kind, None, T + 100);
    outcome.status = status;
    (outcome.requested_at_ms, outcome.answered_at_ms) = (Some(T), Some(T + 100));
    outcome
}

fn delivered(topic: Topic, offset: Offset, value: Option<Bytes>) -> (Origin, ConsumerRecord) {
    let tp = TopicPartition::new(topic, 3);
    let record = ConsumerRecord { tp, offset, timestamp_ms: T, key: None, value, headers: vec![] };
    (Origin { tp, offset, assignment_epoch: 1 }, record)
}

fn receive(stage: &mut RateLimiterStage, batch: Vec<(Origin, ConsumerRecord)>, now: Millis) -> Wanted {
    let mut actions = Actions::default();
    stage.receive(batch, now, &mut actions).unwrap();
    actions
}

fn produced(actions: &Wanted) -> Vec<&Record> {
    let steps = actions.plans.iter().flat_map(|plan| &plan.steps);
    let records = steps.map(|step| match step {
        Step::Produce(records) => records,
        Step::Perform(_) => panic!("there are no effects"),
    });
    records.flatten().collect()
}

#[test]
fn a_dispatch_passes_through_untouched_with_its_moment_to_its_own_partition() {
    let mut stage = opened(0);
    let sent = dispatch("a.example", 1);
    let (origin, record) = delivered(SCHEDULED, 11, Some(encode(&sent)));
    let actions = receive(&mut stage, vec![(origin, record)], T);
    let records = produced(&actions);
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].tp, TopicPartition::new(READY, 3));
    assert_eq!(records[0].key.as_deref(), Some(&b"a.example"[..]));
    let ready: ReadyDispatch = decode("ready", records[0].value.as_ref()).unwrap();
    assert_eq!(ready, ReadyDispatch { not_before_ms: T, interval_ms: 1000, crawl_interval_ms: 0, dispatch: sent });
    assert_eq!(encode(&ready), records[0].value.clone().unwrap(), "the same bytes as if it were rewritten");
    assert_eq!(actions.plans[0].completes, vec![origin]);
}

#[test]
fn one_batch_is_one_plan_and_what_is_too_early_goes_back() {
    let mut stage = opened(0);
    let batch = (0..4).map(|n| delivered(SCHEDULED, n, Some(encode(&dispatch("a.example", n))))).collect();
    let actions = receive(&mut stage, batch, T);
    assert_eq!(actions.plans.len(), 1);
    assert_eq!(actions.plans[0].completes.len(), 4);
    let topics: Vec<_> = produced(&actions).iter().map(|record| record.tp.topic).collect();
    assert_eq!(topics, [READY, READY, READY, OUTCOMES]);
    let ready = |record: &Record| decode::<ReadyDispatch>("ready", record.value.as_ref()).unwrap().not_before_ms;
    let moments: Vec<_> = produced(&actions)[..3].iter().map(|record| ready(record)).collect();
    assert_eq!(moments, [T, T + 1000, T + 2000]);
    let back: Outcome = decode("outcome", produced(&actions)[3].value.as_ref()).unwrap();
    assert_eq!(
        (back.kind, back.reason.as_deref(), back.retry_at_ms),
        (OutcomeKind::Deferred, Some("interval"), Some(T + 2000))
    );
    let sent = dispatch("a.example", 3);
    assert_eq!((back.id, back.context), (sent.id, sent.context));
}

#[test]
fn our_own_deferral_read_back_completes_and_teaches_nothing() {
    let mut stage = opened(0);
    let mut deferral = outcome("a.example", OutcomeKind::Deferred, None);
    (deferral.requested_at_ms, deferral.answered_at_ms) = (None, None);
    let (origin, record) = delivered(OUTCOMES, 5, Some(encode(&deferral)));
    let actions = receive(&mut stage, vec![(origin, record)], T);
    assert_eq!(actions.completes, vec![origin]);
    assert!(actions.plans.is_empty());
}

#[test]
fn a_deferral_whose_robots_txt_was_refused_blocks_the_site() {
    let mut stage = opened(0);
    let (origin, record) =
        delivered(OUTCOMES, 5, Some(encode(&outcome("a.example", OutcomeKind::Deferred, Some(429)))));
    let actions = receive(&mut stage, vec![(origin, record)], T + 200);
    assert_eq!(actions.plans[0].completes, vec![origin]);
    let memory: SiteState = decode("site", produced(&actions)[0].value.as_ref()).unwrap();
    assert_eq!(memory.blocked_until_ms, T + 100 + staggered(60_000));
}

#[test]
fn a_rejected_dispatch_ends_as_gone_in_its_own_partition_and_a_rejected_outcome_ends_nothing() {
    let sent = dispatch("a.example", 1);
    let (_, record) = delivered(SCHEDULED, 0, Some(encode(&sent)));
    let ends = RateLimiterStage::ends_of_rejected(&record, T);
    let [Record { tp, value, .. }] = &ends[..] else { panic!("{ends:?}") };
    let ended: Outcome = decode("outcome", value.as_ref()).unwrap();
    assert_eq!(*tp, TopicPartition::new(OUTCOMES, 3));
    assert_eq!(ended, Outcome::of(&sent, OutcomeKind::Gone, Some("rejected"), T));
    let (_, record) = delivered(OUTCOMES, 0, Some(encode(&ended)));
    assert_eq!(RateLimiterStage::ends_of_rejected(&record, T), vec![]);
    let (_, record) = delivered(SCHEDULED, 0, None);
    assert_eq!(RateLimiterStage::ends_of_rejected(&record, T), vec![]);
}

#[test]
fn a_block_is_durable_before_its_outcome_completes_and_survives_a_restart() {
    let mut first = opened(0);
    let (origin, record) = delivered(OUTCOMES, 5, Some(encode(&outcome("a.example", OutcomeKind::Blocked, Some(429)))));
    let actions = receive(&mut first, vec![(origin, record)], T + 200);
    assert!(actions.completes.is_empty());
    assert_eq!(actions.plans[0].completes, vec![origin]);
    let record = produced(&actions)[0].clone();
    assert_eq!((record.tp, record.key.as_deref()), (TopicPartition::new(SITES, 3), Some(&b"a.example"[..])));

    let mut second = stage();
    let (_, mut kept) = delivered(SITES, 1, record.value);
    kept.key = record.key;
    second.restore(3, &kept).unwrap();
    open(&mut second, 2, T + 5000);
    assert_eq!(second.view().blocked().names, ["a.example"]);
    let until = T + 100 + staggered(60_000) + CLOCK_MARGIN_MS;
    assert_eq!(second.view().blocked().soonest_ms, Some(until));
    let actions =
        receive(&mut second, vec![delivered(SCHEDULED, 0, Some(encode(&dispatch("a.example", 1))))], T + 6000);
    let back: Outcome = decode("outcome", produced(&actions)[0].value.as_ref()).unwrap();
    assert_eq!((back.reason.as_deref(), back.retry_at_ms), (Some("blocked"), Some(until)));
}

#[test]
fn lessons_during_a_write_complete_with_the_record_after_it() {
    let mut stage = opened(0);
    let mut refusal = outcome("a.example", OutcomeKind::Blocked, Some(429));
    refusal.blocked_until_ms = Some(T + 5000);
    let (first, record) = delivered(OUTCOMES, 1, Some(encode(&refusal)));
    let actions = receive(&mut stage, vec![(first, record)], T + 200);
    let token = actions.plans[0].token.unwrap();
    refusal.crawl_delay_ms = Some(7000);
    let (second, record) = delivered(OUTCOMES, 2, Some(encode(&refusal)));
    let actions = receive(&mut stage, vec![(second, record)], T + 300);
    assert!(actions.plans.is_empty() && actions.completes.is_empty());
    refusal.crawl_delay_ms = Some(8000);
    let (third, record) = delivered(OUTCOMES, 3, Some(encode(&refusal)));
    let actions = receive(&mut stage, vec![(third, record)], T + 300);
    assert!(actions.plans.is_empty() && actions.completes.is_empty());
    assert_eq!(stage.due(T + 300), 2);
    let mut actions = Actions::default();
    stage.plan_durable(token, &[8], T + 400, &mut actions).unwrap();
    assert_eq!(actions.plans[0].completes, vec![second, third]);
    let token = actions.plans[0].token.unwrap();
    let memory: SiteState = decode("site", produced(&actions)[0].value.as_ref()).unwrap();
    // The outcome was received 100 ms after it ended.
    assert_eq!((memory.blocked_until_ms, memory.crawl_delay_ms), (T + 201 + staggered(4900), Some(8000)));
    assert_eq!(stage.due(T + 400), 0);
    let mut actions = Actions::default();
    stage.plan_durable(token, &[9], T + 500, &mut actions).unwrap();
    assert!(actions.plans.is_empty(), "nothing has changed since");
}

#[test]
fn a_record_that_cannot_be_read_is_rejected_with_its_reason() {
    let mut stage = opened(0);
    let broken = Bytes::from_static(b"{\"site\":\"a.example\",\"not_after_ms\":1,\"expires_ms\":2");
    let trailing = Bytes::from([&encode(&dispatch("a.example", 1))[..], b"}"].concat());
    let batch = vec![
        delivered(SCHEDULED, 0, Some(broken)),
        delivered(SCHEDULED, 1, None),
        delivered(OUTCOMES, 2, Some(Bytes::from_static(b"{}"))),
        delivered(SCHEDULED, 3, Some(trailing)),
    ];
    let actions = receive(&mut stage, batch, T);
    let offsets: Vec<_> = actions.rejects.iter().map(|(origin, _)| origin.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 3]);
    assert!(actions.rejects[2].1.starts_with("not a valid outcome message: missing field"), "{}", actions.rejects[2].1);
    assert!(actions.plans.is_empty() && actions.completes.is_empty());
}

#[test]
fn an_expired_dispatch_is_deferred() {
    let mut stage = opened(0);
    let (origin, record) = delivered(SCHEDULED, 0, Some(encode(&dispatch("a.example", 1))));
    let actions = receive(&mut stage, vec![(origin, record)], T + DISPATCH_TTL_MS + 1);
    let outcome: Outcome = decode("outcome", produced(&actions)[0].value.as_ref()).unwrap();
    assert_eq!((outcome.kind, outcome.reason.as_deref()), (OutcomeKind::Deferred, Some("late")));
    assert_eq!(outcome.retry_at_ms, Some(T + DISPATCH_TTL_MS + 1));
}

#[test]
fn a_stale_record_behind_our_claim_is_answered_with_ours() {
    let mut stage = opened(9);
    let stale = SiteState { site: "a.example".into(), epoch: 2, blocked_until_ms: T + 9999, ..SiteState::default() };
    let mut actions = Actions::default();
    stage.receive_tailed(&delivered(SITES, 12, Some(encode(&stale))).1, T, &mut actions).unwrap();
    let memory: SiteState = decode("site", produced(&actions)[0].value.as_ref()).unwrap();
    assert_eq!((memory.epoch, memory.blocked_until_ms), (9, 0));
    assert!(actions.plans[0].completes.is_empty());
    let mut actions = Actions::default();
    stage.receive_tailed(&delivered(SITES, 13, Some(encode(&memory))).1, T, &mut actions).unwrap();
    assert!(actions.plans.is_empty(), "its own record");
}

#[test]
fn a_stale_record_before_our_claim_is_followed_by_the_state_that_it_hides() {
    let mut stage = stage();
    let memory = |epoch, blocked_until_ms| SiteState {
        site: "a.example".into(),
        epoch,
        blocked_until_ms,
        blocks: u32::from(blocked_until_ms > 0),
        updated_at_ms: T,
        ..SiteState::default()
    };
    // The last one is all that compaction leaves.
    for (offset, memory) in (0..).zip([memory(2, 0), memory(6, T + 60_000), memory(2, 0)]) {
        stage.restore(3, &delivered(SITES, offset, Some(encode(&memory))).1).unwrap();
    }
    open(&mut stage, 9, T);
    let mut actions = Actions::default();
    stage.tick(T, &mut actions).unwrap();
    let records = produced(&actions);
    let last: SiteState = decode("site", records[0].value.as_ref()).unwrap();
    assert_eq!((records.len(), last.epoch, last.blocks), (1, 9, 1));
    assert!(last.blocked_until_ms >= T + 60_000);
    let mut actions = Actions::default();
    stage.tick(T + 10_000, &mut actions).unwrap();
    assert!(actions.plans.is_empty(), "once");
}

#[test]
fn a_closed_partition_leaves_nothing_behind() {
    let mut stage = opened(0);
    let (_, record) = delivered(OUTCOMES, 5, Some(encode(&outcome("a.example", OutcomeKind::Blocked, Some(503)))));
    let origin = Origin { tp: record.tp, offset: 5, assignment_epoch: 1 };
    let token = receive(&mut stage, vec![(origin, record)], T + 200).plans[0].token.unwrap();
    stage.close(3);
    let mut actions: Wanted = Actions::default();
    stage.plan_durable(token, &[1], T, &mut actions).unwrap();
    stage.tick(T + 5000, &mut actions).unwrap();
    assert!(actions.plans.is_empty() && stage.writing.is_empty());
    assert_eq!(stage.view().blocked().count, 0);
}
