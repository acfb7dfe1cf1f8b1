//! The checkpoint of a partition's index: how far the log is in it, its tables, and the states of its URLs. One file, replaced
//! atomically, so that all of them change together.

use std::{collections::BTreeMap, io, path::Path};

use orbweaver_index_files::{read_hashed, replace_hashed};
use orbweaver_log::Offset;
use orbweaver_stage::IndexCheckpoint;
use orbweaver_url::Fingerprint;
use serde::{Deserialize, Serialize};

use super::states::States;

const NAME: &str = "checkpoint";

#[derive(Debug)]
pub(super) struct Checkpoint {
    pub(super) position: IndexCheckpoint,
    /// Numbers of the tables, oldest first.
    pub(super) tables: Vec<u64>,
    /// The marked URLs.
    pub(super) outdated: BTreeMap<Fingerprint, Offset>,
    pub(super) states: States,
}

/// Numbers of the tables, and the marked URLs.
#[derive(Serialize, Deserialize)]
struct Lists {
    tables: Vec<u64>,
    outdated: Vec<([u8; 16], Offset)>,
}

impl Checkpoint {
    /// Reads the checkpoint in this directory; `None` if there is none, or it is damaged.
    pub(super) fn read(dir: &Path) -> io::Result<Option<Self>> {
        Ok(read_hashed(dir, NAME)?.and_then(|content| Self::decode(&content)))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (position, rest) = bytes.split_at_checked(24)?;
        let (Lists { tables, outdated }, rest) = postcard::take_from_bytes(rest).ok()?;
        let (states, rest) = States::decode(rest)?;
        let outdated = outdated.into_iter().map(|(bytes, since)| (Fingerprint(bytes), since)).collect();
        let position = IndexCheckpoint::from_bytes(position)?;
        rest.is_empty().then_some(Self { position, tables, outdated, states })
    }
}

/// Replaces the checkpoint in this directory.
pub(super) fn write(
    dir: &Path,
    position: IndexCheckpoint,
    tables: &[u64],
    outdated: &BTreeMap<Fingerprint, Offset>,
    states: &States,
) -> io::Result<()> {
    let outdated = outdated.iter().map(|(url, since)| (url.0, *since)).collect();
    let lists = Lists { tables: tables.to_vec(), outdated };
    let mut bytes = postcard::to_extend(&lists, position.to_bytes().to_vec()).map_err(io::Error::other)?;
    states.encode(&mut bytes);
    replace_hashed(dir, NAME, bytes)
}
