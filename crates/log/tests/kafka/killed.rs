//! A killed member and a suspended one, in real processes.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStderr, Command, Stdio},
    time::{Duration, Instant},
};

use orbweaver_log::{
    Log, LogError, Record,
    kafka::{KafkaConfig, KafkaLog},
};

use crate::fixture::{Member, ONE, at, commit, config, specs, with};

const PREFIX: &str = "ORBWEAVER_TEST_PREFIX";
const NAME: &str = "ORBWEAVER_TEST_INSTANCE";

/// The process that is killed or suspended; does nothing on its own. It reports its events, one per line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by other tests"]
async fn holds_partitions_until_it_is_killed() {
    let Ok(prefix) = std::env::var(PREFIX) else { return };
    let instance_id = std::env::var(NAME).ok();
    let log = KafkaLog::connect(KafkaConfig { prefix, instance_id, ..config() }).await.unwrap();
    let mut member = Member::holding(&log, "group", &[ONE], 8).await;
    member.start_all(0);
    eprintln!("report: holds");
    // Ends by itself if it is not killed.
    let ends = Instant::now() + Duration::from_secs(120);
    let (mut last, mut lost) = (Instant::now(), 0);
    while Instant::now() < ends {
        let now = Instant::now();
        if now.duration_since(last) > Duration::from_secs(3) {
            match member.consumer.commit(vec![(at(3), commit(1))]).await {
                Err(LogError::NotAssigned(_)) => eprintln!("report: refused"),
                other => eprintln!("report: {other:?}"),
            }
        }
        last = now;
        member.step().await;
        if member.lost.len() > lost {
            lost = member.lost.len();
            eprintln!("report: lost {lost}");
        }
    }
}

/// A process that holds all partitions, and its output.
struct Holder {
    process: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Holder {
    fn start(prefix: &str, name: Option<&str>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--ignored", "--exact", "--nocapture", "killed::holds_partitions_until_it_is_killed"])
            .env(PREFIX, prefix)
            .envs(name.map(|name| (NAME, name)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut holder = Self { process, lines };
        assert_eq!(holder.says(), "holds");
        holder
    }

    fn says(&mut self) -> String {
        for line in self.lines.by_ref().map_while(Result::ok) {
            if let Some((_, reported)) = line.split_once("report: ") {
                return reported.to_owned();
            }
        }
        panic!("it ended silently");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn holder(config: &KafkaConfig, name: Option<&'static str>) -> Holder {
    let prefix = config.prefix.clone();
    tokio::task::spawn_blocking(move || Holder::start(&prefix, name)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn the_partitions_of_a_killed_member_move_when_its_session_ends_to_its_namesake_too() {
    for name in [None, Some("first")] {
        let config = KafkaConfig { instance_id: name.map(str::to_owned), ..config() };
        with(config, &specs(&[ONE], 8), |log| async move {
            drop(holder(log.config(), name).await);
            let killed = Instant::now();
            let successor = Member::holding(&log, "group", &[ONE], 8).await;
            println!("killed -> all partitions assigned to another, with the name {name:?}: {:?}", killed.elapsed());
            successor.consumer.close().await.unwrap();
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_frozen_member_that_wakes_commits_nothing_and_hears_of_its_loss_also_when_what_it_reads_was_deleted() {
    with(config(), &specs(&[ONE], 8), |log| async move {
        let mut frozen = holder(log.config(), None).await;
        frozen.signal("-STOP");
        let mut successor = Member::holding(&log, "group", &[ONE], 8).await;
        let record = || Record { tp: at(5), key: None, value: None, headers: vec![], timestamp_ms: 1 };
        log.append((0..10).map(|_| record()).collect()).await.unwrap();
        log.delete_below(at(5), 10).await.unwrap();
        successor.consumer.commit(vec![(at(3), commit(2))]).await.unwrap();
        frozen.signal("-CONT");
        let polls = async { successor.until("its share", |successor| successor.held.len() == 4).await };
        let words = tokio::task::spawn_blocking(move || (frozen.says(), frozen.says(), frozen));
        let (words, ()) = futures::future::join(words, polls).await;
        let (first, second, frozen) = words.unwrap();
        // In either order: it may have been suspended during a poll.
        let mut words = [first, second];
        words.sort();
        assert_eq!(words, ["lost 8", "refused"]);
        assert_eq!(log.committed("group", &[at(3)]).await.unwrap(), [Some(commit(2))]);
        drop(frozen);
        successor.consumer.close().await.unwrap();
    })
    .await;
}
