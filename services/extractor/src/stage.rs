//! Glue to the runtime: pages in, plans out.

use std::collections::HashMap;

use orbweaver_log::{ConsumerRecord, Offset, Partition, Record};
use orbweaver_messages::{
    MessageError, Millis, PageKind, PageSignature, SignatureGroup, Topic, decode, parse_signature_key, topic,
};
use orbweaver_stage::{
    Actions, Origin, PartitionContext, Plan, RestoreFrom, RestoreSpec, Stage, StageError, Step, Token,
};
use orbweaver_store::Write;

use crate::job::{ComparedPage, ExtractDone, ExtractJob, PageCounts, PageResult, PageVerdict};
use crate::originals::Originals;
use crate::pass::PagePass;
use crate::{ExtractorConfig, ExtractorMetrics, near_duplicates, worker};

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
    /// Originals of the partitions that are open or being restored.
    originals: HashMap<Partition, Originals>,
    /// Next passes, by the token of the plan that must be durable first.
    continuing: HashMap<Token, (Origin, PagePass)>,
    last_token: Token,
}

impl ExtractorStage {
    /// Creates a stage. Its worker is [`crate::BlockingWorker`], with the same settings.
    #[must_use]
    pub fn new(config: ExtractorConfig, metrics: ExtractorMetrics) -> Self {
        let (open, originals, continuing) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { config, metrics, partitions: 1, pending: 0, open, originals, continuing, last_token: 0 }
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

    /// Decides whether a page is a near duplicate, and marks its document, the first of `records`. Returns the records of
    /// changed originals.
    fn compare(&mut self, origin: Origin, compared: ComparedPage, records: &mut [Record], now: Millis) -> Vec<Record> {
        let mut changed = vec![];
        let partition = origin.tp.partition;
        let is_open = self.open.get(&partition) == Some(&origin.assignment_epoch);
        if let Some(originals) = self.originals.get_mut(&partition).filter(|_| is_open) {
            let page = (SignatureGroup::of(&compared.crawl, &compared.site), compared.page);
            let decision = originals.decide(page, compared.signature, self.config.near_duplicate_pages);
            if let (Some(original), Some(document)) = (decision.original, records.first_mut()) {
                self.metrics.near_duplicates.inc();
                near_duplicates::mark(document, original);
            }
            changed = near_duplicates::records(&decision, &compared, (partition, now));
            self.show_originals();
        }
        if let Some(memory) = compared.memory {
            worker::attach(records, memory);
        }
        changed
    }

    fn show_originals(&self) {
        let originals = self.originals.values().map(Originals::len).sum::<usize>();
        self.metrics.originals.set(i64::try_from(originals).unwrap_or(i64::MAX));
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

    fn restore_specs(&self, _: Partition) -> Vec<RestoreSpec> {
        vec![RestoreSpec { topic: topic::SIGNATURES, from: RestoreFrom::Start, follow: false }]
    }

    fn restore(&mut self, partition: Partition, record: &ConsumerRecord) -> Result<(), StageError> {
        let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        let signature = match decode::<PageSignature>("page-signature", record.value.as_ref()) {
            Ok(page) => Ok(Some(page.signature)),
            Err(MessageError::Empty(_)) => Ok(None),
            Err(error) => Err(error.to_string()),
        };
        match (key.and_then(parse_signature_key).ok_or_else(|| "its key is no signature key".to_owned()), signature) {
            (Ok(page), Ok(signature)) => {
                let originals = self.originals.entry(partition).or_default();
                originals.restore(page, signature, self.config.near_duplicate_pages);
            }
            (Err(reason), _) | (_, Err(reason)) => tracing::error!(
                topic_partition = %record.tp, offset = record.offset, reason,
                "record of a signature cannot be read: ignored; near duplicates of its page may not be marked"
            ),
        }
        Ok(())
    }

    fn open(&mut self, opening: PartitionContext, _: Millis) {
        self.partitions = opening.partitions;
        self.open.insert(opening.partition, opening.assignment_epoch);
        self.originals.entry(opening.partition).or_default();
        self.show_originals();
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
        now: Millis,
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
                    let PageResult { links, mut records, compared, .. } = *result;
                    let changed = compared.map(|compared| self.compare(origin, *compared, &mut records, now));
                    let changed = changed.filter(|changed| !changed.is_empty()).map(Step::Produce);
                    // The store first: a reader of the document finds its links there (docs/protocol.md#effect-order). The
                    // originals before the document, which otherwise might be named by one that it names after a crash.
                    let links = Step::Perform(vec![Write::Links(links)]);
                    let steps = std::iter::once(links).chain(changed).chain([Step::Produce(records)]).collect();
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
        self.originals.remove(&partition);
        self.show_originals();
    }

    fn due(&self, _: Millis) -> usize {
        self.pending
    }
}
