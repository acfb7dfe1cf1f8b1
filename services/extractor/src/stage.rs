//! Glue to the runtime: pages in, plans out.

use orbweaver_log::{Delivered, Partition};
use orbweaver_messages::{Millis, Topic, topic};
use orbweaver_stage::{Actions, Opening, Origin, Plan, Stage, Step};
use orbweaver_store::Write;

use crate::job::{ExtractDone, ExtractJob, PageCounts, PageVerdict};
use crate::{ExtractorConfig, ExtractorMetrics};

/// The extractor as a stage over `crawl.pages`.
#[derive(Debug)]
pub struct ExtractorStage {
    config: ExtractorConfig,
    metrics: ExtractorMetrics,
    partitions: Partition,
    /// Number of pages received without a verdict.
    pending: usize,
}

impl ExtractorStage {
    /// Creates a stage. Its worker is [`crate::BlockingWorker`], with the same settings.
    #[must_use]
    pub fn new(config: ExtractorConfig, metrics: ExtractorMetrics) -> Self {
        Self { config, metrics, partitions: 1, pending: 0 }
    }

    /// Returns the number of pages per job, such that all threads share even a small batch.
    fn pages_a_job(&self, pages: usize) -> usize {
        pages.div_ceil(self.config.threads.max(1)).clamp(1, self.config.batch_pages.max(1))
    }

    fn count(&self, counts: &PageCounts) {
        let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        self.metrics.body_bytes.inc_by(number(counts.body_bytes));
        self.metrics.links.inc_by(number(counts.links));
        self.metrics.nofollow.inc_by(number(counts.nofollow));
        self.metrics.discovered.inc_by(number(counts.discovered));
        self.metrics.truncated.inc_by(u64::from(counts.truncated));
        self.metrics.nofollow_pages.inc_by(u64::from(counts.nofollow_page));
        self.metrics.charsets.with_label_values(&[counts.charset_source.as_str()]).inc();
    }
}

impl Stage for ExtractorStage {
    type Job = ExtractJob;
    type Done = ExtractDone;
    type Effect = Write;

    fn service(&self) -> &'static str {
        "extractor"
    }

    fn topics(&self) -> &'static [Topic] {
        &[topic::PAGES]
    }

    fn open(&mut self, opening: Opening, _: Millis) {
        self.partitions = opening.partitions;
    }

    fn receive(&mut self, batch: Vec<(Origin, Delivered)>, now: Millis, actions: &mut Actions<ExtractJob, Write>) {
        self.pending += batch.len();
        let most = self.pages_a_job(batch.len());
        let mut pages: Vec<(Origin, Delivered)> = Vec::with_capacity(most);
        let mut bytes = 0;
        for (origin, record) in batch {
            let size = record.bytes();
            if !pages.is_empty() && (pages.len() == most || bytes + size > self.config.batch_bytes) {
                let pages = std::mem::replace(&mut pages, Vec::with_capacity(most));
                actions.jobs.push(ExtractJob { pages, partitions: self.partitions, now });
                bytes = 0;
            }
            bytes += size;
            pages.push((origin, record));
        }
        if !pages.is_empty() {
            actions.jobs.push(ExtractJob { pages, partitions: self.partitions, now });
        }
        self.metrics.pending.set(i64::try_from(self.pending).unwrap_or(i64::MAX));
    }

    fn finished(&mut self, done: ExtractDone, _: Millis, actions: &mut Actions<ExtractJob, Write>) {
        self.pending = self.pending.saturating_sub(done.pages.len());
        for (origin, verdict) in done.pages {
            match verdict {
                PageVerdict::Extracted(result) => {
                    self.metrics.pages.with_label_values(&["extracted"]).inc();
                    self.count(&result.counts);
                    // The store first: a reader of the document finds its links there (docs/protocol.md#effect-order).
                    let steps = vec![Step::Perform(vec![Write::Links(result.links)]), Step::Produce(result.records)];
                    actions.plans.push(Plan { steps, completes: vec![origin], token: None });
                }
                PageVerdict::Rejected(reason) => {
                    self.metrics.pages.with_label_values(&["rejected"]).inc();
                    tracing::warn!(place = %origin.place, offset = origin.offset, reason, "page record rejected");
                    actions.rejects.push((origin, reason));
                }
            }
        }
        self.metrics.pending.set(i64::try_from(self.pending).unwrap_or(i64::MAX));
    }

    fn due(&self, _: Millis) -> usize {
        self.pending
    }
}
