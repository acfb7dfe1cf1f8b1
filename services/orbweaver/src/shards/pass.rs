//! One pass over a file of results, which writes the shards of all kinds in it.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    args::Kind,
    destination::Destination,
    error::ShardsError,
    manifest::{Exported, Manifest},
    pack::{Pack, sha256},
    record::{Line, Source},
    sink::Sink,
};
use crate::results::{Lines, Position};

/// Number of bytes before a position that identify the result file.
const CHECKED_BYTES: u64 = 4096;

/// Options of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    /// Destination of the export, for messages.
    pub(super) to: &'a Destination,
    /// Size of a shard before compression, in bytes.
    pub(super) shard_bytes: u64,
    /// Set once the export is interrupted.
    pub(super) stop: &'a AtomicBool,
}

/// Exports the remaining lines of a result file. Returns `true` if the last one is incomplete.
pub(super) fn pass<S: Sink>(
    run: Run<'_>,
    (source, lines): (Source, &Lines),
    sink: &S,
    manifest: &mut Manifest,
) -> Result<bool, ShardsError> {
    for exported in tracked(source, manifest).map(|kind| &manifest.kinds[&kind]) {
        check(lines, exported)?;
    }
    let position = |kind| manifest.kinds[&kind].position;
    let tracks: Vec<_> =
        tracked(source, manifest).map(|kind| Track { kind, position: position(kind), open: None }).collect();
    let Some(start) = tracks.iter().map(|track| track.position).min() else { return Ok(false) };
    let mut pass = Pass { run, lines, sink, manifest, tracks, position: start, records: vec![] };
    let end = lines.each_from::<ShardsError>(start, |line, after| {
        if run.stop.load(Ordering::Relaxed) {
            return Err(ShardsError::Stopped);
        }
        match Line::parse(source, line) {
            Ok(line) => pass.take(&line, after),
            Err(reason) => Ok(Err(reason)),
        }
    })?;
    pass.finish()?;
    Ok(end.is_cut)
}

/// Returns the exported kinds of a file.
fn tracked(source: Source, manifest: &Manifest) -> impl Iterator<Item = Kind> + use<'_> {
    source.kinds().iter().copied().filter(|kind| manifest.kinds.contains_key(kind))
}

/// Checks that the file has the lines that were exported.
fn check(lines: &Lines, exported: &Exported) -> Result<(), ShardsError> {
    let end = exported.position.bytes;
    if end > 0 && (end > lines.length() || checked(lines, end)? != exported.check) {
        return Err(ShardsError::Changed(lines.path().to_owned()));
    }
    Ok(())
}

fn checked(lines: &Lines, end: u64) -> Result<String, ShardsError> {
    Ok(sha256(&lines.before(end, CHECKED_BYTES)?))
}

/// Export of a kind.
struct Track<S: Sink> {
    kind: Kind,
    /// All selected records before it are in complete shards.
    position: Position,
    open: Option<Pack<S::File>>,
}

struct Pass<'a, S: Sink> {
    run: Run<'a>,
    lines: &'a Lines,
    sink: &'a S,
    manifest: &'a mut Manifest,
    tracks: Vec<Track<S>>,
    /// End of the last line that was taken.
    position: Position,
    /// Reused buffer.
    records: Vec<u8>,
}

impl<S: Sink> Pass<'_, S> {
    /// Takes a line that ends at `after`; the inner error is that of the line.
    fn take(&mut self, line: &Line<'_>, after: Position) -> Result<Result<(), String>, ShardsError> {
        let is_selected = match self.manifest.filter.selects(&line.properties()) {
            Ok(is_selected) => is_selected,
            Err(reason) => return Ok(Err(reason)),
        };
        for number in 0..self.tracks.len() {
            // A kind whose shards are ahead of the others.
            if self.tracks[number].position >= after {
                continue;
            }
            self.records.clear();
            let kind = self.tracks[number].kind;
            let added = if is_selected { line.append_to(&mut self.records, kind) } else { Ok(0) };
            match added {
                Err(reason) => return Ok(Err(reason)),
                Ok(0) => {}
                Ok(added) => self.add(number, added, after)?,
            }
            let track = &mut self.tracks[number];
            if track.open.is_none() {
                track.position = after;
            }
        }
        self.position = after;
        Ok(Ok(()))
    }

    /// Adds the records of a line to the shard of a track, and completes it if it has its size.
    fn add(&mut self, number: usize, records: u64, after: Position) -> Result<(), ShardsError> {
        let Self { tracks, manifest, sink, position, .. } = self;
        let track = &mut tracks[number];
        let name = track.kind.shard(manifest.kinds[&track.kind].shards.len());
        let failed = |source| output(&self.run, &name, source);
        let open = match &mut track.open {
            Some(open) => open,
            none => none.insert(
                sink.create(&name).and_then(|file| Pack::begin(name.clone(), *position, file)).map_err(failed)?,
            ),
        };
        open.add(&self.records, records).map_err(failed)?;
        if open.uncompressed_bytes() >= self.run.shard_bytes { self.complete(number, after) } else { Ok(()) }
    }

    /// Completes the shard of a track with the records before `to`.
    fn complete(&mut self, number: usize, to: Position) -> Result<(), ShardsError> {
        let track = &mut self.tracks[number];
        let Some(open) = track.open.take() else { return Ok(()) };
        let exported = self.manifest.kinds.entry(track.kind).or_default();
        let name = track.kind.shard(exported.shards.len());
        let published = open.finish(to).and_then(|(file, shard)| self.sink.publish(file, &name).map(|()| shard));
        exported.shards.push(published.map_err(|source| output(&self.run, &name, source))?);
        track.position = to;
        self.save()
    }

    /// Completes all shards at the end of the file.
    fn finish(&mut self) -> Result<(), ShardsError> {
        for number in 0..self.tracks.len() {
            self.complete(number, self.position)?;
        }
        let is_saved = |track: &Track<S>| self.manifest.kinds[&track.kind].position == track.position;
        if self.tracks.iter().all(is_saved) { Ok(()) } else { self.save() }
    }

    /// Saves the manifest with the positions of all kinds.
    fn save(&mut self) -> Result<(), ShardsError> {
        for track in &self.tracks {
            let exported = self.manifest.kinds.entry(track.kind).or_default();
            if exported.position != track.position {
                exported.position = track.position;
                exported.check = checked(self.lines, track.position.bytes)?;
            }
        }
        self.sink.save(self.manifest)
    }
}

fn output(run: &Run<'_>, name: &str, source: io::Error) -> ShardsError {
    ShardsError::Output { output: run.to.join(name), source }
}
