//! Records that are compressed together.
//!
//! ```text
//! u32 checksum of the rest   u32 size compressed   u32 size   u64 first offset       (all numbers little-endian)
//! LZ4 block: records, each after its distance from the first offset and its size
//! ```

use std::io;

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size};
use orbweaver_log::Offset;
use orbweaver_messages::FrontierUrl;
use xxhash_rust::xxh3::xxh3_64;

use super::encoding::read_record;

/// Size of the head of a compressed group, in bytes.
pub(super) const HEAD: usize = 4 + 4 + 4 + 8;

pub(super) struct Group {
    first: Offset,
    /// The records, each after its distance and size.
    bytes: Vec<u8>,
}

/// Returns the first offset and the size of the compressed group that begins with `head`. `None` for zeros, which are no
/// group; damage is not recognized.
pub(super) fn extent(head: &[u8]) -> Option<(Offset, usize)> {
    let compressed = u32::from_le_bytes(*head.get(4..)?.first_chunk()?) as usize;
    let first = Offset::from_le_bytes(*head.get(HEAD - 8..)?.first_chunk()?);
    (compressed > 0).then_some((first, HEAD + compressed))
}

#[allow(clippy::cast_possible_truncation, reason = "half of a hash")]
fn checksum(bytes: &[u8]) -> [u8; 4] {
    (xxh3_64(bytes) as u32).to_le_bytes()
}

impl Group {
    /// Returns a group whose first record is that of this offset.
    pub(super) fn starting_at(first: Offset) -> Self {
        Self { first, bytes: vec![] }
    }

    /// Returns the size of its records, in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record.
    pub(super) fn add(&mut self, offset: Offset, record: &[u8]) {
        let buffer = std::mem::take(&mut self.bytes);
        #[allow(clippy::expect_used, reason = "numbers always serialize into a vector")]
        let buffer = postcard::to_extend(&(offset - self.first, record.len()), buffer).expect("numbers serialize");
        self.bytes = buffer;
        self.bytes.extend_from_slice(record);
    }

    /// Appends the compressed group.
    pub(super) fn compress(&self, to: &mut Vec<u8>, table: &mut CompressTable) -> io::Result<()> {
        let start = to.len();
        to.resize(start + HEAD + get_maximum_output_size(self.bytes.len()), 0);
        let (head, compressed) = to[start..].split_at_mut(HEAD);
        let length = compress_into_with_table(&self.bytes, compressed, table).map_err(io::Error::other)?;
        let size = |bytes: usize| u32::try_from(bytes).map(u32::to_le_bytes).map_err(io::Error::other);
        head[4..8].copy_from_slice(&size(length)?);
        head[8..12].copy_from_slice(&size(self.bytes.len())?);
        head[12..].copy_from_slice(&self.first.to_le_bytes());
        to.truncate(start + HEAD + length);
        let checksum = checksum(&to[start + 4..]);
        to[start..start + 4].copy_from_slice(&checksum);
        Ok(())
    }

    /// Replaces this group by a compressed one. `None` if it is damaged.
    pub(super) fn decompress(&mut self, bytes: &[u8]) -> Option<()> {
        let (sum, rest) = bytes.split_first_chunk()?;
        let (head, compressed) = rest.split_at_checked(HEAD - 4)?;
        if *sum != checksum(rest) {
            return None;
        }
        let size = u32::from_le_bytes(*head.get(4..)?.first_chunk()?) as usize;
        (self.first, _) = extent(bytes)?;
        self.bytes.resize(size, 0);
        decompress_into(compressed, &mut self.bytes).ok().filter(|read| *read == size).map(|_| ())
    }

    /// Decodes the record of an offset. `None` if there is none, or if it is damaged.
    pub(super) fn record(&self, offset: Offset) -> Option<Box<FrontierUrl>> {
        let mut rest = &self.bytes[..];
        loop {
            let ((distance, size), records) = postcard::take_from_bytes::<(Offset, usize)>(rest).ok()?;
            let (record, following) = records.split_at_checked(size)?;
            if self.first.checked_add(distance)? == offset {
                return read_record(record);
            }
            rest = following;
        }
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::UrlContext;
    use proptest::prelude::*;

    use super::{super::encoding::record_value, *};

    fn waiting(number: u64) -> FrontierUrl {
        let url = format!("https://example.org/{number}");
        FrontierUrl::admitted(UrlContext::of_seed("a".parse().unwrap_or_default(), url, "example.org".into()), 7)
    }

    proptest! {
        #[test]
        fn a_record_is_found_by_its_offset(steps in prop::collection::vec(1u64..1000, 1..40), flip in any::<prop::sample::Index>()) {
            let offsets: Vec<_> = steps.iter().scan(1 << 40, |at, step| { *at += step; Some(*at) }).collect();
            let mut group = Group::starting_at(offsets[0]);
            for offset in &offsets {
                group.add(*offset, &record_value(&waiting(*offset), vec![]));
            }
            let mut bytes = vec![1, 2, 3];
            group.compress(&mut bytes, &mut CompressTable::default()).unwrap();
            let mut bytes = bytes.split_off(3);
            prop_assert_eq!(extent(&bytes), Some((offsets[0], bytes.len())));
            let mut read = Group::starting_at(7);
            read.decompress(&bytes).unwrap();
            for offset in &offsets {
                prop_assert_eq!(read.record(*offset), Some(Box::new(waiting(*offset))));
                prop_assert_eq!(read.record(offset + 1).is_some(), offsets.contains(&(offset + 1)));
            }
            let flip = flip.index(bytes.len());
            bytes[flip] ^= 1;
            prop_assert!(Group::starting_at(7).decompress(&bytes).is_none());
        }
    }
}
