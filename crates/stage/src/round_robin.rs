//! Items of several owners that take turns. Pure.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
};

/// Queues of items, one for each owner. The owners alternate, however many items each has; items of one owner remain in
/// order.
#[derive(Debug)]
pub struct RoundRobin<K, T> {
    items: HashMap<K, VecDeque<T>>,
    /// Owners with items, in the order of their next turn.
    turns: VecDeque<K>,
    len: usize,
}

impl<K, T> Default for RoundRobin<K, T> {
    fn default() -> Self {
        Self { items: HashMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

impl<K: Clone + Eq + Hash, T> RoundRobin<K, T> {
    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the owners with items.
    pub fn owners(&self) -> impl Iterator<Item = &K> {
        self.turns.iter()
    }

    /// Adds an item as the last of its owner.
    pub fn push(&mut self, owner: &K, item: T) {
        self.len += 1;
        if let Some(items) = self.items.get_mut(owner) {
            items.push_back(item);
            return;
        }
        self.items.insert(owner.clone(), [item].into());
        self.turns.push_back(owner.clone());
    }

    /// Removes and returns the next item.
    pub fn pop(&mut self) -> Option<T> {
        self.pop_of(|_| true)
    }

    /// Removes and returns the next item of the owners that `may` accepts; all others remain next.
    pub fn pop_of(&mut self, may: impl Fn(&K) -> bool) -> Option<T> {
        let turn = self.turns.iter().position(may)?;
        let owner = self.turns.remove(turn)?;
        let items = self.items.get_mut(&owner)?;
        let item = items.pop_front();
        if items.is_empty() {
            self.items.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        self.len -= usize::from(item.is_some());
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_alternate_and_the_items_of_each_keep_their_order() {
        let mut items = RoundRobin::default();
        (0..1000).for_each(|number| items.push(&"large", number));
        assert_eq!(items.pop(), Some(0));
        for (owner, number) in [("small", 2000), ("small", 2001), ("other", 3000)] {
            items.push(&owner, number);
        }
        assert_eq!(std::iter::from_fn(|| items.pop()).take(6).collect::<Vec<_>>(), [1, 2000, 3000, 2, 2001, 3]);
        assert_eq!(items.len(), 996);
        assert_eq!(std::iter::from_fn(|| items.pop()).count(), 996);
        assert!(items.is_empty() && items.items.is_empty() && items.turns.is_empty());
    }

    #[test]
    fn an_owner_that_may_not_take_its_turn_keeps_it() {
        let mut items = RoundRobin::default();
        for (owner, number) in [("a", 1), ("b", 2), ("b", 3), ("c", 4)] {
            items.push(&owner, number);
        }
        assert_eq!(items.pop_of(|owner| *owner != "a"), Some(2));
        assert_eq!(items.pop_of(|owner| *owner != "a"), Some(4));
        assert_eq!(items.pop(), Some(1));
        assert_eq!(items.pop_of(|owner| *owner == "a"), None);
        assert_eq!(items.pop(), Some(3));
    }
}
