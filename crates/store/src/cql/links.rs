//! The links of a page as rows: chunks, since servers refuse values of several MiB.
//!
//! Chunk 0 is written last, together with a deletion of all older lists, so that a reader finds a complete list at any
//! time. All these writes carry the event time: neither the writes nor the deletion of a replay affect those of a later
//! event.

use orbweaver_messages::Millis;
use orbweaver_url::Fingerprint;
use scylla::value::CqlTimestamp;
use scylla::{DeserializeRow, SerializeRow};

use super::rows::write_time;
use crate::packed::{pack_canonical, pack_links, unpack_canonical, unpack_links};
use crate::{DeclaredCanonical, LinksOut, StoreError};

/// Maximum size of a chunk before packing, in bytes. Cassandra refuses mutations larger than half a commit log segment
/// (16 MiB by default), and both servers handle values above 1 MiB badly.
const CHUNK_BYTES: usize = 512 << 10;

#[derive(SerializeRow)]
pub(super) struct ChunkValues<'a> {
    fingerprint: &'a [u8],
    at: CqlTimestamp,
    chunk: i32,
    chunks: i32,
    packed: Vec<u8>,
    /// In microseconds.
    written_at: i64,
}

/// Deletion of older lists.
#[derive(SerializeRow)]
pub(super) struct OlderValues<'a> {
    fingerprint: &'a [u8],
    at: CqlTimestamp,
    /// In microseconds.
    written_at: i64,
}

/// Returns the chunks of a list, and the deletion of older ones, which is written with the first chunk.
pub(super) fn of_links(row: &LinksOut) -> Result<(Vec<ChunkValues<'_>>, OlderValues<'_>), StoreError> {
    let refused = |reason: String| {
        let LinksOut { fingerprint, links, .. } = row;
        StoreError::Refused(format!("the {} links of page {fingerprint} cannot be written: {reason}", links.len()))
    };
    // The first chunk begins with it.
    let mut first = pack_canonical(row.canonical.as_ref(), vec![]).map_err(refused)?;
    let packed = pieces(&row.links).map(|links| pack_links(links, std::mem::take(&mut first)));
    let packed = packed.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let (fingerprint, at) = (&row.fingerprint.0[..], CqlTimestamp(row.at_ms));
    let written_at = write_time(row.at_ms, &packed)?;
    let chunks = i32::try_from(packed.len()).unwrap_or(i32::MAX);
    let values =
        (0..).zip(packed).map(|(chunk, packed)| ChunkValues { fingerprint, at, chunk, chunks, packed, written_at });
    Ok((values.collect(), OlderValues { fingerprint, at, written_at }))
}

/// Splits a list into pieces of at most [`CHUNK_BYTES`]; an empty list is one empty piece.
fn pieces(mut links: &[(String, bool)]) -> impl Iterator<Item = &[(String, bool)]> {
    let mut is_first = true;
    std::iter::from_fn(move || {
        let mut room = CHUNK_BYTES;
        // The length and the flag of a link take at most five bytes.
        let fits = |(url, _): &(String, bool)| room.checked_sub(url.len() + 5).map(|left| room = left);
        let fitting = links.iter().map_while(fits).count();
        // A single larger link, which no page has, is a piece of its own.
        let (piece, rest) = links.split_at(fitting.max(1).min(links.len()));
        links = rest;
        let is_due = is_first || !piece.is_empty();
        is_first = false;
        is_due.then_some(piece)
    })
}

/// Chunk as read.
#[derive(DeserializeRow)]
pub(super) struct ChunkColumns {
    at: CqlTimestamp,
    chunk: i32,
    chunks: i32,
    packed: Vec<u8>,
}

/// Assembles the newest complete list from chunks, which arrive in order, the newest list first.
#[derive(Default)]
pub(super) struct Collected {
    at_ms: Option<Millis>,
    /// Next chunk; `None` if one is missing, because its list is still being written.
    due: Option<i32>,
    links: Vec<(String, bool)>,
    canonical: Option<DeclaredCanonical>,
}

impl ChunkColumns {
    /// Returns the canonical URL that the page declares, if this is a first chunk: its list is complete.
    pub(super) fn canonical(&self) -> Result<Option<Option<DeclaredCanonical>>, String> {
        (self.chunk == 0).then(|| unpack_canonical(&self.packed).map(|(canonical, _)| canonical)).transpose()
    }
}

impl Collected {
    /// Adds the next chunk; returns the list once it is complete.
    pub(super) fn add(&mut self, fingerprint: Fingerprint, row: &ChunkColumns) -> Result<Option<LinksOut>, String> {
        if self.at_ms != Some(row.at.0) {
            *self = Self { at_ms: Some(row.at.0), due: Some(0), ..Self::default() };
        }
        if self.due != Some(row.chunk) {
            self.due = None;
            return Ok(None);
        }
        let (canonical, links) = unpack_canonical(&row.packed)?;
        self.canonical = self.canonical.take().or(canonical);
        self.links.append(&mut unpack_links(links)?);
        self.due = row.chunk.checked_add(1);
        let is_whole = self.due.is_none_or(|due| due >= row.chunks);
        let Self { links, canonical, .. } = self;
        let list =
            || LinksOut { fingerprint, at_ms: row.at.0, links: std::mem::take(links), canonical: canonical.take() };
        Ok(is_whole.then(list))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::contract::long_links;

    fn list(at_ms: Millis, target: &str) -> LinksOut {
        LinksOut { fingerprint: Fingerprint([7; 16]), at_ms, links: vec![(target.to_owned(), false)], canonical: None }
    }

    fn written_at(row: &LinksOut) -> i64 {
        of_links(row).unwrap().1.written_at
    }

    fn columns(row: &LinksOut) -> Vec<ChunkColumns> {
        let of = |values: ChunkValues<'_>| {
            let ChunkValues { at, chunk, chunks, packed, .. } = values;
            ChunkColumns { at, chunk, chunks, packed }
        };
        of_links(row).unwrap().0.into_iter().map(of).collect()
    }

    #[test]
    fn a_later_event_has_a_later_write_time_whatever_its_content() {
        for i in 0..200 {
            let (earlier, later) = (list(i, &format!("https://a.example/{i}")), list(i + 1, "https://b.example/"));
            assert!(written_at(&earlier) < written_at(&later));
        }
    }

    #[test]
    fn a_repetition_has_the_same_write_time_and_another_content_another() {
        let row = list(5, "https://example.org/");
        assert_eq!(written_at(&row), written_at(&row.clone()));
        assert_ne!(written_at(&row), written_at(&list(5, "https://example.org/other")));
    }

    #[test]
    fn a_time_that_the_server_cannot_hold_is_refused_by_name() {
        for at_ms in [Millis::MAX, Millis::MIN, Millis::MAX / 1000 + 1] {
            let error = of_links(&list(at_ms, "https://example.org/")).err().unwrap();
            assert!(matches!(&error, StoreError::Refused(reason) if reason.contains(&at_ms.to_string())), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4, ..ProptestConfig::default() })]
        #[test]
        fn a_list_of_any_length_is_read_as_it_was_written_from_chunks_below_a_mebibyte(count in 0..600_u64) {
            let row = long_links(Fingerprint([7; 16]), 5, count);
            let (values, older) = of_links(&row).unwrap();
            prop_assert!(values.iter().all(|chunk| chunk.packed.len() < 600 << 10));
            prop_assert!(values.iter().all(|chunk| chunk.written_at == older.written_at));
            let mut collected = Collected::default();
            let mut found = columns(&row).into_iter().map(|chunk| collected.add(row.fingerprint, &chunk).unwrap());
            prop_assert_eq!(found.find_map(|list| list), Some(row.clone()));
            prop_assert!(found.next().is_none());
        }
    }

    #[test]
    fn a_list_that_is_still_being_written_is_passed_over() {
        let long = |at_ms, count| long_links(Fingerprint([7; 16]), at_ms, count);
        let (newer, older) = (long(6, 400), long(5, 300));
        let mut missing = columns(&newer);
        assert!(missing.len() > 2);
        missing.remove(0);
        let mut collected = Collected::default();
        let rows = missing.into_iter().chain(columns(&older));
        let found = rows.filter_map(|chunk| collected.add(older.fingerprint, &chunk).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), [older]);
    }
}
