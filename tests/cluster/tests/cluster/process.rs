//! One process: its probes, its metrics, its end.

use anyhow::{Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, Service};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;

use crate::PATIENCE;

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn a_process_says_that_it_is_ready_shows_metrics_and_ends_within_its_budget() -> Result<()> {
    let mut cluster = Cluster::start(Plan::on_shared_servers(2)).await?;
    for service in Service::ALL {
        let mut instance = cluster.add(service).await?;
        ensure!(instance.ask("/livez").await?.status == 200, "{} does not live", service.name());
        let answer = instance.readiness(true, PATIENCE).await?;
        let said: Value = serde_json::from_str(&answer.body)?;
        ensure!(said["ok"] == true && said["phase"] == "serving", "{said}");
        let metrics = instance.ask("/metrics").await?.body;
        let own = format!("orbweaver_{}_", service.name().replace('-', "_"));
        let info = format!("orbweaver_build_info{{git=\"unknown\",service=\"{}\"", service.name());
        for part in [own.as_str(), "orbweaver_stage_partitions_open", "process_resident_memory_bytes", info.as_str()] {
            ensure!(metrics.contains(part), "{}: no {part} in\n{metrics}", service.name());
        }
        let begun = std::time::Instant::now();
        let (words, status) = (instance.dir().join("log"), instance.terminate(Duration::from_secs(20)).await?);
        let log = std::fs::read_to_string(words)?;
        ensure!(status.code() == Some(0), "{} ended with {status}:\n{log}", service.name());
        ensure!(!log.contains("panicked"), "{log}");
        println!("{} ended after {:?}", service.name(), begun.elapsed());
        let first: Value = serde_json::from_str(log.lines().next().unwrap_or_default())?;
        ensure!(first["message"] == "starts" && first["configuration"].is_string(), "{first}");
    }
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn the_second_signal_ends_a_process_at_once() -> Result<()> {
    let mut cluster = Cluster::start(Plan::on_shared_servers(1)).await?;
    let mut instance = cluster.add(Service::RateLimiter).await?;
    instance.ready(PATIENCE).await?;
    // Suspended, so that both signals arrive before it can act on the first.
    instance.signal(Signal::STOP)?;
    instance.signal(Signal::TERM)?;
    instance.signal(Signal::INT)?;
    instance.signal(Signal::CONT)?;
    let status = instance.end(Duration::from_secs(10)).await?;
    ensure!(status.code() == Some(75), "it ended with {status}");
    cluster.remove().await
}

#[tokio::test]
#[ignore = "needs the servers of tests/stack"]
async fn missing_topics_end_a_process_with_the_command_that_makes_them() -> Result<()> {
    let cluster = Cluster::start(Plan::on_shared_servers(1).with("ORBWEAVER_KAFKA__PREFIX", "missing-topics")).await?;
    let mut instance = cluster.start_in(Service::RateLimiter, cluster.dir_of(1)).await?;
    let status = instance.end(PATIENCE).await?;
    let words = instance.last_words();
    ensure!(status.code() == Some(74), "it ended with {status}:\n{words}");
    ensure!(words.contains("orbweaver topics create"), "{words}");
    cluster.remove().await
}
