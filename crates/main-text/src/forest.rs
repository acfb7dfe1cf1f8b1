//! A forest of small decision trees, read from its bytes.
//!
//! Trees are not walked from node to node, which the processor cannot predict. Instead the conditions of all trees are
//! sorted by value and threshold; each that holds removes the leaves on its other side, and the first leaf that remains
//! of a tree is the one that a walk would reach (QuickScorer, Lucchese et al. 2015).

use std::ops::Range;

/// Maximum number of leaves of a tree: one bit each.
const MAX_LEAVES: usize = 16;

/// A condition, at a node of a tree.
#[derive(Debug, Clone, Copy)]
struct Condition {
    /// The condition holds for values above it.
    threshold: f32,
    tree: u16,
    /// Leaves that remain possible.
    leaves: u16,
}

/// A sum of trees, as a logit.
#[derive(Debug)]
pub(crate) struct Forest {
    base: f32,
    /// Conditions on each value that has any, by threshold.
    values: Vec<(usize, Range<usize>)>,
    conditions: Vec<Condition>,
    leaves: Vec<[f32; MAX_LEAVES]>,
    /// Number of values that are compared.
    width: usize,
}

impl Forest {
    /// Reads a forest. Returns `None` if the bytes are not one.
    ///
    /// Little-endian: the base as `f32`, the number of trees as `u16`; per tree the number of nodes as `u8`, its nodes
    /// (index of the value `u8`, threshold `f32`, leaves that remain `u16`) and one more leaf than nodes, as `f32`, from
    /// left to right.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let mut forest = Self { base: float(bytes)?, values: vec![], conditions: vec![], leaves: vec![], width: 0 };
        let mut all: Vec<(u8, Condition)> = vec![];
        for tree in 0..short(bytes)? {
            let nodes = byte(bytes).filter(|nodes| usize::from(*nodes) < MAX_LEAVES)?;
            for _ in 0..nodes {
                let (value, threshold) = (byte(bytes)?, float(bytes)?);
                all.push((value, Condition { threshold, tree, leaves: short(bytes)? }));
            }
            let mut leaves = [0.0; MAX_LEAVES];
            for leaf in leaves.iter_mut().take(usize::from(nodes) + 1) {
                *leaf = float(bytes)?;
            }
            forest.leaves.push(leaves);
        }
        all.sort_by(|(value, one), (other, two)| value.cmp(other).then(one.threshold.total_cmp(&two.threshold)));
        forest.width = all.last().map_or(0, |(value, _)| usize::from(*value) + 1);
        for group in all.chunk_by(|(value, _), (other, _)| value == other) {
            let start = forest.conditions.len();
            forest.conditions.extend(group.iter().map(|(_, condition)| *condition));
            let value = group.first().map(|(value, _)| usize::from(*value))?;
            forest.values.push((value, start..forest.conditions.len()));
        }
        bytes.is_empty().then_some(forest)
    }

    /// Returns the probability for a row of values, 0 for a row that is too short. `room` is reused from row to row.
    pub(crate) fn probability(&self, row: &[f32], room: &mut Vec<u16>) -> f32 {
        if row.len() < self.width {
            return 0.0;
        }
        room.clear();
        room.resize(self.leaves.len(), u16::MAX);
        for (value, conditions) in &self.values {
            let value = row[*value];
            for condition in &self.conditions[conditions.clone()] {
                if value <= condition.threshold {
                    break;
                }
                room[usize::from(condition.tree)] &= condition.leaves;
            }
        }
        let leaf = |(left, leaves): (&u16, &[f32; MAX_LEAVES])| leaves.get(left.trailing_zeros() as usize).copied();
        let sum: f32 = room.iter().zip(&self.leaves).filter_map(leaf).sum();
        1.0 / (1.0 + (-(self.base + sum)).exp())
    }
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn short(bytes: &mut &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes([byte(bytes)?, byte(bytes)?]))
}

fn float(bytes: &mut &[u8]) -> Option<f32> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(f32::from_le_bytes(*first)).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tree: value 1 up to 5 leads to the first leaf; above it, value 0 decides between the others.
    fn bytes() -> Vec<u8> {
        let mut bytes = 0.0_f32.to_le_bytes().to_vec();
        bytes.extend([1, 0, 2, 1]);
        bytes.extend(5.0_f32.to_le_bytes());
        bytes.extend([0b110, 0, 0]);
        bytes.extend(1.0_f32.to_le_bytes());
        bytes.extend([0b101, 0]);
        bytes.extend([-2.0_f32, 0.0, 2.0].iter().flat_map(|leaf| leaf.to_le_bytes()));
        bytes
    }

    #[test]
    fn a_row_reaches_the_leaf_that_its_values_lead_to() {
        let forest = Forest::read(&bytes()).expect("a forest");
        let near = |row: &[f32], wanted: f32| (forest.probability(row, &mut vec![]) - wanted).abs() < 1e-3;
        assert!(near(&[9.0, 5.0], 0.119) && near(&[1.0, 6.0], 0.5) && near(&[1.1, 6.0], 0.881));
        assert!(near(&[9.0], 0.0));
    }

    #[test]
    fn bytes_that_are_no_forest_are_refused() {
        let good = bytes();
        assert!((0..good.len()).all(|end| Forest::read(&good[..end]).is_none()));
        let mut bad = good.clone();
        bad[6] = 0xff;
        assert!(Forest::read(&bad).is_none());
        bad = [&good[..], &[0]].concat();
        assert!(Forest::read(&bad).is_none());
    }

    #[test]
    fn the_models_are_forests() {
        assert!(crate::choice::models_are_read());
    }
}
