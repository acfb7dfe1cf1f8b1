//! Slots and partitions: the placement of a site's records.

/// Number of slots, and maximum number of partitions.
pub const SLOTS: u16 = 16384;

/// Slot: `(murmur2(site) & 0x7fffffff) % 16384`. It does not change when the partition count is doubled.
pub type Slot = u16;

/// Returns the slot of a site. Consistent with a Java producer's default partitioner: for a power of two `P` up to
/// 16384, `(h % 16384) % P = h % P`.
#[must_use]
pub fn slot_of(site: &str) -> Slot {
    let hash = murmur2(site.as_bytes()) & 0x7fff_ffff;
    // The remainder is below 16384, so nothing is truncated.
    (hash % u32::from(SLOTS)) as Slot
}

/// Returns the partition of a slot; `partitions` is a power of two up to [`SLOTS`].
#[must_use]
pub fn partition_of(slot: Slot, partitions: u32) -> u32 {
    u32::from(slot) % partitions.max(1)
}

/// Computes MurmurHash2, 32 bits (Austin Appleby), with Kafka's seed (`org.apache.kafka.common.utils.Utils#murmur2`).
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    // Kafka uses the length as a 32-bit integer.
    let mut hash = SEED ^ data.len() as u32;
    let mut words = data.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k = (k ^ (k >> R)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn murmur2_is_the_one_of_kafka() {
        // From Kafka's own UtilsTest (Apache-2.0).
        let known: [(&[u8], i32); 6] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
        ];
        for (data, hash) in known {
            assert_eq!(murmur2(data).cast_signed(), hash, "{}", String::from_utf8_lossy(data));
        }
    }

    proptest! {
        #[test]
        fn a_slot_gives_the_partition_that_the_default_partitioner_gives(site in ".{0,40}", power in 0u32..=14) {
            let partitions = 1 << power;
            let hash = murmur2(site.as_bytes()) & 0x7fff_ffff;
            prop_assert_eq!(partition_of(slot_of(&site), partitions), hash % partitions);
        }

        #[test]
        fn doubling_the_partitions_splits_each_in_two(slot in 0..SLOTS, power in 0u32..14) {
            let partitions = 1 << power;
            prop_assert_eq!(partition_of(slot, partitions * 2) % partitions, partition_of(slot, partitions));
        }
    }
}
