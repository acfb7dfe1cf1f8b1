//! A forest of decision trees, read from its bytes.

/// Bit of a child that is a leaf.
const LEAF: u8 = 0x80;

/// An inner node: left for values up to the threshold, right for others.
#[derive(Debug, Clone, Copy)]
struct Node {
    threshold: f32,
    feature: u8,
    children: [u8; 2],
}

/// A sum of trees, as a logit.
#[derive(Debug)]
pub(crate) struct Forest {
    base: f32,
    nodes: Vec<Node>,
    leaves: Vec<f32>,
    /// Starts of each tree among the nodes and the leaves.
    starts: Vec<(u32, u32)>,
    /// Number of values that the trees compare.
    width: usize,
}

impl Forest {
    /// Reads a forest. Returns `None` if the bytes are not one.
    ///
    /// Little-endian: the base as `f32`, the number of trees as `u16`; per tree the number of nodes as `u8`, its nodes
    /// (value `u8`, threshold `f32`, children `u8` each) and one more leaf than nodes, as `f32`. A child from 128 on is
    /// a leaf; other children come after their parent, so that each walk ends.
    pub(crate) fn read(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let mut forest = Self { base: float(bytes)?, nodes: vec![], leaves: vec![], starts: vec![], width: 0 };
        let trees = u16::from_le_bytes([byte(bytes)?, byte(bytes)?]);
        for _ in 0..trees {
            forest.starts.push((forest.nodes.len() as u32, forest.leaves.len() as u32));
            let nodes = byte(bytes).filter(|nodes| (1..LEAF).contains(nodes))?;
            for at in 0..nodes {
                let (feature, threshold) = (byte(bytes)?, float(bytes)?);
                let children = [byte(bytes)?, byte(bytes)?];
                let is_valid =
                    |child: u8| if child < LEAF { child > at && child < nodes } else { child - LEAF <= nodes };
                if !children.into_iter().all(is_valid) {
                    return None;
                }
                forest.width = forest.width.max(usize::from(feature) + 1);
                forest.nodes.push(Node { threshold, feature, children });
            }
            for _ in 0..=nodes {
                forest.leaves.push(float(bytes)?);
            }
        }
        bytes.is_empty().then_some(forest)
    }

    /// Returns the probability for a row of values, 0 for a row that is too short.
    pub(crate) fn probability(&self, row: &[f32]) -> f32 {
        if row.len() < self.width {
            return 0.0;
        }
        let sum: f32 = self.starts.iter().map(|start| self.leaf(*start, row)).sum();
        1.0 / (1.0 + (-(self.base + sum)).exp())
    }

    fn leaf(&self, (nodes, leaves): (u32, u32), row: &[f32]) -> f32 {
        let mut at = 0;
        while let Some(node) = self.nodes.get(nodes as usize + at) {
            let child = node.children[usize::from(row[usize::from(node.feature)] > node.threshold)];
            if child >= LEAF {
                at = usize::from(child - LEAF);
                break;
            }
            at = usize::from(child);
        }
        self.leaves.get(leaves as usize + at).copied().unwrap_or_default()
    }
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

fn float(bytes: &mut &[u8]) -> Option<f32> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(f32::from_le_bytes(*first)).filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vec<u8> {
        let mut bytes = 0.0_f32.to_le_bytes().to_vec();
        bytes.extend([1, 0, 2]);
        bytes.push(1);
        bytes.extend(5.0_f32.to_le_bytes());
        bytes.extend([0x80, 1]);
        bytes.push(0);
        bytes.extend(1.0_f32.to_le_bytes());
        bytes.extend([0x81, 0x82]);
        bytes.extend([-2.0_f32, 0.0, 2.0].iter().flat_map(|leaf| leaf.to_le_bytes()));
        bytes
    }

    #[test]
    fn a_row_reaches_the_leaf_that_its_values_lead_to() {
        let forest = Forest::read(&bytes()).expect("a forest");
        let near = |row: &[f32], wanted: f32| (forest.probability(row) - wanted).abs() < 1e-3;
        assert!(near(&[9.0, 5.0], 0.119) && near(&[1.0, 6.0], 0.5) && near(&[1.1, 6.0], 0.881));
        assert!(near(&[9.0], 0.0));
    }

    #[test]
    fn bytes_that_are_no_forest_are_refused() {
        let good = bytes();
        assert!((0..good.len()).all(|end| Forest::read(&good[..end]).is_none()));
        for (at, value) in [(13, 0), (13, 2), (20, 0x83), (6, 0xff)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(Forest::read(&bad).is_none(), "byte {at}");
        }
    }

    #[test]
    fn the_models_are_forests() {
        assert!(crate::choice::models_are_read());
    }
}
