//! Items of several owners, in proportion to shares and weights. Pure.

use std::collections::{BTreeMap, BTreeSet};

/// Distance between two turns at a weight of 1, in virtual time.
const STRIDE: u64 = 1 << 20;

/// Queues of items, one for each owner. Owners get turns in proportion to their shares, and the items of an owner in
/// proportion to their weights: none waits indefinitely, however many others there are. Items of equal weight remain in
/// order.
///
/// Both levels are stride scheduling (Waldspurger and Weihl, 1995): the lowest virtual time is next, and advances by a
/// constant divided by the share or weight. An owner or item that joins is treated as if its last turn had just ended.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    owners: BTreeMap<K, Owner<T>>,
    /// Owners, by the virtual time of their next turn.
    turns: BTreeSet<(Turn, K)>,
    /// Virtual time of the last turn.
    now: u64,
    /// Number of turns and items so far, which orders those of equal virtual time.
    sequence: u64,
    len: usize,
}

/// Virtual time, and the number that orders equal times.
type Turn = (u64, u64);

#[derive(Debug)]
struct Owner<T> {
    share: u32,
    turn: Turn,
    /// Items, by virtual time. In a heap of very many, nearly every step of a removal is at an address that
    /// no cache has; here items leave at one end, and join where the last one of their weight did.
    items: BTreeMap<Turn, T>,
    /// Virtual time of the last item.
    now: u64,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        Self { owners: BTreeMap::new(), turns: BTreeSet::new(), now: 0, sequence: 0, len: 0 }
    }
}

impl<K: Clone + Ord, T> FairQueue<K, T> {
    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the owners with items, the next one first.
    pub fn owners(&self) -> impl Iterator<Item = &K> {
        self.turns.iter().map(|(_, owner)| owner)
    }

    /// Returns the items of the next owner, in order.
    pub fn upcoming(&self) -> impl Iterator<Item = &T> {
        let owner = self.turns.first().and_then(|(_, owner)| self.owners.get(owner));
        owner.into_iter().flat_map(|owner| owner.items.values())
    }

    /// Adds an item of this weight to those of its owner. The share applies from the owner's next turn on. A share or
    /// weight of 0 counts as 1.
    pub fn push(&mut self, (owner, share): (&K, u32), item: T, weight: u32) {
        self.len += 1;
        let number = self.next_number();
        let now = self.now;
        let known = if let Some(known) = self.owners.get_mut(owner) {
            known
        } else {
            let turn = (now + stride(share), number);
            self.turns.insert((turn, owner.clone()));
            self.owners.entry(owner.clone()).or_insert(Owner { share, turn, items: BTreeMap::new(), now: 0 })
        };
        known.share = share;
        known.items.insert((known.now + stride(weight), number), item);
    }

    /// Removes and returns the next item.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_of(|_| true)
    }

    /// Removes and returns the next item of the owners that `may` accepts; all others remain next.
    pub fn pop_of(&mut self, may: impl Fn(&K) -> bool) -> Option<T> {
        let next = self.turns.iter().find(|(_, owner)| may(owner))?.clone();
        self.turns.remove(&next);
        let (turn, owner) = next;
        let number = self.next_number();
        let known = self.owners.get_mut(&owner)?;
        let ((time, _), item) = known.items.pop_first()?;
        known.now = time;
        self.len -= 1;
        // Never backwards: an owner that was passed over for long is behind the others.
        self.now = self.now.max(turn.0);
        if known.items.is_empty() {
            self.owners.remove(&owner);
        } else {
            known.turn = (self.now + stride(known.share), number);
            self.turns.insert((known.turn, owner));
        }
        Some(item)
    }

    fn next_number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

fn stride(share: u32) -> u64 {
    STRIDE / u64::from(share.max(1))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const EQUAL: u32 = 100;

    #[test]
    fn owners_alternate_and_the_items_of_each_keep_their_order() {
        let mut items = FairQueue::default();
        (0..1000).for_each(|number| items.push((&"large", EQUAL), number, EQUAL));
        assert_eq!(items.pop(), Some(0));
        for (owner, number) in [("small", 2000), ("small", 2001), ("other", 3000)] {
            items.push((&owner, EQUAL), number, EQUAL);
        }
        assert_eq!(std::iter::from_fn(|| items.pop()).take(6).collect::<Vec<_>>(), [1, 2000, 3000, 2, 2001, 3]);
        assert_eq!(items.len(), 996);
        assert_eq!(std::iter::from_fn(|| items.pop()).count(), 996);
        assert!(items.is_empty() && items.owners.is_empty() && items.turns.is_empty());
    }

    #[test]
    fn the_upcoming_items_are_those_that_the_next_owner_has_next() {
        let mut items = FairQueue::default();
        assert_eq!(items.upcoming().count(), 0);
        for (number, weight) in [(1, 10), (2, 100), (3, 50), (4, 100)] {
            items.push((&"a", EQUAL), number, weight);
        }
        assert!(items.upcoming().eq(&[2, 4, 3, 1]));
        items.push((&"b", EQUAL), 5, EQUAL);
        assert_eq!(items.pop(), Some(2));
        assert!(items.upcoming().eq(&[5]));
        assert_eq!(std::iter::from_fn(|| items.pop()).collect::<Vec<_>>(), [5, 4, 3, 1]);
    }

    #[test]
    fn an_owner_that_may_not_take_its_turn_keeps_it_and_catches_up_with_nothing() {
        let mut items = FairQueue::default();
        for (owner, number) in [("a", 1), ("b", 2), ("b", 3), ("c", 4)] {
            items.push((&owner, EQUAL), number, EQUAL);
        }
        assert_eq!(items.pop_of(|owner| *owner != "a"), Some(2));
        assert_eq!(items.pop_of(|owner| *owner != "a"), Some(4));
        assert_eq!(items.pop(), Some(1));
        assert_eq!(items.pop_of(|owner| *owner == "a"), None);
        assert_eq!(items.pop(), Some(3));
        (0..100).for_each(|number| items.push((&"a", EQUAL), number, EQUAL));
        (100..200).for_each(|number| items.push((&"b", EQUAL), number, EQUAL));
        (0..50).for_each(|_| assert!(items.pop_of(|owner| *owner == "b").is_some()));
        let next: Vec<_> = std::iter::from_fn(|| items.pop()).take(20).collect();
        assert!(next.iter().filter(|number| **number < 100).count() <= 11, "{next:?}");
    }

    #[test]
    fn turns_are_in_proportion_to_shares_also_of_an_owner_with_one_item_at_a_time() {
        let mut items = FairQueue::default();
        for number in 0..3000 {
            items.push((&"a", 100), ("a", number), EQUAL);
            items.push((&"b", 300), ("b", number), EQUAL);
        }
        items.push((&"one", 200), ("one", 0), EQUAL);
        let mut turns = HashMap::<_, u32>::new();
        for _ in 0..1200 {
            let (owner, number) = items.pop().unwrap();
            *turns.entry(owner).or_default() += 1;
            if owner == "one" {
                items.push((&"one", 200), ("one", number), EQUAL);
            }
        }
        assert!(
            turns["a"].abs_diff(200) < 4 && turns["b"].abs_diff(600) < 4 && turns["one"].abs_diff(400) < 4,
            "{turns:?}"
        );
    }

    #[test]
    fn items_that_return_come_in_proportion_to_their_weights_and_the_lightest_is_not_starved() {
        let mut items = FairQueue::default();
        let weights = [1, 50, 100, 400];
        weights.iter().for_each(|weight| items.push((&(), 1), *weight, *weight));
        let mut turns = HashMap::<_, u32>::new();
        for _ in 0..5510 {
            let weight = items.pop().unwrap();
            *turns.entry(weight).or_default() += 1;
            items.push((&(), 1), weight, weight);
        }
        for weight in weights {
            assert!(turns[&weight].abs_diff(weight * 10) <= 2 + weight / 10, "{turns:?}");
        }
    }
}
