//! All sites, within a memory limit.

use foldhash::HashMap;
use orbweaver_messages::{FrontierUrl, Pattern, Traps};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::site::{BUDGET, HARD_LIMIT, LEADS_INTO_ITSELF, Site};

/// Treatment of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Dispatched in the normal order.
    Normal,
    /// Demoted behind all other URLs of its site: its pattern is over its budget.
    Demote,
    /// Refused without a request, once demoted: its pattern is beyond the hard limit.
    Refuse,
}

/// State of the patterns of all sites of one partition.
#[derive(Debug)]
pub struct Patterns {
    sites: HashMap<u64, Site>,
    /// Approximate memory limit, in four-byte cells.
    most_cells: usize,
    cells: usize,
    over: usize,
    calls: u64,
}

impl Patterns {
    /// Creates an empty table of approximately `most_bytes` at most; beyond that, the least recently used sites are
    /// forgotten.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        Self { sites: HashMap::default(), most_cells: most_bytes / 4, cells: 0, over: 0, calls: 0 }
    }

    /// Learns from an admitted URL: its record carries the digest of the page on which it was found.
    pub fn learn(&mut self, waiting: &FrontierUrl) {
        let (Some(content), Some(pattern)) = (waiting.content, waiting.context.trail.last()) else { return };
        let Some(via) = waiting.context.via.as_deref().filter(|_| waiting.traps != Traps::Off) else { return };
        let [.., b0, b1, b2, b3] = xxh3_64(via.as_bytes()).to_be_bytes();
        self.with(waiting, |site| site.learn(u32::from_be_bytes([b0, b1, b2, b3]), pattern, content));
    }

    /// Returns the pattern of a URL, and its treatment.
    pub fn judge(&mut self, waiting: &FrontierUrl) -> (Pattern, Verdict) {
        let (pattern, spent) = self.with(waiting, |site| {
            let pattern = site.pattern(waiting.context.key());
            (pattern, site.spent(pattern))
        });
        let leads_into_itself = waiting.context.trail.times(pattern) >= LEADS_INTO_ITSELF;
        let verdict = match waiting.traps {
            Traps::Strict if spent >= HARD_LIMIT && leads_into_itself => Verdict::Refuse,
            Traps::Learn | Traps::Strict if spent >= BUDGET => Verdict::Demote,
            Traps::Off | Traps::Learn | Traps::Strict => Verdict::Normal,
        };
        (pattern, verdict)
    }

    /// Returns `true` if a URL belongs behind all others of its site. Cheap while no pattern of any site is over its
    /// budget.
    pub fn is_behind(&mut self, waiting: &FrontierUrl) -> bool {
        self.over > 0 && waiting.traps != Traps::Off && self.judge(waiting).1 != Verdict::Normal
    }

    /// Returns the number of patterns that are over their budget.
    #[must_use]
    pub fn over_budget(&self) -> usize {
        self.over
    }

    /// Returns the approximate memory used, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.cells * 4
    }

    fn with<T>(&mut self, waiting: &FrontierUrl, act: impl FnOnce(&mut Site) -> T) -> T {
        self.calls += 1;
        let id = xxh3_64_with_seed(waiting.context.site.as_bytes(), xxh3_64(waiting.context.crawl.as_bytes()));
        let site = self.sites.entry(id).or_default();
        let before = if site.used == 0 { (0, 0) } else { (site.cells(), site.over()) };
        site.used = self.calls;
        let result = act(site);
        self.cells = self.cells + site.cells() - before.0;
        self.over = self.over + site.over() - before.1;
        if self.cells > self.most_cells {
            self.forget();
        }
        result
    }

    /// Forgets the least recently used half of the sites, so that this is rare.
    fn forget(&mut self) {
        let mut used: Vec<u64> = self.sites.values().map(|site| site.used).collect();
        let middle = used.len() / 2;
        let (_, middle, _) = used.select_nth_unstable(middle);
        let middle = *middle;
        self.sites.retain(|_, site| site.used > middle);
        self.cells = self.sites.values().map(Site::cells).sum();
        self.over = self.sites.values().map(Site::over).sum();
    }
}
