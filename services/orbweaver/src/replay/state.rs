//! Directory of a replay: the log, the parameters, and the URLs admitted before the replay was killed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::{LogError, Partition, TopicPartition};
use orbweaver_messages::{CrawlDefinition, Scope, topic};
use orbweaver_stage::{Clock as _, SystemClock};
use serde::{Deserialize, Serialize};

use super::{commits::Commits, generate::CRAWL, replay_log::ReplayLog, truth::Truth};
use crate::{
    crawl::definition,
    exit::{Failure, failed},
};

/// Timeout per read of a record that must exist.
const READ_WAIT: Duration = Duration::from_secs(1);

/// Parameters of the replay that created the directory; a replay with others cannot resume it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Asked {
    pub(super) urls: Option<u64>,
    pub(super) new_ppm: u64,
    pub(super) seed: u64,
    pub(super) from: Vec<PathBuf>,
    pub(super) partitions: Partition,
    pub(super) instances: u32,
    pub(super) frontier: bool,
    /// Brokers; without them the log is in the directory.
    #[serde(default)]
    pub(super) brokers: Option<String>,
}

/// Content of `replay.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Begun {
    #[serde(flatten)]
    asked: Asked,
    /// Prefix of the replay's topics on the brokers.
    #[serde(default)]
    prefix: String,
}

/// Directory of a replay. A temporary one is removed on drop.
pub(super) struct State {
    pub(super) dir: PathBuf,
    pub(super) log: ReplayLog,
    pub(super) commits: Arc<Commits>,
    /// Whether an earlier run started this replay.
    pub(super) resumed: bool,
    temporary: bool,
}

impl Drop for State {
    fn drop(&mut self) {
        if self.temporary {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

impl State {
    pub(super) async fn open(out: Option<&Path>, asked: &Asked) -> Result<Self, Failure> {
        let temporary = || std::env::temp_dir().join(format!("orbweaver-replay-{}", std::process::id()));
        let dir = out.map_or_else(temporary, Path::to_owned);
        let unusable = |error: std::io::Error| Failure::Output(format!("{}: {error}", dir.display()));
        fs::create_dir_all(&dir).map_err(unusable)?;
        let path = dir.join("replay.json");
        let resumed = path.exists();
        let prefix = if resumed {
            check(&path, asked)?
        } else if fs::read_dir(&dir).map_err(unusable)?.flatten().any(|entry| entry.file_name() != "replay.new") {
            return Err(Failure::Output(format!(
                "{}: is not empty and holds no replay; give another --out",
                dir.display()
            )));
        } else {
            // Written first, so that a replay can be resumed even if it is killed at once.
            let begun = Begun { asked: asked.clone(), prefix: format!("replay-{}", SystemClock.now()) };
            let fresh = path.with_extension("new");
            let text = serde_json::to_vec(&begun).unwrap_or_default();
            fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, &path)).map_err(unusable)?;
            begun.prefix
        };
        let replay_log = ReplayLog::open(&dir.join("log"), asked.brokers.as_deref(), &prefix, asked.partitions).await?;
        let log = replay_log.log();
        if definition::find(&*log, CRAWL).await?.is_none() {
            let definition = CrawlDefinition {
                name: CRAWL.to_owned(),
                scope: Scope::Any,
                include: vec![],
                exclude: vec![],
                max_depth: None,
                max_pages: None,
                traps: orbweaver_messages::Traps::default(),
                pins: definition::pins(asked.partitions, orbweaver_url::Policy::STANDARD, vec![]),
                created_at_ms: 0,
                replaces: vec![],
            };
            definition::write(&*log, &definition, 0).await?;
        }
        let commits = Arc::new(Commits::open(dir.join("commits.json")).map_err(failed)?);
        Ok(Self { dir: dir.clone(), log: replay_log, commits, resumed, temporary: out.is_none() })
    }

    /// Reads the URLs that were admitted before this run from the log.
    pub(super) async fn read_back(&self, truth: &Truth) -> Result<(), LogError> {
        let log = self.log.log();
        for partition in 0..log.partitions(topic::FRONTIER)? {
            let tp = TopicPartition::new(topic::FRONTIER, partition);
            let bounds = log.bounds(tp).await?;
            let mut reader = log.reader(tp, bounds.start).await?;
            while reader.position() < bounds.end {
                for record in reader.read(READ_WAIT).await? {
                    record.value.iter().for_each(|value| truth.passed(value));
                }
            }
        }
        Ok(())
    }

    /// Returns the index directory of an instance of the service.
    pub(super) fn index_of(&self, instance: u32) -> PathBuf {
        self.dir.join(format!("seen-{instance}"))
    }

    /// Removes the topics of a replay in a temporary directory, which no later run can resume, and makes any other
    /// durable.
    pub(super) async fn end(&self) -> Result<(), Failure> {
        if self.temporary { self.log.remove().await } else { self.log.flush() }
    }

    /// Returns the disk space of all indexes and, if it is on this machine, of `crawl.seen`, in bytes.
    pub(super) fn disk_bytes(&self, instances: u32) -> u64 {
        let indexes = (0..instances).map(|instance| bytes_below(&self.index_of(instance))).sum::<u64>();
        indexes + self.log.seen_bytes()
    }
}

/// Returns the topic prefix of a replay, after checking that it was started with the same parameters and can be
/// resumed.
fn check(path: &Path, asked: &Asked) -> Result<String, Failure> {
    let unusable = |error: &dyn std::fmt::Display| Failure::Output(format!("{}: {error}", path.display()));
    let text = fs::read(path).map_err(|error| unusable(&error))?;
    let Begun { asked: begun, prefix } = serde_json::from_slice(&text).map_err(|error| unusable(&error))?;
    if begun != *asked {
        let (begun, asked) = (serde_json::json!(begun), serde_json::json!(asked));
        return Err(Failure::Usage(format!(
            "{}: this replay was started with {begun}, not with {asked}; give another --out",
            path.display()
        )));
    }
    if !begun.frontier {
        let reason =
            "a replay with --no-frontier cannot be resumed: its admitted URLs are not in the log; give another --out";
        return Err(Failure::Usage(format!("{}: {reason}", path.display())));
    }
    if !begun.from.is_empty() {
        return Err(Failure::Usage(format!(
            "{}: a replay of files cannot be resumed; give another --out",
            path.display()
        )));
    }
    Ok(prefix)
}

fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        // Counted in blocks, since a storage engine may reserve space that it does not use.
        Ok(metadata) => std::os::unix::fs::MetadataExt::blocks(&metadata) * 512,
        Err(_) => 0,
    });
    bytes.sum()
}
