//! Weights of sites by their ranks. Pure.

use orbweaver_url::SiteName;

use super::{graph::SiteGraph, pagerank::Ranks};

/// Minimum and maximum of a weight, in percent: no site is served more than ten times as often as one of mean rank, or less than a
/// tenth as often.
const WEIGHTS: std::ops::RangeInclusive<f64> = 10.0..=1000.0;

/// Site with its rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RankedSite {
    pub(super) site: SiteName,
    pub(super) rank: f64,
    /// Weight by this rank, in percent.
    pub(super) weight: u32,
    /// Number of sites that link to it.
    pub(super) links_in: u32,
    /// Number of sites that it links to.
    pub(super) links_out: u32,
}

/// Returns the weight of a rank among this number of sites, in percent: 100 for the mean, and else with the square root, since ranks
/// differ by factors of thousands.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "10 to 1000")]
fn weight(rank: f64, sites: usize) -> u32 {
    (100.0 * (rank * sites as f64).sqrt()).round().clamp(*WEIGHTS.start(), *WEIGHTS.end()) as u32
}

/// Returns all sites by descending rank, those of the same rank by name.
pub(super) fn ranked(graph: SiteGraph, ranks: &Ranks) -> Vec<RankedSite> {
    let count = graph.sites.len();
    let (mut links_in, mut links_out) = (vec![0_u32; count], vec![0_u32; count]);
    for (from, to) in &graph.edges {
        links_out[*from as usize] += 1;
        links_in[*to as usize] += 1;
    }
    let sites = graph.sites.into_iter().zip(&ranks.ranks).zip(links_in.into_iter().zip(links_out));
    let mut ranked: Vec<_> = sites
        .map(|((site, rank), (links_in, links_out))| RankedSite {
            site,
            rank: *rank,
            weight: weight(*rank, count),
            links_in,
            links_out,
        })
        .collect();
    ranked.sort_by(|a, b| b.rank.total_cmp(&a.rank).then_with(|| a.site.cmp(&b.site)));
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_rank_has_the_weight_of_a_site_without_settings() {
        let weights: Vec<_> = [0.01, 0.04, 0.0025, 0.9, 1e-9].into_iter().map(|rank| weight(rank, 100)).collect();
        assert_eq!(weights, [100, 200, 50, 949, 10]);
        assert_eq!(weight(0.9, 1_000_000), 1000);
    }

    #[test]
    fn sites_are_in_descending_order_of_rank_with_their_links() {
        let sites = ["c.example", "a.example", "b.example"].map(SiteName::from).to_vec();
        let graph = SiteGraph { sites, edges: vec![(0, 1), (0, 2), (2, 1)] };
        let ranks = Ranks { ranks: vec![0.25, 0.5, 0.25], iterations: 1, change: 0.0, has_converged: true };
        let ranked: Vec<_> = ranked(graph, &ranks)
            .into_iter()
            .map(|RankedSite { site, links_in, links_out, .. }| (site.to_string(), links_in, links_out))
            .collect();
        let expected = [("a.example", 2, 0), ("b.example", 1, 1), ("c.example", 0, 2)];
        assert_eq!(ranked, expected.map(|(site, links_in, links_out)| (site.to_owned(), links_in, links_out)));
    }
}
