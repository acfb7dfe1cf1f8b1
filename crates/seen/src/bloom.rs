//! Index in memory alone: a growable Bloom filter (Almeida et al., "Scalable Bloom Filters", 2007) for one partition.

use growable_bloom_filter::{GrowableBloom, GrowableBloomBuilder};
use orbweaver_messages::{SeenBatch, SeenEntry};
use orbweaver_url::Fingerprint;

use crate::{IndexCheckpoint, IndexStats, Lookups, SeenError, SeenPartition};

/// Upper bound of the probability that a new URL is mistaken for a known one and lost.
pub const FALSE_POSITIVES: f64 = 1e-6;
/// Error of each further filter relative to the previous one, so that the sum of all errors is bounded.
const TIGHTENING: f64 = 0.85;
/// Capacity of each further filter relative to the previous one.
const GROWTH: usize = 2;
/// Fingerprints read before the filter is sized, and its smallest capacity: half a megabyte.
const SAMPLE: usize = 1 << 17;

/// Bloom filter over one partition of `crawl.seen`, rebuilt from the log whenever the partition opens.
#[derive(Debug, Default)]
pub(crate) struct BloomPartition {
    /// Number of records that the log held when the filter was created; determines its capacity.
    records: u64,
    records_read: u64,
    /// Fingerprints read while the filter has no size yet.
    sample: Vec<Fingerprint>,
    filter: Option<GrowableBloom>,
    capacity: usize,
    position: Option<IndexCheckpoint>,
    lookups: Lookups,
}

impl BloomPartition {
    /// Creates an empty index for a partition that holds about `records` records. The log must then be replayed from
    /// its start.
    pub(crate) fn new(records: u64) -> Self {
        Self { records, ..Self::default() }
    }

    /// Returns the number of entries, excluding those that the filter mistook for known ones.
    fn len(&self) -> usize {
        self.sample.len() + self.filter.as_ref().map_or(0, GrowableBloom::len)
    }

    /// Returns the memory of the filters in bytes, computed as the library allocates it.
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "an estimate of memory")]
    fn bytes(&self) -> u64 {
        let (mut capacity, mut error) = (self.capacity as f64, first_error());
        let (mut room, mut bytes) = (0.0, 0.0);
        while self.filter.is_some() && room < self.len() as f64 {
            bytes += (1.0 / error).log2().ceil() * capacity / std::f64::consts::LN_2 / 8.0;
            room += capacity;
            capacity *= GROWTH as f64;
            error *= TIGHTENING;
        }
        bytes as u64
    }

    fn insert(&mut self, entries: &[SeenEntry]) {
        match &mut self.filter {
            Some(filter) => entries.iter().for_each(|entry| _ = filter.insert(entry.fingerprint.0)),
            None => self.sample.extend(entries.iter().map(|entry| entry.fingerprint)),
        }
    }

    /// Returns the filter. The first call creates it, with room for all records of the log if they have as many entries
    /// as those read so far, and a quarter more.
    #[allow(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "an estimate of a capacity")]
    fn filter(&mut self) -> &mut GrowableBloom {
        let (sample, records, records_read) = (&mut self.sample, self.records, self.records_read);
        let capacity = &mut self.capacity;
        self.filter.get_or_insert_with(|| {
            let share = records_read.max(1) as f64 / records.max(records_read).max(1) as f64;
            *capacity = ((sample.len() as f64 / share * 1.25) as usize).max(SAMPLE);
            let builder =
                GrowableBloomBuilder::new().desired_error_ratio(first_error()).estimated_insertions(*capacity);
            let mut filter = builder.growth_factor(GROWTH).tightening_ratio(TIGHTENING).build();
            std::mem::take(sample).iter().for_each(|fingerprint| _ = filter.insert(fingerprint.0));
            filter
        })
    }
}

impl SeenPartition for BloomPartition {
    fn position(&self) -> Option<IndexCheckpoint> {
        self.position
    }

    fn read_back(&mut self, at: IndexCheckpoint, batch: &SeenBatch) -> Result<(), SeenError> {
        if self.position.is_some_and(|known| at.offset <= known.offset) {
            return Ok(());
        }
        self.position = Some(at);
        self.records_read += 1;
        self.insert(&batch.entries);
        if self.sample.len() >= SAMPLE {
            self.filter();
        }
        Ok(())
    }

    fn serve(&mut self) -> Result<(), SeenError> {
        self.filter();
        Ok(())
    }

    fn acknowledge(&mut self, entries: &[SeenEntry], _: u64) -> Result<(), SeenError> {
        self.insert(entries);
        Ok(())
    }

    fn depth_of(&mut self, fingerprint: Fingerprint) -> Result<Option<u16>, SeenError> {
        let known = self.filter().contains(fingerprint.0);
        self.lookups.count(known);
        self.lookups.unverified += u64::from(known);
        Ok(known.then_some(0))
    }

    fn stats(&self) -> IndexStats {
        let (lookups, entries) = (self.lookups, self.len() as u64);
        IndexStats { lookups, entries, filter_bytes: self.bytes(), ..IndexStats::default() }
    }
}

/// Returns the error of the first filter: the errors of all form a geometric series.
fn first_error() -> f64 {
    FALSE_POSITIVES * (1.0 - TIGHTENING)
}

#[cfg(test)]
mod tests {
    use orbweaver_url::CrawlName;

    use super::*;

    fn entry(number: usize) -> SeenEntry {
        SeenEntry { slot: 0, depth: 4, fingerprint: Fingerprint::of(&CrawlName::default(), &number.to_string()) }
    }

    /// Restores a partition of `records` records with `each` entries each; the log reports `reported` records.
    fn restored(records: usize, each: usize, reported: u64) -> BloomPartition {
        let mut partition = BloomPartition::new(reported);
        for record in 0..records {
            let batch = SeenBatch { entries: (record * each..(record + 1) * each).map(entry).collect() };
            partition.read_back(IndexCheckpoint::of(record as u64, 1, b"value"), &batch).unwrap();
        }
        partition.serve().unwrap();
        partition
    }

    fn is_known(partition: &mut BloomPartition, number: usize) -> bool {
        partition.depth_of(entry(number).fingerprint).unwrap() == Some(0)
    }

    #[test]
    fn every_admitted_url_is_known_and_about_one_in_a_million_others() {
        for reported in [2_000, 1] {
            let mut partition = restored(2_000, 500, reported);
            assert!((0..1_000_000).all(|number| is_known(&mut partition, number)));
            let wrong = (1_000_000..3_000_000).filter(|number| is_known(&mut partition, *number)).count();
            assert!(wrong <= 10, "{wrong} of two million; {reported} records were reported");
            assert!(partition.len() > 999_990);
        }
    }

    #[test]
    fn a_filter_is_sized_by_the_records_of_the_log() {
        let mut partition = restored(2_000, 500, 2_000);
        let bytes = partition.bytes();
        assert!((4_000_000..6_000_000).contains(&bytes), "{bytes}");
        assert_eq!(partition.capacity, 1_250_000);
        // Growth after that is by further filters.
        (1_000_000..1_300_000).for_each(|number| partition.acknowledge(&[entry(number)], 0).unwrap());
        assert!(partition.bytes() > 2 * bytes);
    }

    #[test]
    fn a_record_read_back_twice_counts_once_and_an_empty_log_costs_half_a_megabyte() {
        let mut partition = BloomPartition::new(0);
        partition.serve().unwrap();
        assert_eq!((partition.len(), partition.depth_of(entry(1).fingerprint).unwrap()), (0, None));
        partition.acknowledge(&[entry(1)], 0).unwrap();
        let (at, batch) = (IndexCheckpoint::of(0, 1, b"value"), SeenBatch { entries: vec![entry(1)] });
        (0..2).for_each(|_| partition.read_back(at, &batch).unwrap());
        assert_eq!((partition.len(), partition.records_read, partition.position()), (1, 1, Some(at)));
        assert!((400_000..600_000).contains(&partition.bytes()), "{}", partition.bytes());
    }
}
