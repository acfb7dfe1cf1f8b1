//! Destination of shards and the manifest, and the start of an export to it.

use std::io::{self, Write};

use super::{
    destination::Destination,
    error::ShardsError,
    manifest::{FORMAT, Manifest, Selection},
};

/// Name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// Destination of shards. Readers see a shard once it is published, and nothing depends on an unfinished one.
pub(super) trait Sink {
    /// An unfinished shard.
    type File: Write;

    /// Reads the manifest, if there is one.
    fn load(&self) -> Result<Option<Manifest>, ShardsError>;

    /// Checks that a destination without a manifest has nothing else.
    fn check_unused(&self) -> Result<(), ShardsError>;

    /// Prevents earlier runs from changing the destination from now on.
    fn claim(&self, manifest: &Manifest) -> Result<(), ShardsError>;

    /// Begins a shard; replaces an unfinished one of this name.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Makes a shard durable and complete under its name.
    fn publish(&self, file: Self::File, name: &str) -> io::Result<()>;

    /// Removes a shard that the manifest does not name, finished or not, if there is one.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Replaces the manifest atomically and durably.
    fn save(&self, manifest: &Manifest) -> Result<(), ShardsError>;
}

/// Returns the manifest of a new or existing export. Removes shards that an interrupted run did not complete.
pub(super) fn begin<S: Sink>(sink: &S, to: &Destination, selection: Selection) -> Result<Manifest, ShardsError> {
    let Some(manifest) = existing(sink, to, &selection)? else {
        let manifest = Manifest::new(selection);
        sink.save(&manifest)?;
        return Ok(manifest);
    };
    // Before the removal: an earlier run could name a shard in its manifest that this one removes.
    sink.claim(&manifest)?;
    remove_unfinished(sink, to, &manifest)?;
    Ok(manifest)
}

/// Returns the manifest of an existing export with this selection; `None` if the destination is unused. Changes nothing.
pub(super) fn existing<S: Sink>(
    sink: &S,
    to: &Destination,
    selection: &Selection,
) -> Result<Option<Manifest>, ShardsError> {
    let Some(manifest) = sink.load()? else {
        sink.check_unused()?;
        return Ok(None);
    };
    if manifest.format != FORMAT {
        let message = format!("its manifest has the format {}, not {FORMAT}", manifest.format);
        return Err(ShardsError::Output { output: to.to_string(), source: io::Error::other(message) });
    }
    let stored = manifest.selection();
    if stored != *selection {
        let (stored, given) = (stored.to_string(), selection.to_string());
        return Err(ShardsError::Selection { output: to.to_string(), stored, given });
    }
    Ok(Some(manifest))
}

/// Removes the shards that the manifest does not name: an interrupted run leaves at most one of each kind.
pub(super) fn remove_unfinished<S: Sink>(sink: &S, to: &Destination, manifest: &Manifest) -> Result<(), ShardsError> {
    for (kind, exported) in &manifest.kinds {
        let name = kind.shard(exported.shards.len());
        sink.remove(&name).map_err(|source| ShardsError::Output { output: to.join(&name), source })?;
    }
    Ok(())
}
