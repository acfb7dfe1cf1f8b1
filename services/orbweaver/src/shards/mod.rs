//! `orbweaver export`: results of a crawl as compressed shards of limited size, with a manifest.
//!
//! Each record is in exactly one complete shard, whenever an export is killed: a shard becomes visible when it is complete
//! and durable, and then the manifest names it, with the position in the results after it. The next run removes shards that
//! the manifest does not name, and continues at the positions. A shard depends on the results and the options alone, so that
//! the repeated one is the same.
//!
//! | module | contents |
//! |---|---|
//! | [`args`] | command line |
//! | `filter`, `record` | pure: selected results; records of a line |
//! | `pass` | one pass over a result file (read by `results`) |
//! | `pack` | a shard that is being written |
//! | `manifest` | the manifest |
//! | [`destination`], `sink` | destination as given; operations of a destination |
//! | `directory`, `bucket` | export to a directory, to an S3-compatible object store |

pub mod args;
mod bucket;
pub mod destination;
mod directory;
mod error;
mod filter;
mod manifest;
mod pack;
mod pass;
mod record;
mod sink;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use args::{ExportArgs, Kind};
use bucket::Bucket;
use destination::Destination;
use directory::Directory;
use error::ShardsError;
use manifest::{Manifest, Selection};
use pass::{Run, pass};
use record::Source;
use serde::Serialize;
use sink::{Sink, begin, existing, remove_unfinished};

use crate::{
    crawl::progress::{bytes, number},
    exit::Failure,
    interrupt::interruptible,
    output::{json_line, to_stdout},
    results::Lines,
};

/// Exports the results of a crawl, and prints a summary.
///
/// # Errors
/// Fails if the results cannot be read, the export cannot be written or is interrupted.
pub fn run(args: &ExportArgs) -> Result<(), Failure> {
    let summary = all(args)?;
    to_stdout(|out| {
        if args.json {
            return json_line(out, &summary);
        }
        summary.iter().try_for_each(|(kind, counts)| writeln!(out, "{}", counts.text(*kind)))
    })
}

/// Exports the results of a crawl, and returns the lines of the summary.
///
/// # Errors
/// Fails as [`run`].
pub(crate) fn lines(args: &ExportArgs) -> Result<Vec<String>, Failure> {
    Ok(all(args)?.iter().map(|(kind, counts)| counts.text(*kind)).collect())
}

fn all(args: &ExportArgs) -> Result<BTreeMap<Kind, Counts>, Failure> {
    let args = args.clone();
    interruptible(move |stop| Ok(export(&args, stop)?))
}

/// Checks that the destination can be reached, and that it is new, empty, or has an export with these options; changes
/// nothing.
///
/// # Errors
/// Fails if the export would be refused, or if the command is interrupted.
pub(crate) fn check(args: &ExportArgs) -> Result<(), Failure> {
    let args = args.clone();
    interruptible(move |stop| {
        let (to, selection) = (&args.to, args.selection()?);
        let checked = match to {
            Destination::Directory(path) if !path.exists() => return Ok(()),
            Destination::Directory(path) => {
                Directory::open(path).and_then(|directory| existing(&directory, to, &selection))
            }
            Destination::Bucket(address) => {
                Bucket::connect(to, address.bucket(), stop).and_then(|bucket| existing(&bucket, to, &selection))
            }
        };
        checked.map(drop).map_err(|error| stopped(error, stop).into())
    })
}

/// Counts of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct Counts {
    records: u64,
    shards: usize,
    /// Size of the shards.
    bytes: u64,
    uncompressed_bytes: u64,
    /// Records that this run has added.
    new_records: u64,
    /// Shards that this run has added.
    new_shards: usize,
}

impl Counts {
    fn text(&self, kind: Kind) -> String {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let new = match self.new_shards {
            0 => "nothing new".to_owned(),
            shards => format!("{} new in {shards} shard{}", number(self.new_records), plural(shards)),
        };
        let (name, records, size) = (kind.name(), number(self.records), bytes(self.bytes));
        format!("{name:9}  {records} records in {} shard{}, {size}; {new}", self.shards, plural(self.shards))
    }
}

/// Exports the results; returns the counts of each kind.
fn export(args: &ExportArgs, stop: &AtomicBool) -> Result<BTreeMap<Kind, Counts>, ShardsError> {
    let selection = args.selection()?;
    let mut files = vec![];
    for source in
        Source::ALL.into_iter().filter(|source| source.kinds().iter().any(|kind| selection.what.contains(kind)))
    {
        files.push((source, Lines::find(&args.dir, source.file())?.up_to_checkpoint(&args.dir)?));
    }
    let run = Run { to: &args.to, shard_bytes: args.shard_bytes, stop };
    let exported = match &args.to {
        Destination::Directory(path) => export_to(&Directory::open(path)?, run, selection, &files),
        Destination::Bucket(address) => {
            export_to(&Bucket::connect(&args.to, address.bucket(), stop)?, run, selection, &files)
        }
    };
    exported.map_err(|error| stopped(error, stop))
}

/// Returns the error of an export that was stopped if `error` is that of a request that was abandoned.
fn stopped(error: ShardsError, stop: &AtomicBool) -> ShardsError {
    match error {
        ShardsError::Output { .. } if stop.load(Ordering::Relaxed) => ShardsError::Stopped,
        error => error,
    }
}

/// Exports result files to a destination.
fn export_to<S: Sink>(
    sink: &S,
    run: Run<'_>,
    selection: Selection,
    files: &[(Source, Lines)],
) -> Result<BTreeMap<Kind, Counts>, ShardsError> {
    let mut manifest = begin(sink, run.to, selection)?;
    let before = counts(&manifest);
    for (source, lines) in files {
        match pass(run, (*source, lines), sink, &mut manifest) {
            Ok(false) => {}
            Ok(true) => notice!(
                "{}: the last line is incomplete and was skipped: the crawl is running or was killed",
                lines.path().display()
            ),
            Err(error) => {
                // Otherwise the next run does.
                let _ = remove_unfinished(sink, run.to, &manifest);
                return Err(error);
            }
        }
    }
    let mut counts = counts(&manifest);
    for (kind, counts) in &mut counts {
        counts.new_records = counts.records - before[kind].records;
        counts.new_shards = counts.shards - before[kind].shards;
    }
    Ok(counts)
}

fn counts(manifest: &Manifest) -> BTreeMap<Kind, Counts> {
    let of_kind = |shards: &[manifest::Shard]| Counts {
        records: shards.iter().map(|shard| shard.records).sum(),
        shards: shards.len(),
        bytes: shards.iter().map(|shard| shard.bytes).sum(),
        uncompressed_bytes: shards.iter().map(|shard| shard.uncompressed_bytes).sum(),
        ..Counts::default()
    };
    manifest.kinds.iter().map(|(kind, exported)| (*kind, of_kind(&exported.shards))).collect()
}
