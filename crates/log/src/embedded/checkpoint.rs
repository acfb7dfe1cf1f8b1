//! Checkpoints: the durable lengths of all partitions and of the commits at one moment.
//!
//! Two files are written alternately, in place: one of them is valid at any moment, and the next needs no extra space.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::OpenOptions,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    str::{FromStr, SplitWhitespace},
};

use orbweaver_messages::Millis;

use super::{
    disk::Disk,
    files::{at, sync_dir},
};
use crate::{LogError, Offset, Partition};

const TITLE: &str = "orbweaver log checkpoint 1";

/// Durable state of a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// First readable offset.
    pub(super) start: Offset,
    /// Base of the last segment, and its durable length in bytes.
    pub(super) base: Offset,
    pub(super) len: u64,
    /// Next offset to assign.
    pub(super) end: Offset,
    /// Latest timestamp in that segment.
    pub(super) max_ms: Millis,
    /// Whether that segment is sealed.
    pub(super) sealed: bool,
}

/// Durable state of the whole log at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Sequence number; the higher of two is the later one.
    pub(super) sequence: u64,
    /// Boot ID of the system that wrote it; empty if the system provides none.
    pub(super) boot: String,
    /// Generation of the commit file, and its durable length in bytes.
    pub(super) commits: (u64, u64),
    /// By topic and partition, including those of topics that are not configured now.
    pub(super) entries: BTreeMap<(String, Partition), Entry>,
}

impl Checkpoint {
    /// Loads the latest valid checkpoint of a log, if any.
    pub(super) fn load(dir: &Path) -> Result<Option<Self>, LogError> {
        let mut last: Option<Self> = None;
        for slot in 0..2 {
            let path = path(dir, slot);
            let bytes = match std::fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(at(&path)(error)),
            };
            // An incomplete write is no checkpoint; the other file applies.
            let found = std::str::from_utf8(&bytes).ok().and_then(Self::parse);
            last = last.into_iter().chain(found).max_by_key(|checkpoint| checkpoint.sequence);
        }
        Ok(last)
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, rest) = text.split_once("\ncrc ")?;
        let crc = u32::from_str_radix(rest.lines().next()?, 16).ok()?;
        if crc32fast::hash(body.as_bytes()) != crc {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != TITLE {
            return None;
        }
        let mut checkpoint = Self::default();
        for line in lines {
            let mut words = line.split_whitespace();
            match words.next()? {
                "sequence" => checkpoint.sequence = word(&mut words)?,
                "boot" => checkpoint.boot = words.next().unwrap_or_default().to_owned(),
                // Always `every`.
                "sync" => {}
                "commits" => checkpoint.commits = (word(&mut words)?, word(&mut words)?),
                "place" => {
                    let tp = (word(&mut words)?, word(&mut words)?);
                    let entry = Entry {
                        start: word(&mut words)?,
                        base: word(&mut words)?,
                        len: word(&mut words)?,
                        end: word(&mut words)?,
                        max_ms: word(&mut words)?,
                        sealed: word(&mut words)?,
                    };
                    checkpoint.entries.insert(tp, entry);
                }
                _ => return None,
            }
        }
        Some(checkpoint)
    }

    fn text(&self) -> String {
        let mut text = format!("{TITLE}\nsequence {}\nboot {}\nsync every\n", self.sequence, self.boot);
        let _ = write!(text, "commits {} {}", self.commits.0, self.commits.1);
        for ((topic, partition), entry) in &self.entries {
            let Entry { start, base, len, end, max_ms, sealed } = entry;
            let _ = write!(text, "\nplace {topic} {partition} {start} {base} {len} {end} {max_ms} {sealed}");
        }
        let crc = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "\ncrc {crc:08x}");
        text
    }

    /// Writes the checkpoint durably over the one before the last.
    pub(super) fn store(&self, disk: &Disk) -> Result<(), LogError> {
        let path = path(&disk.dir, self.sequence % 2);
        let is_new = !path.exists();
        let open = || OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = open().map_err(at(&path))?;
        file.write_all_at(self.text().as_bytes(), 0).map_err(at(&path))?;
        disk.synced(file.sync_data().map_err(at(&path)))?;
        // Unless its name is durable too, a power cut loses the synced checkpoint, and the log rolls back to the one
        // before.
        if is_new { disk.synced(sync_dir(&disk.dir)) } else { Ok(()) }
    }

    /// Returns whether an earlier boot of the system wrote this: data that was not durable then may be lost.
    pub(super) fn before_a_restart(&self) -> bool {
        self.boot.is_empty() || self.boot != boot()
    }
}

fn path(dir: &Path, slot: u64) -> PathBuf {
    dir.join(format!("checkpoint.{slot}"))
}

fn word<T: FromStr>(words: &mut SplitWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

/// Returns the boot ID of the system (Linux: `proc(5)`, `random/boot_id`); empty if unavailable.
pub(super) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    fn checkpoint(sequence: u64) -> Checkpoint {
        let entry = |partition| {
            let sealed = partition == 1;
            let entry = Entry { start: 5, base: 4, len: 1_000, end: 9, max_ms: Millis::MIN, sealed };
            (("crawl.pages".to_owned(), partition), entry)
        };
        let entries = BTreeMap::from([entry(0), entry(1)]);
        Checkpoint { sequence, boot: boot(), commits: (2, 77), entries }
    }

    #[test]
    fn the_later_of_two_counts_and_a_torn_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::new(dir.path().to_owned(), Options::default());
        assert_eq!(Checkpoint::load(dir.path()).unwrap(), None);
        for sequence in 1..=4 {
            checkpoint(sequence).store(&disk).unwrap();
            assert_eq!(Checkpoint::load(dir.path()).unwrap(), Some(checkpoint(sequence)));
        }
        let mut fewer = checkpoint(5);
        fewer.entries.pop_last();
        fewer.store(&disk).unwrap();
        assert_eq!(Checkpoint::load(dir.path()).unwrap(), Some(fewer), "what a longer one left behind is ignored");

        let last = path(dir.path(), 1);
        for at in [0, 40, 100] {
            let whole = std::fs::read(&last).unwrap();
            let mut torn = whole.clone();
            torn[at] ^= 1;
            std::fs::write(&last, torn).unwrap();
            assert_eq!(Checkpoint::load(dir.path()).unwrap(), Some(checkpoint(4)));
            std::fs::write(&last, whole).unwrap();
        }
    }
}
