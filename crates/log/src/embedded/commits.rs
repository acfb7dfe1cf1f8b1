//! Commits of the groups: an append-only file, rewritten as it grows; the last entry per topic-partition counts.

use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use orbweaver_messages::Topic;

use super::{
    disk::Disk,
    files::{at, corrupt, create, open, remove, sync_dir},
    frame::{Frame, Kind, put},
    recover::{Recovery, Scan},
};
use crate::{Commit, LogError, Offset, Partition, TopicPartition};

/// Maximum length of a group name, in bytes.
pub(super) const MAX_GROUP: usize = 255;
/// The file is rewritten at this length or at four times its length after the last rewrite, whichever is greater.
const REWRITE_BYTES: u64 = 1 << 20;

/// Commits by group, topic and partition. Topics are kept by name, including those not configured now.
type Table = HashMap<(String, String, Partition), Commit>;

struct Current {
    file: File,
    generation: u64,
    len: u64,
    /// Number of the next entry.
    next: Offset,
    rewrite_at: u64,
    table: Table,
}

pub(super) struct Commits {
    dir: PathBuf,
    current: Mutex<Current>,
    pub(super) dirty: AtomicBool,
}

impl Commits {
    /// Recovers the commits of the log in `dir`; `known` is the generation and length of the file in the checkpoint.
    pub(super) fn open(dir: &Path, known: Option<(u64, u64)>, recovery: Recovery) -> Result<Self, LogError> {
        let mut generations = generations(dir)?;
        if let (Recovery::RollBack, Some((generation, len))) = (recovery, known) {
            for later in generations.extract_if(.., |later| *later > generation) {
                remove(&path(dir, later))?;
            }
            if generations.contains(&generation) {
                let path = path(dir, generation);
                let file = open(&path)?;
                if file.metadata().map_err(at(&path))?.len() > len {
                    tracing::warn!(path = %path.display(), "commits are beyond the last checkpoint; truncated");
                    file.set_len(len).map_err(at(&path))?;
                }
            }
        }
        let current = match generations.last() {
            None => {
                let file = create(&path(dir, 0))?;
                let table = Table::new();
                Current { file, generation: 0, len: 0, next: 0, rewrite_at: REWRITE_BYTES, table }
            }
            Some(generation) => load(dir, *generation)?,
        };
        if let Some((generation, len)) = known.filter(|(generation, _)| *generation >= current.generation)
            && (generation > current.generation || len > current.len)
        {
            let reason = format!("the commits end here, but {len} bytes of commits.{generation} were durable");
            return Err(corrupt(&path(dir, current.generation), current.len, &reason));
        }
        Ok(Self { dir: dir.to_owned(), current: Mutex::new(current), dirty: AtomicBool::new(true) })
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores commits in one write. The caller has validated them.
    pub(super) fn commit(
        &self,
        disk: &Disk,
        group: &str,
        commits: Vec<(TopicPartition, Commit)>,
    ) -> Result<(), LogError> {
        let mut current = self.current();
        disk.check_writable()?;
        let mut buffer = vec![];
        let mut next = current.next;
        for (tp, commit) in &commits {
            put_entry(&mut buffer, next, group, (tp.topic.0, tp.partition, commit));
            next += 1;
        }
        let path = path(&self.dir, current.generation);
        if let Err(error) = current.file.write_all_at(&buffer, current.len).map_err(at(&path)) {
            // Must not be read as a commit later; if this fails too, opening the log repairs the tail.
            let _ = current.file.set_len(current.len);
            disk.fail(&error);
            return Err(error);
        }
        current.len += buffer.len() as u64;
        current.next = next;
        current.table.extend(commits.into_iter().map(|(tp, commit)| (key(group, tp), commit)));
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn committed(&self, group: &str, tp: TopicPartition) -> Option<Commit> {
        self.current().table.get(&key(group, tp)).cloned()
    }

    /// Returns the generation and length of the file that a checkpoint may name once they are durable. No commit is in
    /// progress. A grown file is rewritten; its predecessor is kept until [`Commits::settle`], since an earlier
    /// checkpoint names it.
    pub(super) fn cut(&self) -> Result<(u64, u64), LogError> {
        let mut current = self.current();
        self.dirty.store(false, Ordering::Release);
        if current.len >= current.rewrite_at {
            self.rewrite(&mut current)?;
        }
        Ok((current.generation, current.len))
    }

    fn rewrite(&self, current: &mut Current) -> Result<(), LogError> {
        let mut buffer = vec![];
        for (next, ((group, topic, partition), commit)) in (0..).zip(&current.table) {
            put_entry(&mut buffer, next, group, (topic, *partition, commit));
        }
        let generation = current.generation + 1;
        let (unfinished, path) = (self.dir.join("commits.tmp"), path(&self.dir, generation));
        let file = create(&unfinished)?;
        file.write_all_at(&buffer, 0).map_err(at(&unfinished))?;
        std::fs::rename(&unfinished, &path).map_err(at(&path))?;
        let len = buffer.len() as u64;
        current.file = file;
        current.generation = generation;
        current.len = len;
        current.next = current.table.len() as Offset;
        current.rewrite_at = REWRITE_BYTES.max(4 * len);
        Ok(())
    }

    /// Makes everything durable that was written before a cut.
    pub(super) fn sync(&self, disk: &Disk) -> Result<(), LogError> {
        let current = self.current();
        let path = path(&self.dir, current.generation);
        // A second descriptor of the file, so that commits do not wait for the disk.
        let file = current.file.try_clone().map_err(at(&path))?;
        drop(current);
        disk.synced(file.sync_data().map_err(at(&path)))?;
        disk.synced(sync_dir(&self.dir))
    }

    /// Removes the files before `generation`, which no checkpoint names any longer.
    pub(super) fn settle(&self, generation: u64) -> Result<(), LogError> {
        for earlier in generations(&self.dir)?.into_iter().filter(|earlier| *earlier < generation) {
            remove(&path(&self.dir, earlier))?;
        }
        Ok(())
    }
}

fn key(group: &str, tp: TopicPartition) -> (String, String, Partition) {
    (group.to_owned(), tp.topic.0.to_owned(), tp.partition)
}

fn put_entry(buffer: &mut Vec<u8>, number: Offset, group: &str, entry: (&str, Partition, &Commit)) {
    let (topic, partition, commit) = entry;
    let (partition, offset) = (partition.to_le_bytes(), commit.offset.to_le_bytes());
    let headers: [(&str, &[u8]); 3] = [(topic, &[]), ("", &partition), ("", &offset)];
    put(
        buffer,
        (Kind::Record, number, 0),
        (Some(group.as_bytes()), Some(commit.metadata.as_bytes())),
        headers.into_iter(),
    );
}

fn take_entry(frame: Frame, table: &mut Table) -> Result<(), &'static str> {
    const BAD: &str = "an entry is not a commit";
    let entry = frame.deliver(TopicPartition::new(Topic(""), 0))?;
    let text = |bytes: Option<&bytes::Bytes>| {
        bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned).ok_or(BAD)
    };
    let (group, metadata) = (text(entry.key.as_ref())?, text(entry.value.as_ref())?);
    let [(topic, _), (_, partition), (_, offset)] = entry.headers.as_slice() else { return Err(BAD) };
    let partition = Partition::from_le_bytes(partition.as_ref().try_into().map_err(|_| BAD)?);
    let offset = Offset::from_le_bytes(offset.as_ref().try_into().map_err(|_| BAD)?);
    table.insert((group, topic.clone().into_owned(), partition), Commit { offset, metadata });
    Ok(())
}

fn load(dir: &Path, generation: u64) -> Result<Current, LogError> {
    let path = path(dir, generation);
    let file = open(&path)?;
    let mut table = Table::new();
    let scan = Scan::beginning(0).complete(&path, &file, |frame| take_entry(frame, &mut table))?;
    Ok(Current { file, generation, len: scan.len, next: scan.end, rewrite_at: REWRITE_BYTES, table })
}

fn path(dir: &Path, generation: u64) -> PathBuf {
    dir.join(format!("commits.{generation}"))
}

/// Returns the generations of the commit files, sorted.
fn generations(dir: &Path) -> Result<Vec<u64>, LogError> {
    let mut generations = vec![];
    for entry in std::fs::read_dir(dir).map_err(at(dir))? {
        let name = entry.map_err(at(dir))?.file_name();
        let generation: Option<u64> = name.to_str().and_then(|name| name.strip_prefix("commits.")?.parse().ok());
        generations.extend(generation);
    }
    generations.sort_unstable();
    Ok(generations)
}
