//! Environment of the measurements: dedicated servers, a web in its own process, and observation of progress.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Plan, binary};
use orbweaver_log::{Log, Partition, TopicPartition};
use orbweaver_messages::{Topic, topic};
use orbweaver_testkit::Stack;
use orbweaver_toyweb::Expected;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval};

use crate::Options;

/// Time allowed for a crawl or a start.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);
/// Polling interval of progress.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Window over which a rate is computed.
const WINDOW: Duration = Duration::from_secs(3);

/// The servers.
pub(crate) struct Bed {
    pub(crate) stack: Stack,
    variables: Vec<(String, String)>,
    _dir: TempDir,
}

impl Bed {
    pub(crate) fn up(options: &Options) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let stack = Stack::up(dir.path(), options.port, &["--jit", "full", "--sync", &options.sync])?;
        Ok(Self { stack, variables: options.variables.clone(), _dir: dir })
    }

    /// Creates a pipeline without processes.
    pub(crate) async fn cluster(&self, partitions: Partition) -> Result<Cluster> {
        let mut plan = Plan::on_servers(self.stack.brokers.clone(), self.stack.cql.clone(), partitions);
        plan.variables.extend(self.variables.iter().cloned());
        Cluster::start(plan).await
    }
}

/// A web served by its own process.
pub(crate) struct Web {
    child: Child,
    pub(crate) url: String,
    dir: TempDir,
}

impl Web {
    /// Starts a web with pages of 16 KiB and 30 links on `hosts` hosts, each its own site.
    pub(crate) async fn start(pages: u64, hosts: u32) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let mut command = Command::new(binary("orbweaver-toyweb")?);
        command.args(["--pages", &pages.to_string(), "--hosts", &hosts.to_string()]);
        command.arg("--log").arg(dir.path().join("requests"));
        // An unlimited web has no list of its pages.
        if pages <= 1_000_000 {
            command.arg("--truth").arg(dir.path().join("truth"));
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn()?;
        let mut url = String::new();
        BufReader::new(child.stdout.take().context("its output")?).read_line(&mut url).await?;
        ensure!(!url.is_empty(), "the web did not start");
        Ok(Self { child, url: url.trim().to_owned(), dir })
    }

    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    pub(crate) fn requests(&self) -> PathBuf {
        self.dir.path().join("requests")
    }

    pub(crate) fn truth(&self) -> Result<Vec<Expected>> {
        lines(&self.dir.path().join("truth"))
    }
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    std::fs::read_to_string(path)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

pub(crate) fn tps(topic: Topic, log: &dyn Log) -> Result<Vec<TopicPartition>> {
    Ok((0..log.partitions(topic)?).map(|partition| TopicPartition::new(topic, partition)).collect())
}

/// Returns the number of records ever appended to a topic.
pub(crate) async fn appended(log: &dyn Log, topic: Topic) -> Result<u64> {
    Ok(log.all_bounds(&tps(topic, log)?).await?.iter().map(|bounds| bounds.end).sum())
}

/// Number of documents over time.
pub(crate) struct Progress {
    points: Vec<(Instant, u64)>,
    ticks: tokio::time::Interval,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { points: vec![], ticks: interval(CHECK_INTERVAL) }
    }

    /// Waits for the next tick, and returns the number of documents so far. It stays unchanged while the log does not
    /// respond.
    pub(crate) async fn look(&mut self, cluster: &Cluster) -> u64 {
        self.ticks.tick().await;
        let before = self.documents();
        let documents =
            match tokio::time::timeout(Duration::from_secs(2), appended(&cluster.log, topic::DOCUMENTS)).await {
                Ok(Ok(documents)) => documents,
                _ => before,
            };
        if documents > before || self.points.is_empty() {
            self.points.push((Instant::now(), documents));
        }
        documents
    }

    pub(crate) async fn until(&mut self, cluster: &Cluster, documents: u64) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.look(cluster).await < documents {
            ensure!(Instant::now() < end, "{} of {documents} documents", self.documents());
        }
        Ok(())
    }

    pub(crate) async fn pass(&mut self, cluster: &Cluster, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.look(cluster).await;
        }
    }

    pub(crate) fn documents(&self) -> u64 {
        self.points.last().map_or(0, |(_, documents)| *documents)
    }

    /// Returns the arrival time of the last document.
    pub(crate) fn last(&self) -> Option<Instant> {
        self.points.last().map(|(at, _)| *at)
    }

    /// Returns the current rate over [`WINDOW`], in documents per second.
    pub(crate) fn rate(&self) -> f64 {
        let now = Instant::now();
        let from = self.points.iter().rev().find(|(at, _)| now - *at >= WINDOW).or(self.points.first());
        from.map_or(0.0, |(at, documents)| (self.documents() - documents) as f64 / (now - *at).as_secs_f64().max(0.1))
    }
}

/// Records the arrival times of documents in the background.
pub(crate) struct Watch {
    stop: oneshot::Sender<()>,
    moments: JoinHandle<Vec<Instant>>,
}

impl Watch {
    pub(crate) async fn start(cluster: &Cluster) -> Result<Self> {
        let (log, (stop, mut stopped)) = (cluster.another_client().await?, oneshot::channel());
        let moments = tokio::spawn(async move {
            let (mut ticks, mut moments, mut before) = (interval(CHECK_INTERVAL), vec![Instant::now()], 0);
            while stopped.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                ticks.tick().await;
                let documents = appended(&log, topic::DOCUMENTS).await.unwrap_or(before);
                if documents > before {
                    moments.push(Instant::now());
                }
                before = documents;
            }
            moments
        });
        Ok(Self { stop, moments })
    }

    /// Returns the longest time without a document.
    pub(crate) async fn longest_gap(self) -> Result<Duration> {
        let _ = self.stop.send(());
        let moments = self.moments.await?;
        Ok(moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default())
    }
}
