//! Directory of a replay: the log, the parameters, and the URLs admitted before the replay was killed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::{Cleanup, EmbeddedLog, Log, LogError, Options, TopicSpec, topic_partitions};
use orbweaver_messages::{Scope, topic};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::CrawlName;
use serde::{Deserialize, Serialize};

use super::{args::Asked, commits::Commits, truth::Truth};
use crate::{
    crawl::definition,
    durable::read_whole,
    exit::{Failure, failed},
};

/// Timeout per read of a record that must exist.
const READ_WAIT: Duration = Duration::from_secs(1);

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
    dir: PathBuf,
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
        let begun: Option<Begun> = read_whole(&path)?;
        let resumed = begun.is_some();
        let prefix = if let Some(begun) = begun {
            check(&path, begun, asked)?
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
        let replay_log = ReplayLog::open(&dir.join("log"), asked, &prefix).await?;
        let log = replay_log.get();
        let crawl = CrawlName::default();
        if definition::find(&*log, &crawl).await?.is_none() {
            let pins = definition::pins(asked.plan.partitions, orbweaver_url::Policy::STANDARD, vec![]);
            definition::write(&*log, &definition::new(&crawl, Scope::Any, pins, 0), 0).await?;
        }
        let commits = Arc::new(Commits::open(dir.join("commits.json")).map_err(failed)?);
        Ok(Self { dir: dir.clone(), log: replay_log, commits, resumed, temporary: out.is_none() })
    }

    /// Reads the URLs that were admitted before this run from the log.
    pub(super) async fn read_back(&self, truth: &Truth) -> Result<(), LogError> {
        let log = self.log.get();
        for tp in topic_partitions(&*log, &[topic::FRONTIER])? {
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

    /// Removes the topics of a replay in a temporary directory, which no later run can resume, from the brokers, and
    /// makes any other log durable. On brokers, it already is.
    pub(super) async fn end(&self) -> Result<(), Failure> {
        match &self.log {
            ReplayLog::Dir(log) if !self.temporary => log.flush().map_err(failed),
            #[cfg(feature = "cluster")]
            ReplayLog::Brokers(log) if self.temporary => {
                orbweaver_log::kafka::topics::delete(log).await.map_err(failed)
            }
            _ => Ok(()),
        }
    }

    /// Returns the disk space of all indexes and, if it is on this machine, of `crawl.seen`, in bytes.
    pub(super) fn disk_bytes(&self, instances: u32) -> u64 {
        let indexes = (0..instances).map(|instance| bytes_below(&self.index_of(instance))).sum::<u64>();
        let seen = match &self.log {
            ReplayLog::Dir(log) => log.bytes(topic::SEEN).unwrap_or_default(),
            #[cfg(feature = "cluster")]
            ReplayLog::Brokers(_) => 0,
        };
        indexes + seen
    }
}

/// Location of a replay's log.
pub(super) enum ReplayLog {
    /// In the replay's directory.
    Dir(Arc<EmbeddedLog>),
    /// In topics of its own on brokers.
    #[cfg(feature = "cluster")]
    Brokers(Arc<orbweaver_log::kafka::KafkaLog>),
}

impl ReplayLog {
    /// Opens the log, and creates missing topics.
    async fn open(dir: &Path, asked: &Asked, prefix: &str) -> Result<Self, Failure> {
        let partitions = asked.plan.partitions;
        let Some(brokers) = &asked.brokers else {
            // Without compaction, which would remove records of admitted URLs.
            let spec = |of: &topic::TopicDescription| TopicSpec::new(of.topic, partitions, Cleanup::Keep);
            let specs: Vec<_> = topic::topics().iter().map(spec).collect();
            return Ok(Self::Dir(Arc::new(EmbeddedLog::open(dir, Options::default(), &specs).map_err(failed)?)));
        };
        #[cfg(feature = "cluster")]
        {
            use orbweaver_log::kafka::GroupProtocol;

            use crate::cluster::{args::Kafka, connection};
            let (record_limit, property) = (orbweaver_log::RECORD_LIMIT, vec![]);
            let (prefix, group_protocol) = (prefix.to_owned(), GroupProtocol::default());
            let kafka = Kafka { prefix, group_protocol, record_limit, property };
            let log = connection::connect(brokers, &kafka).await?;
            orbweaver_log::kafka::topics::create(&log, partitions, None).await.map_err(failed)?;
            notice!("topics of the replay: `{}.*` on {brokers}", kafka.prefix);
            Ok(Self::Brokers(Arc::new(log)))
        }
        #[cfg(not(feature = "cluster"))]
        {
            let message = "this program was built without the feature `cluster`";
            Err(Failure::Usage(format!("--brokers {brokers} --prefix {prefix}: {message}")))
        }
    }

    pub(super) fn get(&self) -> Arc<dyn Log> {
        match self {
            Self::Dir(log) => log.clone(),
            #[cfg(feature = "cluster")]
            Self::Brokers(log) => log.clone(),
        }
    }
}

/// Returns the topic prefix of a replay, after checking that it was started with the same parameters and can be
/// resumed.
fn check(path: &Path, Begun { asked: begun, prefix }: Begun, asked: &Asked) -> Result<String, Failure> {
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
