//! A member that is killed, and one that is frozen: real processes.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use orbweaver_log::kafka::{KafkaConfig, KafkaLog};
use orbweaver_messages::Topic;

use crate::fixture::{Member, config, specs, with};

const TOPIC: Topic = Topic("crawl.killed");
const PREFIX: &str = "ORBWEAVER_TEST_PREFIX";

/// The process that is killed; nothing by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by another test"]
async fn holds_partitions_until_it_is_killed() {
    let Ok(prefix) = std::env::var(PREFIX) else { return };
    let log = KafkaLog::connect(KafkaConfig { prefix, ..config() }).await.unwrap();
    let mut member = Member::join(&log, "group", &[TOPIC]);
    member.until("all partitions", |member| member.held.len() == 8).await;
    eprintln!("holds");
    // Should nobody kill it, it ends.
    let ends = Instant::now() + Duration::from_secs(120);
    while Instant::now() < ends {
        member.step().await;
    }
}

fn holder(prefix: &str) -> Child {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "killed::holds_partitions_until_it_is_killed"])
        .env(PREFIX, prefix)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(process.stderr.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line.contains("holds")), "it never held anything");
    process
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn the_partitions_of_a_killed_member_move_when_its_session_ends() {
    let config = config();
    let prefix = config.prefix.clone();
    with(config, &specs(&[TOPIC], 8), |log| async move {
        let mut process = tokio::task::spawn_blocking(move || holder(&prefix)).await.unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        let killed = Instant::now();
        let mut successor = Member::join(&log, "group", &[TOPIC]);
        successor.until("all partitions", |successor| successor.held.len() == 8).await;
        println!("killed -> all partitions assigned to another: {:?}", killed.elapsed());
        successor.consumer.close().await.unwrap();
    })
    .await;
}
