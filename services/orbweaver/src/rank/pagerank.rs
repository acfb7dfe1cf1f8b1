//! PageRank by power iteration (Page, Brin, Motwani and Winograd, 1999). Pure.

/// Settings of the iteration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    /// Probability with which the random surfer follows an edge, 0 to 1.
    pub(super) damping: f64,
    /// Sum of the changes of all ranks below which the iteration has converged.
    pub(super) tolerance: f64,
    /// Maximum number of iterations.
    pub(super) max_iterations: u32,
}

/// Ranks, and how they were found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Ranks {
    /// Rank of each node: the probability that the surfer is there. Their sum is 1.
    pub(super) ranks: Vec<f64>,
    /// Number of iterations.
    pub(super) iterations: u32,
    /// Sum of the changes of all ranks in the last iteration.
    pub(super) change: f64,
    /// Whether the tolerance was reached.
    pub(super) has_converged: bool,
}

/// Ranks the nodes of a graph by its edges, which are in ascending order and lead to different nodes. From a node without
/// edges the surfer continues at any node, each with the same probability. `each` gets the number of each iteration and its change.
#[allow(clippy::cast_precision_loss, reason = "numbers of nodes and edges")]
pub(super) fn pagerank(
    nodes: usize,
    edges: &[(u32, u32)],
    settings: Settings,
    mut each: impl FnMut(u32, f64),
) -> Ranks {
    let Settings { damping, tolerance, max_iterations } = settings;
    let mut degree = vec![0_u32; nodes];
    edges.iter().for_each(|(from, _)| degree[*from as usize] += 1);
    let uniform = 1.0 / nodes.max(1) as f64;
    let (mut ranks, mut next) = (vec![uniform; nodes], vec![0.0; nodes]);
    let (mut iterations, mut change, mut has_converged) = (0, 0.0, nodes == 0);
    while !has_converged && iterations < max_iterations {
        let ends = ranks.iter().zip(&degree).filter(|(_, degree)| **degree == 0);
        let lost: f64 = ends.map(|(rank, _)| rank).sum();
        next.fill((1.0 - damping + damping * lost) * uniform);
        for (from, to) in edges {
            next[*to as usize] += damping * ranks[*from as usize] / f64::from(degree[*from as usize]);
        }
        // Rounding errors do not add up over the iterations.
        let sum: f64 = next.iter().sum();
        next.iter_mut().for_each(|rank| *rank /= sum);
        change = ranks.iter().zip(&next).map(|(before, after)| (before - after).abs()).sum();
        std::mem::swap(&mut ranks, &mut next);
        iterations += 1;
        has_converged = change <= tolerance;
        each(iterations, change);
    }
    Ranks { ranks, iterations, change, has_converged }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SETTINGS: Settings = Settings { damping: 0.85, tolerance: 1e-12, max_iterations: 1000 };

    fn ranks(nodes: usize, edges: &[(u32, u32)]) -> Vec<f64> {
        let ranks = pagerank(nodes, edges, SETTINGS, |_, _| {});
        assert!(ranks.has_converged);
        ranks.ranks
    }

    fn assert_near(ranks: &[f64], expected: &[f64]) {
        assert!(ranks.iter().zip(expected).all(|(rank, expected)| (rank - expected).abs() < 1e-9), "{ranks:?}");
    }

    #[test]
    fn nodes_that_are_alike_have_the_same_rank_and_no_node_none() {
        assert_eq!(ranks(0, &[]), [0.0; 0]);
        assert_near(&ranks(1, &[]), &[1.0]);
        assert_near(&ranks(3, &[(0, 1), (1, 2), (2, 0)]), &[1.0 / 3.0; 3]);
        assert_near(&ranks(4, &[]), &[0.25; 4]);
    }

    #[test]
    fn the_ranks_satisfy_the_equations_of_a_small_graph() {
        // 0 -> 1, 0 -> 2, 1 -> 2; from 2 the surfer continues anywhere.
        let (a, d) = (ranks(3, &[(0, 1), (0, 2), (1, 2)]), 0.85);
        let base = (1.0 - d) / 3.0 + d * a[2] / 3.0;
        assert_near(&a, &[base, base + d * a[0] / 2.0, base + d * (a[0] / 2.0 + a[1])]);
    }

    #[test]
    fn an_iteration_that_is_cut_off_has_not_converged() {
        let settings = Settings { max_iterations: 2, ..SETTINGS };
        let mut seen = vec![];
        let ranks = pagerank(3, &[(0, 1), (0, 2), (1, 2)], settings, |number, change| seen.push((number, change)));
        assert_eq!((ranks.has_converged, ranks.iterations, seen.len()), (false, 2, 2));
        assert!(seen[1].1 < seen[0].1 && (ranks.change - seen[1].1).abs() < f64::EPSILON, "{seen:?}");
    }

    proptest! {
        #[test]
        fn ranks_are_probabilities_and_a_change_shrinks_at_least_by_the_damping(
            edges in prop::collection::btree_set((0_u32..20, 0_u32..20), 0..60),
        ) {
            let edges: Vec<_> = edges.into_iter().filter(|(from, to)| from != to).collect();
            let mut changes = vec![];
            let ranks = pagerank(20, &edges, SETTINGS, |_, change| changes.push(change)).ranks;
            prop_assert!((ranks.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            prop_assert!(ranks.iter().all(|rank| *rank >= 0.15 / 20.0 - 1e-12));
            prop_assert!(changes.windows(2).all(|pair| pair[1] <= pair[0] * 0.85 + 1e-12), "{:?}", changes);
        }
    }
}
