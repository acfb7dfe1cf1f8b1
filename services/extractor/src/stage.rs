//! Glue to the runtime: pages in, plans out.

use std::collections::HashMap;

use orbweaver_log::{ConsumerRecord, Offset, Partition};
use orbweaver_messages::{Millis, PageKind, Topic, topic};
use orbweaver_stage::{Actions, Origin, PartitionContext, Plan, Stage, StageError, Step, Token};
use orbweaver_store::Write;

use crate::job::{ExtractDone, ExtractJob, PageCounts, PageVerdict};
use crate::pass::PagePass;
use crate::{ExtractorConfig, ExtractorMetrics};

/// The extractor as a stage over `crawl.pages`.
#[derive(Debug)]
pub struct ExtractorStage {
    config: ExtractorConfig,
    metrics: ExtractorMetrics,
    partitions: Partition,
    /// Number of pages that are queued or being extracted.
    pending: usize,
    /// Assignment epochs of the open partitions.
    open: HashMap<Partition, u32>,
    /// Next passes, by the token of the plan that must be durable first.
    continuing: HashMap<Token, (Origin, PagePass)>,
    last_token: Token,
}

impl ExtractorStage {
    /// Creates a stage. Its worker is [`crate::BlockingWorker`], with the same settings.
    #[must_use]
    pub fn new(config: ExtractorConfig, metrics: ExtractorMetrics) -> Self {
        let (open, continuing) = (HashMap::new(), HashMap::new());
        Self { config, metrics, partitions: 1, pending: 0, open, continuing, last_token: 0 }
    }

    /// Returns the number of pages per job, such that all threads share even a small batch.
    fn pages_per_job(&self, pages: usize) -> usize {
        pages.div_ceil(self.config.threads.max(1)).clamp(1, self.config.batch_pages.max(1))
    }

    fn count(&self, counts: &PageCounts) {
        let number = |value: usize| u64::try_from(value).unwrap_or(u64::MAX);
        self.metrics.body_bytes.inc_by(number(counts.body_bytes));
        self.metrics.links.inc_by(number(counts.links));
        self.metrics.nofollow.inc_by(number(counts.nofollow));
        self.metrics.discovered.inc_by(number(counts.discovered));
        self.metrics.unfollowed.inc_by(number(counts.unfollowed));
        self.metrics.truncated.inc_by(u64::from(counts.truncated));
        self.metrics.nofollow_pages.inc_by(u64::from(counts.nofollow_page));
        self.metrics.unrendered_pages.inc_by(u64::from(counts.needs_render));
        self.metrics.charsets.with_label_values(&[counts.charset_source.as_str()]).inc();
    }

    fn show_pending(&self) {
        self.metrics.pending.set(i64::try_from(self.pending).unwrap_or(i64::MAX));
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

    fn open(&mut self, opening: PartitionContext, _: Millis) {
        self.partitions = opening.partitions;
        self.open.insert(opening.partition, opening.assignment_epoch);
    }

    fn receive(
        &mut self,
        batch: Vec<(Origin, ConsumerRecord)>,
        now: Millis,
        actions: &mut Actions<ExtractJob, Write>,
    ) -> Result<(), StageError> {
        self.pending += batch.len();
        let most = self.pages_per_job(batch.len());
        let mut pages: Vec<(Origin, PagePass)> = Vec::with_capacity(most);
        let mut bytes = 0;
        for (origin, record) in batch {
            let size = record.bytes();
            if !pages.is_empty() && (pages.len() == most || bytes + size > self.config.batch_bytes) {
                let pages = std::mem::replace(&mut pages, Vec::with_capacity(most));
                actions.jobs.push(ExtractJob { pages, partitions: self.partitions, now });
                bytes = 0;
            }
            bytes += size;
            pages.push((origin, PagePass::first(record)));
        }
        if !pages.is_empty() {
            actions.jobs.push(ExtractJob { pages, partitions: self.partitions, now });
        }
        self.show_pending();
        Ok(())
    }

    fn plan_durable(
        &mut self,
        token: Token,
        _: &[Offset],
        now: Millis,
        actions: &mut Actions<ExtractJob, Write>,
    ) -> Result<(), StageError> {
        let Some((origin, page)) = self.continuing.remove(&token) else { return Ok(()) };
        // The next owner of the partition starts again with the first pass.
        if self.open.get(&origin.tp.partition) == Some(&origin.assignment_epoch) {
            self.pending += 1;
            self.show_pending();
            actions.jobs.push(ExtractJob { pages: vec![(origin, page)], partitions: self.partitions, now });
        }
        Ok(())
    }

    fn refused(
        &mut self,
        token: Token,
        reason: &str,
        _: Millis,
        actions: &mut Actions<ExtractJob, Write>,
    ) -> Result<(), StageError> {
        if let Some((origin, _)) = self.continuing.remove(&token) {
            actions.rejects.push((origin, reason.to_owned()));
        }
        Ok(())
    }

    fn job_done(
        &mut self,
        done: ExtractDone,
        _: Millis,
        actions: &mut Actions<ExtractJob, Write>,
    ) -> Result<(), StageError> {
        self.pending = self.pending.saturating_sub(done.len());
        for (origin, verdict) in done {
            match verdict {
                PageVerdict::Extracted(result) => {
                    let kind = if result.counts.kind == PageKind::Sitemap { "sitemap" } else { "extracted" };
                    self.metrics.pages.with_label_values(&[kind]).inc();
                    self.count(&result.counts);
                    if result.counts.unfollowed > 0 {
                        tracing::warn!(
                            topic_partition = %origin.tp,
                            offset = origin.offset,
                            fingerprint = %result.links.fingerprint,
                            unfollowed = result.counts.unfollowed,
                            reason = "resolved links exceed sixteen times the body",
                            "links not followed"
                        );
                    }
                    // The store first: a reader of the document finds its links there (docs/protocol.md#effect-order).
                    let steps = vec![Step::Perform(vec![Write::Links(result.links)]), Step::Produce(result.records)];
                    actions.plans.push(Plan { steps, completes: vec![origin], token: None });
                }
                PageVerdict::Discovered(result) => {
                    self.metrics.discovered.inc_by(u64::try_from(result.discovered).unwrap_or(u64::MAX));
                    self.last_token += 1;
                    self.continuing.insert(self.last_token, (origin, result.next));
                    let steps = vec![Step::Produce(result.records)];
                    actions.plans.push(Plan { steps, completes: vec![], token: Some(self.last_token) });
                }
                PageVerdict::PassedOver { links, records, discovered } => {
                    self.metrics.pages.with_label_values(&["passed_over"]).inc();
                    self.metrics.discovered.inc_by(u64::try_from(discovered).unwrap_or(u64::MAX));
                    let links = links.map(|links| Step::Perform(vec![Write::Links(links)]));
                    let records = Some(records).filter(|records| !records.is_empty()).map(Step::Produce);
                    let steps: Vec<_> = links.into_iter().chain(records).collect();
                    if steps.is_empty() {
                        actions.completes.push(origin);
                    } else {
                        actions.plans.push(Plan { steps, completes: vec![origin], token: None });
                    }
                }
                PageVerdict::Rejected(reason) => {
                    self.metrics.pages.with_label_values(&["rejected"]).inc();
                    tracing::warn!(topic_partition = %origin.tp, offset = origin.offset, reason, "page record rejected");
                    actions.rejects.push((origin, reason));
                }
            }
        }
        self.show_pending();
        Ok(())
    }

    fn close(&mut self, partition: Partition) {
        self.open.remove(&partition);
    }

    fn due(&self, _: Millis) -> usize {
        self.pending
    }
}
