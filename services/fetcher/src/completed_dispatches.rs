//! Dispatches that have ended durably and are not requested again when redelivered.

use std::collections::HashMap;

use orbweaver_log::Partition;
use orbweaver_messages::{DispatchId, LEASE_MS, Millis};

/// Log2 of the number of sequence numbers per chunk.
const CHUNK_BITS: u32 = 9;
const WORDS: usize = (1 << CHUNK_BITS) / 64;

/// Set of ids, with one bit per id: the dispatches of a partition are numbered consecutively, so that a fast crawl,
/// which ends a million of them in two leases, takes about a quarter of a MiB. A chunk with a single bit set takes
/// about 100 bytes.
#[derive(Debug, Default)]
struct Ids(HashMap<(Partition, u64, u64), [u64; WORDS]>);

impl Ids {
    fn insert(&mut self, partition: Partition, id: DispatchId) {
        let (chunk, word, bit) = locate(id);
        self.0.entry((partition, id.epoch, chunk)).or_default()[word] |= bit;
    }

    fn contains(&self, partition: Partition, id: DispatchId) -> bool {
        let (chunk, word, bit) = locate(id);
        self.0.get(&(partition, id.epoch, chunk)).is_some_and(|words| words[word] & bit != 0)
    }
}

fn locate(id: DispatchId) -> (u64, usize, u64) {
    let low = id.sequence % (1 << CHUNK_BITS);
    (id.sequence >> CHUNK_BITS, (low / 64) as usize, 1 << (low % 64))
}

/// Ids of dispatches that ended within the last one to two leases, in two generations, so that expiry costs nothing per
/// id.
#[derive(Debug, Default)]
pub(crate) struct CompletedDispatches {
    young: Ids,
    old: Ids,
    /// Start of the young generation; `None` while it holds only ids read back from the log.
    began_ms: Option<Millis>,
}

impl CompletedDispatches {
    /// Adds a dispatch that ended according to the log.
    pub(crate) fn recall(&mut self, partition: Partition, id: DispatchId) {
        self.young.insert(partition, id);
    }

    /// Adds a dispatch that ended now.
    pub(crate) fn insert(&mut self, partition: Partition, id: DispatchId, now: Millis) {
        self.rotate(now);
        self.young.insert(partition, id);
    }

    /// Returns `true` if a dispatch is known to have ended. One that ended more than two leases ago is forgotten; its
    /// `expires_ms` has passed long before.
    pub(crate) fn contains(&self, partition: Partition, id: DispatchId) -> bool {
        self.young.contains(partition, id) || self.old.contains(partition, id)
    }

    /// Starts a new generation when the young one is a lease old, and drops the previous one.
    pub(crate) fn rotate(&mut self, now: Millis) {
        let age = now.saturating_sub(*self.began_ms.get_or_insert(now));
        if age >= 2 * LEASE_MS {
            self.young = Ids::default();
        }
        // A clock that stepped back starts a new generation too; otherwise the sets would grow until it has caught up.
        if age >= LEASE_MS || age <= -LEASE_MS {
            self.old = std::mem::take(&mut self.young);
            self.began_ms = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ids_are_a_set(ids in prop::collection::vec((0u32..3, 0u64..2, prop_oneof![0u64..2000, u64::MAX - 600..=u64::MAX]), 0..300)) {
            let (mut kept, mut model) = (Ids::default(), HashSet::new());
            for (partition, epoch, sequence) in ids {
                let id = DispatchId { epoch, sequence };
                prop_assert_eq!(kept.contains(partition, id), !model.insert((partition, id)));
                kept.insert(partition, id);
                prop_assert!(kept.contains(partition, id));
            }
        }
    }

    fn is_empty(ended: &CompletedDispatches) -> bool {
        ended.young.0.is_empty() && ended.old.0.is_empty()
    }

    fn id(sequence: u64) -> DispatchId {
        DispatchId { epoch: 1, sequence }
    }

    #[test]
    fn an_id_is_known_for_at_least_a_lease_and_forgotten_after_two() {
        let mut ended = CompletedDispatches::default();
        ended.insert(3, id(0), 1_000_000);
        ended.insert(3, id(1), 1_000_000 + LEASE_MS - 1);
        ended.rotate(1_000_000 + LEASE_MS);
        assert!(ended.contains(3, id(0)) && ended.contains(3, id(1)) && !ended.contains(4, id(0)));
        ended.rotate(1_000_000 + 2 * LEASE_MS);
        assert!(is_empty(&ended));
        ended.insert(3, id(2), 5_000_000);
        ended.rotate(5_000_000 + 2 * LEASE_MS);
        assert!(is_empty(&ended), "nothing survives a pause of two leases");
    }

    #[test]
    fn what_was_read_back_is_kept_for_a_lease_from_the_first_moment_on() {
        let mut ended = CompletedDispatches::default();
        ended.recall(0, id(0));
        ended.insert(0, id(1), 9_000_000);
        ended.rotate(9_000_000 + LEASE_MS);
        assert!(ended.contains(0, id(0)) && ended.contains(0, id(1)));
        ended.rotate(9_000_000 + 2 * LEASE_MS);
        assert!(is_empty(&ended));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_keep_ids_for_ever() {
        let mut ended = CompletedDispatches::default();
        ended.insert(0, id(0), 9_000_000);
        ended.rotate(1_000_000);
        ended.rotate(1_000_000 + LEASE_MS);
        assert!(is_empty(&ended));
    }
}
