//! Several crawls that share the limit of outstanding dispatches.

use std::sync::Arc;

use orbweaver_frontier::{FrontierConfig, FrontierStage, metrics::FrontierMetrics};
use orbweaver_log::ConsumerRecord;
use orbweaver_messages::{Dispatch, Outcome, OutcomeKind, encode, topic};
use orbweaver_stage::Origin;
use prometheus::Registry;

use crate::play::{self, Wanted, delivered, open, produced, receive};

/// Limit of outstanding dispatches.
const LIMIT: usize = 40;

/// Returns the records of queued URLs of a crawl, each at a site of its own.
fn waiting(from: u64, count: u64, crawl: &str) -> Vec<(Origin, ConsumerRecord)> {
    let site = |offset: u64| format!("{crawl}{offset}.example");
    let record = |offset| {
        play::waiting(offset, crawl, &offset.to_string(), |waiting| waiting.context.site = site(offset).as_str().into())
    };
    (from..from + count).map(record).collect()
}

fn dispatches(actions: &Wanted) -> Vec<Dispatch> {
    produced(actions, topic::SCHEDULED, "dispatch")
}

fn count(dispatches: &[Dispatch], crawl: &str) -> usize {
    dispatches.iter().filter(|dispatch| dispatch.context.crawl == crawl).count()
}

/// Returns the record of an outcome that ends a dispatch.
fn ended(offset: u64, dispatch: &Dispatch) -> (Origin, ConsumerRecord) {
    let outcome = Outcome::of(dispatch, OutcomeKind::Gone, Some("http_404"), play::NOW);
    delivered(topic::OUTCOMES, offset, dispatch.context.site.to_string(), Some(encode(&outcome)))
}

#[test]
fn a_crawl_that_has_all_dispatches_in_flight_does_not_delay_the_first_ones_of_another() {
    let config = FrontierConfig {
        default_interval_ms: 1000,
        min_outstanding: LIMIT,
        max_outstanding: LIMIT,
        ..FrontierConfig::default()
    };
    let metrics = FrontierMetrics::register(&Registry::new()).unwrap();
    let mut stage = FrontierStage::new(config, metrics, Arc::default());
    open(&mut stage, 1);
    let large = dispatches(&receive(&mut stage, waiting(0, 5000, "large")));
    assert_eq!(count(&large, "large"), LIMIT);

    let small = dispatches(&receive(&mut stage, waiting(5000, 100, "small")));
    assert_eq!((count(&small, "large"), count(&small, "small")), (0, LIMIT / 2), "its share, at once");
    // What ends is left to the small crawl until both have their share; then they alternate.
    let end = |stage: &mut FrontierStage, from: u64, dispatches: &[Dispatch]| {
        let outcomes = dispatches.iter().zip(from..).map(|(dispatch, offset)| ended(offset, dispatch)).collect();
        self::dispatches(&receive(stage, outcomes))
    };
    assert_eq!(end(&mut stage, 0, &large[..LIMIT / 2]), []);
    let next = end(&mut stage, 100, &[&large[LIMIT / 2..], &small[..]].concat());
    assert_eq!((count(&next, "large"), count(&next, "small")), (LIMIT / 2, LIMIT / 2));
    let crawls: Vec<&str> = next.iter().map(|dispatch| &*dispatch.context.crawl).collect();
    assert!(crawls.windows(2).all(|pair| pair[0] != pair[1]), "{crawls:?}");
}
