//! Metrics that the runtime reports while it runs.

use std::{sync::Arc, time::Duration};

use crate::play::*;
use orbweaver_log::MemoryLog;
use orbweaver_messages::topic;
use orbweaver_stage::metrics::{
    BUDGET_USED_RATIO, COMMIT_STALLED_SECONDS, LAG_RECORDS, Metrics, PARTITION_EVENTS, RESTORE_SECONDS,
};
use prometheus::Registry;

const SEEDS: &[topic::Topic] = &[topic::SEEDS];

/// Returns the sum of a metric over its labels.
fn value(registry: &Registry, name: &str) -> f64 {
    let families = registry.gather();
    let family = families.iter().find(|family| family.name() == name).unwrap();
    let of = |metric: &prometheus::proto::Metric| {
        metric.get_gauge().get_value()
            + metric.get_counter().get_value()
            + metric.get_histogram().get_sample_count() as f64
    };
    family.get_metric().iter().map(of).sum()
}

fn play_measured(stage: Scripted, log: &MemoryLog, registry: &Registry) -> Play {
    let metrics = Metrics::register(registry).unwrap();
    Play::of(runner(stage, Arc::new(log.clone()), config()).with_metrics(&metrics))
}

/// Runs a stage that completes all records of a partition but one, which is parked or stays in flight.
async fn after_a_minute(parked: bool) -> Registry {
    let (log, registry) = (MemoryLog::new(&specs()), Registry::new());
    fill(&log, at(topic::SEEDS, 0), "seed", 100).await;
    let (stage, _) = Scripted::new(SEEDS, move |origin, _, actions| match origin.offset {
        40 if parked => actions.parked.push(*origin),
        40 => {}
        _ => actions.completes.push(*origin),
    });
    let running = play_measured(stage, &log, &registry);
    until_committed(&log, at(topic::SEEDS, 0), 40).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // The shutdown waits for a record that stays in flight up to its budget, and then leaves it to the successor.
    running.end().await.unwrap();
    registry
}

#[tokio::test(start_paused = true)]
async fn a_record_that_stays_in_work_shows_as_a_standing_commit_point_although_all_others_complete() {
    let registry = after_a_minute(false).await;
    let stalled = value(&registry, COMMIT_STALLED_SECONDS);
    assert!((55.0..75.0).contains(&stalled), "{stalled}");
    assert!(value(&registry, BUDGET_USED_RATIO) > 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_parked_record_holds_the_commit_point_rightly() {
    assert!(value(&after_a_minute(true).await, COMMIT_STALLED_SECONDS).abs() < f64::EPSILON);
}

#[tokio::test(start_paused = true)]
async fn lag_restores_and_moves_of_partitions_are_counted() {
    let (log, registry) = (MemoryLog::new(&specs()), Registry::new());
    fill(&log, at(topic::SEEDS, 0), "seed", 100).await;
    let (stage, _) = Scripted::new(SEEDS, |origin, _, actions| {
        if origin.offset != 40 {
            actions.completes.push(*origin);
        }
    });
    let running = play_measured(stage, &log, &registry);
    until_committed(&log, at(topic::SEEDS, 0), 40).await;
    let read = || async { (value(&registry, LAG_RECORDS) - 60.0).abs() < f64::EPSILON };
    until("a lag of 60", read).await;
    let partitions = f64::from(PARTITIONS);
    assert!((value(&registry, PARTITION_EVENTS) - partitions).abs() < f64::EPSILON);
    assert!((value(&registry, RESTORE_SECONDS) - partitions).abs() < f64::EPSILON);
    running.kill().await;
}
