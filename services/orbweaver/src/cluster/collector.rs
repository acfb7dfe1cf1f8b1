//! Collector of a crawl's results on a cluster: an exporter in a consumer group of its directory, so that no other
//! collector commits for it or removes its declaration.

use std::{
    fs::File,
    hash::{BuildHasher as _, RandomState},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use orbweaver_log::Log;
use orbweaver_scope::Version;
use orbweaver_stage::{NoEffects, Runner, RunnerConfig, StageError};
use orbweaver_url::CrawlName;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{consumers, crawl::Watched};
use crate::{
    crawl::{
        definition,
        prepare::{check_unused, lock},
    },
    durable::{create_dir, read_whole, write_whole},
    exit::{Failure, failed},
    export::{self, CheckpointWorker, ExportStage, ExportView, Source},
};

/// File of the identity, in the directory `state`.
const FILE: &str = "collector.json";
/// Maximum length of a crawl's name in the name of a group, in characters.
const MAX_NAME: usize = 64;
/// Maximum time for which the end waits for records that the log holds, so that the files contain them.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(10);
/// Bits of a random number that are part of a group's name.
const ID_BITS: u64 = 0xffff_ffff_ffff;

/// Identity of the collector of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    /// Crawl whose results the directory holds.
    crawl: CrawlName,
    group: String,
    /// Directory that the group belongs to.
    home: Home,
    /// Version of the crawl's definition with which the crawl was at its cap when all results were collected. While
    /// that version applies, there are no further results, except those of dead letters that are replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at_cap: Option<Version>,
}

/// Location of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Home {
    path: String,
    device: u64,
    inode: u64,
}

impl Home {
    fn of(dir: &Path) -> io::Result<Self> {
        let path = dir.canonicalize()?;
        let metadata = path.metadata()?;
        Ok(Self { path: path.to_string_lossy().into_owned(), device: metadata.dev(), inode: metadata.ino() })
    }

    /// Returns `true` unless one is a copy of the other: a directory that was moved keeps its inode, and device numbers
    /// may change with a restart.
    fn is_home_of(&self, other: &Self) -> bool {
        self.path == other.path || (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Returns the identity of the collector in `home`, or the crawl whose results are there instead. A copy of a directory
/// gets a group of its own, named with `id`: of two collectors in one group, each would commit for the other.
fn identity(stored: Option<Identity>, home: Home, crawl: &CrawlName, id: u64) -> Result<Identity, CrawlName> {
    let group = || {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
        let name: String = crawl.chars().map(allowed).take(MAX_NAME).collect();
        format!("{}-{name}-{:012x}", export::GROUP, id & ID_BITS)
    };
    match stored {
        Some(stored) if stored.crawl != *crawl => Err(stored.crawl),
        Some(stored) if stored.home.is_home_of(&home) => Ok(Identity { home, ..stored }),
        Some(stored) => Ok(Identity { home, group: group(), ..stored }),
        None => Ok(Identity { crawl: crawl.clone(), group: group(), home, at_cap: None }),
    }
}

/// Checks that the directory is unused, or holds the results of a collector.
fn check(out: &Path, state: &Path) -> Result<(), Failure> {
    if state.join("crawl.json").exists() {
        let message = "holds a crawl that was run without --brokers; give another --out";
        return Err(Failure::Output(format!("{}: {message}", out.display())));
    }
    let is_own = [FILE, "export.json"].iter().any(|name| state.join(name).exists());
    if is_own { Ok(()) } else { check_unused(out) }
}

/// A running collector.
pub(super) struct Collecting {
    shutdown: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), StageError>>,
    view: Arc<ExportView>,
    out: PathBuf,
    identity: Identity,
    /// Version of the crawl's definition since the collector runs.
    version: Option<Version>,
    /// Held while this process collects.
    _lock: File,
}

impl Collecting {
    /// Declares the group of the directory and starts the collector.
    pub(super) async fn begin(log: &Arc<dyn Log>, out: &Path, crawl: &CrawlName) -> Result<Self, Failure> {
        let state = out.join("state");
        check(out, &state)?;
        create_dir(&state)?;
        let lock = lock(&state)?;
        let home = Home::of(&state).map_err(|error| Failure::Output(format!("{}: {error}", state.display())))?;
        let stored: Option<Identity> = read_whole(&state.join(FILE))?;
        let earlier = match &stored {
            Some(stored) => Some(stored.group.clone()),
            // Earlier versions had one group for all directories.
            None => state.join("export.json").exists().then(|| export::GROUP.to_owned()),
        };
        let identity = identity(stored, home, crawl, RandomState::new().hash_one(out)).map_err(|other| {
            Failure::Usage(format!("{}: holds the results of the crawl `{other}`; give another --out", out.display()))
        })?;
        // Before the declaration: a group whose name is lost would keep records indefinitely.
        write_whole(&state.join(FILE), &identity)?;
        // Before the exporter reads: from here on, records that the directory lacks are kept.
        let declared = consumers::declare(&**log, &identity.group, export::TOPICS).await?;
        let group = identity.group.clone();
        match Self::start(log, out, identity, lock).await {
            Ok(collecting) => {
                if let Some(earlier) = earlier.filter(|earlier| *earlier != group) {
                    report_stale_group(&**log, out, &earlier).await?;
                }
                Ok(collecting)
            }
            Err(error) => {
                if declared && let Err(kept) = consumers::remove(&**log, &group).await {
                    notice!("the group `{group}` cannot be removed, and records are still retained for it: {kept}");
                }
                Err(error)
            }
        }
    }

    async fn start(log: &Arc<dyn Log>, out: &Path, identity: Identity, lock: File) -> Result<Self, Failure> {
        let definitions = definition::definitions(&**log).await?;
        let version = definitions.applied(&identity.crawl).map(|applied| applied.version);
        let at_rest = version.is_some() && version == identity.at_cap;
        let view = Arc::new(ExportView::default());
        let source = Source { crawl: Some(&identity.crawl), at_rest };
        let exporter = ExportStage::open(&**log, out, Arc::clone(&view), source).await.map_err(failed)?;
        let config = RunnerConfig { group: Some(identity.group.clone()), ..RunnerConfig::default() };
        let runner = Runner::new(exporter, Arc::clone(log), CheckpointWorker, NoEffects, config);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(runner.run_on_own_thread(shutdown.clone()));
        Ok(Self { shutdown, task, view, out: out.to_owned(), identity, version: None, _lock: lock })
    }

    /// Sets the version of the crawl's definition that applies from now on.
    pub(super) fn with_version(self, version: Version) -> Self {
        Self { version: Some(version), ..self }
    }

    pub(super) fn group(&self) -> &str {
        &self.identity.group
    }

    /// Returns the number of collected documents.
    pub(super) fn documents(&self) -> u64 {
        self.view.tally().documents
    }

    /// Returns `true` if the collector ended by itself, or another process took partitions of its group.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished() || self.view.is_revoked()
    }

    /// Ends the collector; returns `true` if the directory has all results. Those that it lacks are kept until the crawl is
    /// resumed.
    pub(super) async fn end(self, log: &dyn Log, watched: Option<&Watched>) -> Result<bool, Failure> {
        // Includes the records that arrived in the meantime. A failing log also ends the exporter, which returns the error.
        let is_collected = !self.has_ended()
            && export::caught_up(log, &self.identity.group, CATCH_UP_WITHIN).await.unwrap_or_default();
        let is_revoked = self.view.is_revoked();
        self.shutdown.cancel();
        let Self { task, view, out, identity, version, .. } = self;
        let ended = task.await.map_err(failed).and_then(|ended| ended.map_err(failed));
        let ended = if is_revoked { Err(taken()) } else { ended };
        notice!("{} documents in {}", view.tally().documents, out.join("documents.jsonl").display());
        let group = identity.group.clone();
        match watched.filter(|_| is_collected && ended.is_ok()) {
            Some(Watched::Complete) => {}
            Some(Watched::AtCap) => {
                let definitions = definition::definitions(log).await?;
                let applied = definitions.applied(&identity.crawl).map(|applied| applied.version);
                // Otherwise the cap may have been raised since the collector saw the crawl at its cap.
                if applied.is_some() && applied == version {
                    write_whole(&out.join("state").join(FILE), &Identity { at_cap: applied, ..identity })?;
                }
                notice!(
                    "to collect results beyond the cap, repeat this command with a higher --max-pages: if \
                     `orbweaver crawls set` raises the cap, results are not retained for {}",
                    out.display()
                );
            }
            Some(Watched::CollectorEnded) | None => {
                notice!(
                    "results that are not in {} yet are retained until the same command collects them; `orbweaver \
                     consumers remove {group}` abandons them",
                    out.display()
                );
                return ended.map(|()| false);
            }
        }
        consumers::remove(log, &group).await?;
        Ok(true)
    }
}

/// Lines of partitions that went to another process are missing here.
fn taken() -> Failure {
    let message = "another process, such as that of a copy of this directory, joined its consumer group and took \
                   partitions; stop one of the two";
    Failure::Failed(message.to_owned())
}

/// Reports a group that keeps records although this directory no longer uses it.
async fn report_stale_group(log: &dyn Log, out: &Path, group: &str) -> Result<(), Failure> {
    if consumers::is_declared(log, group).await? {
        notice!(
            "{} now has its own consumer group, and records are still retained for `{group}`: if no other directory \
             uses that group, such as the original of this copy, run `orbweaver consumers remove {group}`",
            out.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
