//! Records and bytes by topic in the embedded log of a crawl (format: `frame.rs` and `block.rs` in
//! `crates/log/src/embedded`).

use std::{collections::BTreeMap, fs, io, path::Path};

/// Bytes of a frame before key, value and headers: length, checksum, kind, offset, timestamp, and three lengths.
const FRAME_BYTES: usize = 35;
/// Kind of the frame of a compressed block, whose value is an offset, the size of its frames, and the frames.
const BLOCK: u8 = 3;
/// Size of the blocks in which compression is measured, in bytes: about a batch of a producer.
const BLOCK_BYTES: usize = 32 << 10;

/// Records of one topic.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Count {
    /// Records ever appended.
    pub appended: u64,
    /// Records that are still stored; those of deleted segments are not.
    pub stored: u64,
    /// Keys, values and headers of the stored records, in bytes.
    pub bytes: u64,
    /// Size of the stored frames relative to their uncompressed size, as LZ4 in blocks of 32 KiB.
    pub packed: f64,
}

/// Counts the records in `DIR/state/log/topics` of a crawl.
///
/// # Errors
/// If the directory cannot be read.
pub fn count(crawl: &Path) -> io::Result<BTreeMap<String, Count>> {
    let mut topics = BTreeMap::new();
    for topic in entries(&crawl.join("state/log/topics"))? {
        let (mut count, mut raw, mut packed) = (Count::default(), 0, 0);
        for partition in entries(&topic)? {
            let mut end = 0;
            for segment in entries(&partition)? {
                let bytes = uncompressed(&fs::read(segment)?)?;
                end = end.max(add_segment(&mut count, &bytes));
                raw += bytes.len();
                packed += bytes.chunks(BLOCK_BYTES).map(|block| lz4_flex::block::compress(block).len()).sum::<usize>();
            }
            count.appended += end;
        }
        count.packed = packed as f64 / raw.max(1) as f64;
        topics.insert(topic.file_name().unwrap_or_default().to_string_lossy().into_owned(), count);
    }
    Ok(topics)
}

/// Returns the frames of a segment, those of compressed blocks in place of each block.
///
/// # Errors
/// If a block is damaged.
pub fn uncompressed(mut segment: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = vec![];
    while let Some((frame, rest)) = frame(segment) {
        match frame[8] {
            BLOCK => {
                let (head, compressed) = frame[FRAME_BYTES..].split_at_checked(12).unwrap_or_default();
                let size = head.get(8..).and_then(|size| size.try_into().ok()).map_or(0, u32::from_le_bytes);
                plain.extend(lz4_flex::block::decompress(compressed, size as usize).map_err(io::Error::other)?);
            }
            _ => plain.extend_from_slice(frame),
        }
        segment = rest;
    }
    Ok(plain)
}

/// Adds the records of an uncompressed segment; returns the offset after its last one.
pub fn add_segment(count: &mut Count, mut bytes: &[u8]) -> u64 {
    let mut end = 0;
    while let Some((frame, rest)) = frame(bytes) {
        if frame[8] == 0 {
            count.stored += 1;
            count.bytes += (frame.len() - FRAME_BYTES) as u64;
            end = u64::from_le_bytes([9, 10, 11, 12, 13, 14, 15, 16].map(|at| frame[at])) + 1;
        }
        bytes = rest;
    }
    end
}

fn frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_le_bytes(bytes.first_chunk().copied()?) as usize + 8;
    if length < FRAME_BYTES { None } else { bytes.split_at_checked(length) }
}

fn entries(dir: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
