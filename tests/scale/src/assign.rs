//! Assignment of partitions to the members of a group, and the partitions that move when members change.
//!
//! A member is a number. An assignment lists the owner of each partition.

use std::collections::BTreeMap;

/// Brokers' assignor `range`, which the services use: it keeps partition N of all topics of a group in one member.
/// Consecutive partitions in the order of `members`; the first get one more. Kafka 4 sorts static members by instance
/// ID, others by a random member ID, and ignores the previous assignment.
#[must_use]
pub fn range(members: &[u32], partitions: u32) -> Vec<u32> {
    let count = members.len().max(1) as u32;
    let (each, more) = (partitions / count, partitions % count);
    let sizes = members.iter().enumerate().map(|(at, &member)| (member, each + u32::from((at as u32) < more)));
    sizes.flat_map(|(member, size)| std::iter::repeat_n(member, size as usize)).collect()
}

/// Naive assignment: partition number modulo number of members.
#[must_use]
pub fn modulo(members: &[u32], partitions: u32) -> Vec<u32> {
    (0..partitions).filter_map(|partition| members.get(partition as usize % members.len().max(1)).copied()).collect()
}

/// Balanced assignment that moves as few partitions as possible, like the brokers' assignor `uniform` for one topic.
#[must_use]
pub fn sticky(previous: &[u32], members: &[u32]) -> Vec<u32> {
    let mut room = quotas(previous, members);
    let mut assignment = vec![None; previous.len()];
    for (now, owner) in assignment.iter_mut().zip(previous) {
        if let Some(room) = room.get_mut(owner).filter(|room| **room > 0) {
            *room -= 1;
            *now = Some(*owner);
        }
    }
    let mut free = room.into_iter().flat_map(|(member, room)| std::iter::repeat_n(member, room as usize));
    assignment.into_iter().filter_map(|owner| owner.or_else(|| free.next())).collect()
}

/// Returns the number of partitions of each member in a balanced assignment. Members that have most get the extra ones.
fn quotas(previous: &[u32], members: &[u32]) -> BTreeMap<u32, u32> {
    let mut have: BTreeMap<u32, u32> = members.iter().map(|&member| (member, 0)).collect();
    for owner in previous {
        if let Some(have) = have.get_mut(owner) {
            *have += 1;
        }
    }
    let mut most: Vec<_> = have.into_iter().map(|(member, have)| (std::cmp::Reverse(have), member)).collect();
    most.sort_unstable();
    let (count, partitions) = (members.len().max(1) as u32, previous.len() as u32);
    let (each, more) = (partitions / count, partitions % count);
    most.iter().enumerate().map(|(at, &(_, member))| (member, each + u32::from((at as u32) < more))).collect()
}

/// Returns the least number of partitions that must move so that the counts of `members` differ by one at most.
#[must_use]
pub fn least(previous: &[u32], members: &[u32]) -> usize {
    let mut room = quotas(previous, members);
    let kept = previous.iter().filter(|owner| match room.get_mut(owner) {
        Some(room) if *room > 0 => {
            *room -= 1;
            true
        }
        _ => false,
    });
    previous.len() - kept.count()
}

/// Returns the number of partitions with another owner.
#[must_use]
pub fn moved(before: &[u32], after: &[u32]) -> usize {
    before.iter().zip(after).filter(|(before, after)| before != after).count()
}

/// Assignors that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignor {
    Sticky,
    Range,
    Modulo,
}

impl Assignor {
    /// Returns the assignment of `members`, in the order in which the brokers sort them.
    #[must_use]
    pub fn assign(self, previous: &[u32], members: &[u32]) -> Vec<u32> {
        match self {
            Self::Sticky => sticky(previous, members),
            Self::Range => range(members, previous.len() as u32),
            Self::Modulo => modulo(members, previous.len() as u32),
        }
    }

    /// Returns the moves of a rolling restart of members without instance IDs: one after another leaves, and returns at
    /// a place in the order given by `place`.
    pub fn rolling(self, partitions: u32, count: u32, mut place: impl FnMut(usize) -> usize) -> usize {
        let mut members: Vec<u32> = (0..count).collect();
        let (mut owners, mut moves) = (range(&members, partitions), 0);
        for old in 0..count {
            members.retain(|&member| member != old);
            let without = self.assign(&owners, &members);
            members.insert(place(members.len()), count + old);
            let with = self.assign(&without, &members);
            moves += moved(&owners, &without) + moved(&without, &with);
            owners = with;
        }
        moves
    }
}
