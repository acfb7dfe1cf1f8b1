//! Crawls as values of a metric label.

use std::collections::BTreeSet;

use orbweaver_url::CrawlName;

/// Maximum number of crawls with a label of their own, since the values of a label must be bounded.
pub const LABELLED_CRAWLS: usize = 100;
/// Label of all other crawls together.
pub const OTHER_CRAWLS: &str = "other";

/// The crawls with a label of their own: the first [`LABELLED_CRAWLS`] for which this process counts anything.
#[derive(Debug, Clone, Default)]
pub struct CrawlLabels(BTreeSet<CrawlName>);

impl CrawlLabels {
    /// Returns the label of a crawl.
    pub fn of<'a>(&mut self, crawl: &'a CrawlName) -> &'a str {
        if self.0.contains(crawl) {
            return crawl;
        }
        if self.0.len() == LABELLED_CRAWLS {
            return OTHER_CRAWLS;
        }
        self.0.insert(crawl.clone());
        crawl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hundred_crawls_keep_their_labels_and_the_others_have_one_together() {
        let mut labels = CrawlLabels::default();
        let names: Vec<CrawlName> = (0..150).map(|number| format!("crawl{number}").parse().unwrap()).collect();
        for _ in 0..2 {
            for (number, name) in names.iter().enumerate() {
                let expected = if number < LABELLED_CRAWLS { &**name } else { OTHER_CRAWLS };
                assert_eq!(labels.of(name), expected);
            }
        }
    }
}
