//! `crawl.control` of a schedule: a crawl that is redefined from time to time, and a frontier that reads each
//! definition sooner or later.

use orbweaver_frontier::{partition::PartitionFrontier, scope::CrawlScopes};
use orbweaver_log::{ConsumerRecord, TopicPartition};
use orbweaver_messages::{CrawlDefinition, FrontierUrl, Millis, REQUISITE_DEPTH, RevisitPolicy, encode, topic};

pub(crate) const CRAWL: &str = "test";

/// Content of a definition: the depth limit (3 or more: none), and the last digit of excluded URLs (10 or more: none).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said {
    max_depth: u16,
    digit: u8,
}

impl Said {
    /// Returns `true` if a URL is in scope, computed in another way than by the frontier.
    pub(crate) fn is_inside(self, url: &str, depth: u16) -> bool {
        let last = url.bytes().last().unwrap_or_default();
        (self.max_depth >= 3 || depth <= self.max_depth || depth >= REQUISITE_DEPTH)
            && last.wrapping_sub(b'0') != self.digit
    }
}

/// All definitions, and the number of those that the frontier has read.
#[derive(Debug, Default)]
pub(crate) struct Control {
    all: Vec<Said>,
    latest: usize,
    pub(crate) revisit: Option<RevisitPolicy>,
    pub(crate) max_pages_per_site: Option<u64>,
    pub(crate) scopes: CrawlScopes,
}

impl Control {
    /// Creates a crawl without limits, whose definition the frontier has read.
    pub(crate) fn new(revisit: Option<RevisitPolicy>, max_pages_per_site: Option<u64>) -> Self {
        let all = vec![Said { max_depth: 3, digit: 10 }];
        let mut control = Self { all, revisit, max_pages_per_site, ..Self::default() };
        control.apply();
        control
    }

    /// Adds a definition. The frontier reads half of the definitions only together with the next one.
    pub(crate) fn define(&mut self, what: u8) {
        self.all.push(Said { max_depth: u16::from(what / 2 % 4), digit: what / 8 % 16 });
        if what.is_multiple_of(2) {
            self.apply();
        }
    }

    /// Lets the frontier read all of `crawl.control`.
    pub(crate) fn apply(&mut self) {
        for (version, said) in self.all.iter().enumerate().skip(self.latest) {
            let definition = self.definition(*said);
            self.scopes.apply(&ConsumerRecord {
                tp: TopicPartition::new(topic::CONTROL, 0),
                offset: version as u64,
                timestamp_ms: 0,
                key: Some(format!("crawl/{CRAWL}").into()),
                value: Some(encode(&definition)),
                headers: vec![],
            });
        }
        self.latest = self.all.len();
    }

    /// Returns the definition with this content.
    fn definition(&self, said: Said) -> CrawlDefinition {
        let host = include_str!("../../../../schemas/examples/crawl-definition/1/host.json");
        CrawlDefinition {
            name: CRAWL.parse().unwrap(),
            exclude: Some(format!("{}$", said.digit)).filter(|_| said.digit < 10).into_iter().collect(),
            max_depth: Some(said.max_depth).filter(|depth| *depth < 3),
            check_external: true,
            revisit: self.revisit.clone(),
            max_pages_per_site: self.max_pages_per_site,
            ..serde_json::from_str(host).unwrap()
        }
    }

    /// Sets the terms of the crawl in a partition that opens, if it has any of its own.
    pub(crate) fn set_terms(&self, frontier: &mut PartitionFrontier, now: Millis) {
        if self.max_pages_per_site.is_some() {
            frontier.set_terms(&CRAWL.parse().unwrap(), Some(&self.definition(self.latest().0)), now);
        }
    }

    /// Replaces the process; the new one reads all definitions.
    pub(crate) fn crash(&mut self) {
        (self.latest, self.scopes) = (0, CrawlScopes::default());
        self.apply();
    }

    /// Admits a URL under the last definition. `None` if it is out of scope.
    pub(crate) fn let_through(&self, waiting: FrontierUrl) -> Option<FrontierUrl> {
        let last = self.all.last().filter(|said| said.is_inside(&waiting.context.url, waiting.context.depth));
        last.map(|_| FrontierUrl { definition: self.all.len() as u64 - 1, ..waiting })
    }

    /// Returns the definition that the frontier uses, and its version.
    pub(crate) fn latest(&self) -> (Said, u64) {
        (self.all[self.latest - 1], self.latest as u64 - 1)
    }
}
