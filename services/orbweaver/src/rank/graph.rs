//! Graph of the sites of a crawl: an edge from one site to another if a page of it links there.

use std::{borrow::Cow, collections::HashMap};

use orbweaver_url::{SiteName, WideDomains, parse};
use serde::Deserialize;

/// Minimum number of edges after which repeated ones are removed.
const MERGE_FROM: usize = 1 << 20;
/// Values of `rel` of links that do not recommend their target.
const NO_RECOMMENDATION: [&str; 3] = ["nofollow", "ugc", "sponsored"];

/// Line of `documents.jsonl`, as far as the graph needs it.
#[derive(Debug, Deserialize)]
pub(super) struct DocumentLine<'a> {
    #[serde(borrow)]
    pub(super) site: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) links: Vec<LinkOnPage<'a>>,
}

/// Link in `documents.jsonl`.
#[derive(Debug, Deserialize)]
pub(super) struct LinkOnPage<'a> {
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) rel: Cow<'a, str>,
}

/// Graph that is being filled.
#[derive(Debug)]
pub(super) struct Filling {
    wide: WideDomains,
    numbers: HashMap<SiteName, u32>,
    sites: Vec<SiteName>,
    edges: Vec<(u32, u32)>,
    merge_at: usize,
}

/// Graph without repeated edges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SiteGraph {
    /// Sites with pages and sites that are linked, by number.
    pub(super) sites: Vec<SiteName>,
    /// Edges between the numbers of different sites, in ascending order.
    pub(super) edges: Vec<(u32, u32)>,
}

impl Filling {
    pub(super) fn new(wide: WideDomains) -> Self {
        Self { wide, numbers: HashMap::new(), sites: vec![], edges: vec![], merge_at: MERGE_FROM }
    }

    /// Adds a document with its links.
    pub(super) fn add(&mut self, document: &DocumentLine<'_>) -> Result<(), String> {
        let from = self.number(&document.site)?;
        let mut last: Option<u32> = None;
        for link in &document.links {
            if link.rel.split_ascii_whitespace().any(|word| NO_RECOMMENDATION.contains(&&*word.to_ascii_lowercase())) {
                continue;
            }
            // Links of other schemes lead to no site.
            let Ok(url) = parse(&link.url) else { continue };
            let site = self.wide.site_of(&url).into_owned();
            let to = self.number(&site)?;
            if to != from && last.replace(to) != Some(to) {
                self.edges.push((from, to));
            }
        }
        if self.edges.len() >= self.merge_at {
            self.merge();
            self.merge_at = MERGE_FROM.max(2 * self.edges.len());
        }
        Ok(())
    }

    /// Returns the graph.
    pub(super) fn finish(mut self) -> SiteGraph {
        self.merge();
        SiteGraph { sites: self.sites, edges: self.edges }
    }

    fn merge(&mut self) {
        self.edges.sort_unstable();
        self.edges.dedup();
    }

    fn number(&mut self, site: &str) -> Result<u32, String> {
        if let Some(number) = self.numbers.get(site) {
            return Ok(*number);
        }
        let number =
            u32::try_from(self.sites.len()).map_err(|_| "there are more than 4,294,967,295 sites".to_owned())?;
        let site = SiteName::from(site);
        self.numbers.insert(site.clone(), number);
        self.sites.push(site);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(documents: &[(&str, &[(&str, &str)])]) -> SiteGraph {
        let mut filling = Filling::new(WideDomains::new(["hosting.example"]).unwrap());
        for (site, links) in documents {
            let links = links.iter().map(|(url, rel)| LinkOnPage { url: (*url).into(), rel: (*rel).into() }).collect();
            filling.add(&DocumentLine { site: (*site).into(), links }).unwrap();
        }
        filling.finish()
    }

    fn named(graph: &SiteGraph) -> Vec<(&str, &str)> {
        let name = |number: u32| &*graph.sites[number as usize];
        graph.edges.iter().map(|(from, to)| (name(*from), name(*to))).collect()
    }

    #[test]
    fn an_edge_leads_to_each_other_site_that_a_page_recommends() {
        let graph = graph(&[
            ("a.example", &[("https://www.b.example/1", ""), ("https://b.example/2", ""), ("https://a.example/", "")]),
            ("a.example", &[("https://b.example/3", "noopener"), ("https://x.hosting.example/", "")]),
            (
                "b.example",
                &[("https://c.example/", "NoFollow"), ("https://d.example/", "ugc noopener"), ("mailto:e", "")],
            ),
            ("c.example", &[]),
        ]);
        assert_eq!(named(&graph), [("a.example", "b.example"), ("a.example", "x.hosting.example")]);
        assert_eq!(graph.sites.len(), 4, "a site with pages is part of it, also without edges: {:?}", graph.sites);
    }
}
