//! Settings of the services of a schedule.

use std::{path::PathBuf, time::Duration};

use orbweaver_extractor::ExtractorConfig;
use orbweaver_fetcher::FetcherConfig;
use orbweaver_frontier::FrontierConfig;
use orbweaver_log::RECORD_LIMIT;
use orbweaver_normalizer_dedup::Config as DedupConfig;
use orbweaver_rate_limiter::RateLimiterConfig;
use orbweaver_settings::Rate;
use orbweaver_stage::{Limits, RunnerConfig};

use crate::{
    broken::{Broken, Rule},
    random::Random,
};

/// Outstanding dispatches per partition where the rule that bounds them is disabled.
const MOST_OUTSTANDING: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// normalizer-dedup
    Dedup,
    Frontier,
    /// rate-limiter
    Limiter,
    Fetcher,
    Extractor,
}

impl Service {
    pub const ALL: [Self; 5] = [Self::Dedup, Self::Frontier, Self::Limiter, Self::Fetcher, Self::Extractor];

    /// Returns the service's name, which is also its group's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dedup => "normalizer-dedup",
            Self::Frontier => "frontier",
            Self::Limiter => "rate-limiter",
            Self::Fetcher => "fetcher",
            Self::Extractor => "extractor",
        }
    }
}

/// Settings of a schedule.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of partitions of every topic.
    pub partitions: u32,
    /// Number of processes per service at the start, in the order of [`Service::ALL`].
    pub processes: [u64; 5],
    /// Maximum number of requests without a durable outcome per fetcher.
    pub concurrency: usize,
    /// Maximum number of attempts per URL; by default the frontier's.
    pub max_attempts: u8,
    /// Lower limit of the bound on outstanding dispatches per partition.
    pub min_outstanding: usize,
    /// Whether the frontier has an index on disk.
    pub frontier_on_disk: bool,
    /// Span between commit point and log end, in records, above which the frontier re-appends its oldest queued URLs.
    pub reappend_above: u64,
    /// Maximum number of uncommitted records per process, parked ones excluded.
    pub budget: usize,
    /// Largest record that the services write, in bytes.
    pub record_limit: usize,
    /// Number of links that the extractor takes in one pass over a page; by default as shipped.
    pub pass_links: usize,
    /// Inactivity after which a process verifies that it still owns its partitions.
    pub frozen_after: Duration,
    interval_ms: u64,
    max_delay_ms: u64,
    commit_interval: Duration,
}

impl Settings {
    #[must_use]
    pub fn draw(random: &mut Random, interval_ms: u64) -> Self {
        Self {
            partitions: random.pick(&[1, 2, 2, 4]),
            processes: std::array::from_fn(|_| random.between(1, 3)),
            max_attempts: FrontierConfig::default().max_attempts,
            record_limit: RECORD_LIMIT,
            pass_links: ExtractorConfig::default().pass_links,
            frozen_after: RunnerConfig::default().frozen_after,
            interval_ms,
            max_delay_ms: random.pick(&[200, 1000, 1000, 3000]),
            concurrency: random.pick(&[1, 2, 4, 8, 64]),
            reappend_above: random.pick(&[0, 4, 16, 65_536]),
            min_outstanding: random.pick(&[1, 4, 512]),
            budget: random.pick(&[2, 5, 50, 1000]),
            commit_interval: Duration::from_millis(random.pick(&[50, 300, 1000, 2000])),
            frontier_on_disk: random.chance(60),
        }
    }

    /// Returns these settings with the rules of `broken` disabled.
    pub(crate) fn without(self, broken: &Broken) -> Self {
        let off = |rule| broken.is_off(rule);
        Self {
            min_outstanding: if off(Rule::Outstanding) { MOST_OUTSTANDING } else { self.min_outstanding },
            reappend_above: if off(Rule::Reappend) { u64::MAX } else { self.reappend_above },
            record_limit: if off(Rule::RecordLimit) { RECORD_LIMIT } else { self.record_limit },
            frozen_after: if off(Rule::Proof) { Duration::from_hours(24) } else { self.frozen_after },
            ..self
        }
    }

    pub(crate) fn dedup(&self, index_dir: PathBuf) -> DedupConfig {
        DedupConfig { recent_entries: 16, waits_for_disk: true, ..DedupConfig::new(index_dir) }
    }

    pub(crate) fn frontier(&self) -> FrontierConfig {
        FrontierConfig {
            default_interval_ms: self.interval_ms,
            max_attempts: self.max_attempts,
            min_outstanding: self.min_outstanding,
            reappend_above: self.reappend_above,
            ..FrontierConfig::default()
        }
    }

    pub(crate) fn limiter(&self) -> RateLimiterConfig {
        RateLimiterConfig {
            rate: Rate { interval_ms: self.interval_ms },
            max_delay_ms: self.max_delay_ms,
            ..RateLimiterConfig::default()
        }
    }

    pub(crate) fn fetcher(&self) -> FetcherConfig {
        FetcherConfig {
            concurrency: self.concurrency,
            default_interval_ms: self.interval_ms,
            record_limit: self.record_limit,
            ..FetcherConfig::default()
        }
    }

    pub(crate) fn extractor(&self) -> ExtractorConfig {
        let (pass_links, max_links) = (self.pass_links, self.pass_links);
        let record_limit = self.record_limit;
        ExtractorConfig {
            threads: 1,
            batch_pages: 2,
            record_limit,
            pass_links,
            max_links,
            ..ExtractorConfig::default()
        }
    }

    pub(crate) fn runner(&self, service: Service) -> RunnerConfig {
        let mut config = RunnerConfig::default();
        if service == Service::Fetcher {
            // A request in flight at a revocation ends before the release.
            config.drain_budget = self.fetcher().request_timeout + Duration::from_secs(5);
        }
        RunnerConfig {
            limits: Limits { records: self.budget, ..config.limits },
            commit_interval: self.commit_interval,
            tick_interval: Duration::from_secs(1),
            quarantine_records: 20,
            frozen_after: self.frozen_after,
            ..config
        }
    }
}
