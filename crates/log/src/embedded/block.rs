//! Blocks: small records that were appended together, compressed in one frame (docs/adr/0050-compressed-blocks.md).
//!
//! The frame of a block has neither key nor headers; its offset is that of its first record, and its timestamp the latest
//! of its records. Its value:
//!
//! ```text
//! u64 offset of the last record   u32 size of the frames   LZ4 block: frames of the records, with 0 as checksum
//! ```
//! Records that are large, alone or incompressible have frames of their own.

use bytes::Bytes;
use lz4_flex::block::{CompressTable, compress_into_with_table, decompress, get_maximum_output_size};
use orbweaver_messages::Millis;

use super::frame::{
    Frame, HEAD_BYTES, Kind, MIN_FRAME, frame_bytes, put, put_checksum, put_record, put_seal, remove_checksum,
    total_bytes,
};
use crate::{Offset, Record};

/// Size at which a block ends, in bytes before compression. At twice the size, records of `crawl.frontier` take a tenth
/// less; a reader of one record decompresses the whole block.
const BLOCK_BYTES: usize = 32 << 10;
/// Maximum size of a frame in a block. Bodies of pages are larger, and to compress them costs more than to write them.
const SMALL_FRAME: usize = 4 << 10;
/// Size of a block's value before the compressed frames, in bytes.
const VALUE_HEAD: usize = 8 + 4;
/// LZ4 expands a byte to 255 bytes at most.
const LARGEST_RATIO: u64 = 255;
/// Maximum number of records for each byte of a file.
pub(super) const RECORDS_PER_BYTE: u64 = LARGEST_RATIO.div_ceil(MIN_FRAME as u64);

/// Encoder of the records of a write.
#[derive(Default)]
pub(super) struct FrameWriter {
    /// Complete frames.
    frames: Vec<u8>,
    /// Frames of the next block, without checksums.
    block: Vec<u8>,
    /// Number of records in the next block, their offsets, and the latest timestamp.
    records: usize,
    offsets: (Offset, Offset),
    max_ms: Millis,
    table: CompressTable,
    packed: Vec<u8>,
}

impl FrameWriter {
    /// Adds a record. The caller has checked the sizes.
    pub(super) fn add(&mut self, offset: Offset, record: &Record) {
        if frame_bytes(record) > SMALL_FRAME {
            self.end_block();
            let from = self.frames.len();
            put_record(&mut self.frames, offset, record);
            put_checksum(&mut self.frames, from);
        } else {
            put_record(&mut self.block, offset, record);
            self.added(offset, record.timestamp_ms);
        }
    }

    /// Adds a record or a block as it was read.
    pub(super) fn copy(&mut self, frame: &Frame) {
        if frame.kind == Kind::Block || frame.raw.len() > SMALL_FRAME {
            self.end_block();
            self.frames.extend_from_slice(&frame.raw);
        } else {
            let from = self.block.len();
            self.block.extend_from_slice(&frame.raw);
            remove_checksum(&mut self.block, from);
            self.added(frame.offset, frame.timestamp_ms);
        }
    }

    /// Adds a seal; see [`put_seal`].
    pub(super) fn seal(&mut self, kind: Kind, end: Offset, max_ms: Millis) {
        self.end_block();
        put_seal(&mut self.frames, kind, end, max_ms);
    }

    /// Completes the frames of all records so far.
    pub(super) fn finish(&mut self) -> &[u8] {
        self.end_block();
        &self.frames
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
        self.block.clear();
        self.records = 0;
    }

    /// Returns the size of all records, in bytes, those of the last block before compression.
    pub(super) fn len(&self) -> usize {
        self.frames.len() + self.block.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.frames.capacity()
    }

    fn added(&mut self, offset: Offset, timestamp_ms: Millis) {
        if self.records == 0 {
            (self.offsets.0, self.max_ms) = (offset, timestamp_ms);
        }
        self.offsets.1 = offset;
        self.max_ms = self.max_ms.max(timestamp_ms);
        self.records += 1;
        if self.block.len() >= BLOCK_BYTES {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if self.records > 1 && self.compress().is_some() {
            let stamp = (Kind::Block, self.offsets.0, self.max_ms);
            put(&mut self.frames, stamp, (None, Some(&self.packed)), std::iter::empty());
        } else {
            let mut rest = &*self.block;
            while let Some((frame, after)) = total_bytes(rest).and_then(|total| rest.split_at_checked(total)) {
                let from = self.frames.len();
                self.frames.extend_from_slice(frame);
                put_checksum(&mut self.frames, from);
                rest = after;
            }
        }
        self.block.clear();
        self.records = 0;
    }

    /// Makes the value of the block. `None` if it is hardly smaller than its records.
    fn compress(&mut self) -> Option<()> {
        self.packed.resize(VALUE_HEAD + get_maximum_output_size(self.block.len()), 0);
        let size = u32::try_from(self.block.len()).ok()?;
        let (head, compressed) = self.packed.split_at_mut_checked(VALUE_HEAD)?;
        head.copy_from_slice(&[&self.offsets.1.to_le_bytes()[..], &size.to_le_bytes()].concat());
        let length = compress_into_with_table(&self.block, compressed, &mut self.table).ok()?;
        self.packed.truncate(VALUE_HEAD + length);
        (self.packed.len() + MIN_FRAME <= self.block.len() / 8 * 7).then_some(())
    }
}

/// Returns the offset of the last record of a block.
pub(super) fn last_offset(block: &Frame) -> Option<Offset> {
    Some(Offset::from_le_bytes(*block.value()?.first_chunk()?))
}

/// Returns `true` if it is not worthwhile to add the records of a block to another one.
pub(super) fn is_full(block: &Frame) -> bool {
    size(block).is_some_and(|size| size >= BLOCK_BYTES / 2)
}

fn size(block: &Frame) -> Option<usize> {
    Some(u32::from_le_bytes(*block.value()?.get(8..)?.first_chunk()?) as usize)
}

/// Decompresses a block, and returns its records; at least one.
pub(super) fn open(block: &Frame) -> Result<Vec<Frame>, &'static str> {
    const DAMAGED: &str = "the records of a block are damaged";
    let (_, compressed) = block.value().and_then(|value| value.split_at_checked(VALUE_HEAD)).ok_or(DAMAGED)?;
    let size = size(block).ok_or(DAMAGED)?;
    if size > BLOCK_BYTES + SMALL_FRAME {
        return Err("a block is larger than allowed");
    }
    let mut rest = Bytes::from(decompress(compressed, size).map_err(|_| DAMAGED)?);
    let mut records: Vec<Frame> = Vec::with_capacity(rest.len() / (2 * MIN_FRAME));
    while !rest.is_empty() {
        let total = total_bytes(&rest).filter(|total| (HEAD_BYTES..=rest.len()).contains(total)).ok_or(DAMAGED)?;
        let record = Frame::parse(rest.split_to(total))?;
        let least = records.last().map_or(block.offset, |last| last.offset + 1);
        if record.kind != Kind::Record || record.offset < least {
            return Err(DAMAGED);
        }
        records.push(record);
    }
    let ends = (records.first().map(|first| first.offset), records.last().map(|last| last.offset));
    if ends == (Some(block.offset), last_offset(block)) { Ok(records) } else { Err(DAMAGED) }
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::Topic;
    use proptest::prelude::*;

    use super::*;
    use crate::{
        TopicPartition,
        embedded::frame::{Look, look},
    };

    const TP: TopicPartition = TopicPartition { topic: Topic("t"), partition: 3 };

    /// Records that compress, that do not, and large ones.
    fn records() -> impl Strategy<Value = Vec<Record>> {
        let value = prop_oneof![
            4 => (0..3000usize).prop_map(|length| vec![b'a'; length]),
            2 => prop::collection::vec(any::<u8>(), 0..300),
            1 => Just(vec![7; SMALL_FRAME]),
        ];
        let record =
            (prop::option::of(value), any::<bool>(), any::<i64>()).prop_map(|(value, has_header, timestamp_ms)| {
                let headers = has_header.then(|| ("schema", Bytes::from_static(b"waiting")));
                Record {
                    tp: TP,
                    key: Some("key".into()),
                    value: value.map(Bytes::from),
                    headers: headers.into_iter().collect(),
                    timestamp_ms,
                }
            });
        prop::collection::vec(record, 0..60)
    }

    fn frames(mut bytes: Bytes) -> Vec<Frame> {
        let mut frames = vec![];
        while !bytes.is_empty() {
            let Look::Whole(total) = look(&bytes) else { panic!("not a frame: {:?}", look(&bytes)) };
            frames.push(Frame::parse(bytes.split_to(total)).unwrap());
        }
        frames
    }

    fn opened(bytes: &[u8]) -> Vec<Frame> {
        let open = |frame: Frame| if frame.kind == Kind::Block { open(&frame).unwrap() } else { vec![frame] };
        frames(Bytes::copy_from_slice(bytes)).into_iter().flat_map(open).collect()
    }

    fn written(records: &[Record], step: u64) -> FrameWriter {
        let mut writer = FrameWriter::default();
        for (index, record) in (0..).zip(records) {
            writer.add(10 + index * step, record);
        }
        writer
    }

    proptest! {
        #[test]
        fn records_come_back_as_they_were_also_after_a_copy(records in records(), step in 1u64..3) {
            let mut writer = written(&records, step);
            let read = opened(writer.finish());
            let mut copy = FrameWriter::default();
            read.iter().for_each(|frame| copy.copy(frame));
            for read in [read, opened(copy.finish())] {
                prop_assert_eq!(read.len(), records.len());
                for ((index, frame), record) in (0..).zip(read).zip(&records) {
                    let back = frame.deliver(TP).unwrap();
                    prop_assert_eq!((back.offset, back.timestamp_ms), (10 + index * step, record.timestamp_ms));
                    prop_assert_eq!((&back.key, &back.value, back.headers.len()), (&record.key, &record.value, record.headers.len()));
                }
            }
        }

        #[test]
        fn blocks_are_smaller_than_their_records_and_bounded(records in records()) {
            let mut writer = written(&records, 1);
            let bytes = Bytes::copy_from_slice(writer.finish());
            prop_assert!(bytes.len() <= records.iter().map(frame_bytes).sum());
            for block in frames(bytes).iter().filter(|frame| frame.kind == Kind::Block) {
                let records = open(block).unwrap();
                let size: usize = records.iter().map(|record| record.raw.len()).sum();
                prop_assert!(block.raw.len() < size && size < BLOCK_BYTES + SMALL_FRAME && records.len() > 1);
                prop_assert_eq!(records.iter().map(|record| record.timestamp_ms).max(), Some(block.timestamp_ms));
                prop_assert!(records.len() as u64 <= RECORDS_PER_BYTE * block.raw.len() as u64);
            }
        }

        #[test]
        fn a_damaged_block_is_an_error_and_never_a_panic(at in any::<prop::sample::Index>(), flip in 1..=255u8) {
            let record = Record { tp: TP, key: None, value: Some(vec![b'a'; 100].into()), headers: vec![], timestamp_ms: 5 };
            let mut writer = written(&vec![record; 20], 1);
            let mut bytes = writer.finish().to_vec();
            let at = at.index(bytes.len() - HEAD_BYTES) + HEAD_BYTES;
            bytes[at] ^= flip;
            if let Ok(frame) = Frame::parse(bytes.into()) {
                let offsets = open(&frame).map(|records| records.iter().map(|record| record.offset).collect::<Vec<_>>());
                prop_assert!(offsets.is_err() || offsets == Ok((10..30).collect()));
            }
        }
    }

    #[test]
    fn a_block_of_no_records_is_damaged() {
        let mut bytes = vec![];
        put(&mut bytes, (Kind::Block, 1, 1), (None, Some(&[0; VALUE_HEAD])), std::iter::empty());
        assert!(open(&Frame::parse(bytes.into()).unwrap()).is_err());
    }
}
