//! Plan of a poll, for one partition.

use std::{collections::BTreeMap, convert::Infallible};

use bytes::Bytes;
use orbweaver_log::{Partition, Record, TopicPartition};
use orbweaver_messages::{
    CRAWL_HEADER, FrontierUrl, Millis, ScopeEntry, SeenBatch, SeenEntry, encode, scope_key, topic,
};
use orbweaver_stage::{Plan, Step, Token};
use orbweaver_url::{CrawlName, partition_of, slot_of};

/// Maximum number of URLs per plan; a poll that admits more makes several. The `seen` record of a full plan has 160 KB.
pub(crate) const PLAN_URLS: usize = 8192;

/// Bytes of records in plans that are not durable, over all partitions, at which further links wait. A link of a few
/// bytes becomes a record with the URL of its page, of up to 16 KiB as JSON, so that a poll of 1 MiB could cause
/// hundreds of MiB. Half of the smallest budget of a stage, which is that of the one-process crawler.
const PLANNED_BYTES: usize = 8 << 20;

/// Tokens of plans that are not durable, with the partition and the bytes of each.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    last: Token,
    plans: BTreeMap<Token, (Partition, usize)>,
    /// Bytes of all plans.
    bytes: usize,
    drafted: Vec<Partition>,
}

impl Tokens {
    /// Starts a draft for this partition.
    pub(crate) fn begin(&mut self, partition: Partition) -> Token {
        self.last += 1;
        self.plans.insert(self.last, (partition, 0));
        self.drafted.push(partition);
        self.last
    }

    /// Counts bytes that were added to a plan.
    pub(crate) fn add(&mut self, token: Token, bytes: usize) {
        if let Some((_, planned)) = self.plans.get_mut(&token) {
            *planned += bytes;
            self.bytes += bytes;
        }
    }

    /// Returns the plan for which further links of this partition wait: its newest one, if enough bytes are planned.
    /// Without a plan of its own a partition may admit a URL nevertheless, so that its links always have a plan to wait
    /// for.
    pub(crate) fn awaited(&self, partition: Partition) -> Option<Token> {
        if self.bytes < PLANNED_BYTES {
            return None;
        }
        self.plans.iter().rev().find(|(_, (of, _))| *of == partition).map(|(token, _)| *token)
    }

    /// Returns the partitions in which drafts were started since the last call.
    pub(crate) fn take_drafted(&mut self) -> Vec<Partition> {
        std::mem::take(&mut self.drafted)
    }

    /// Removes a durable plan; returns its partition if that is still open.
    pub(crate) fn settle(&mut self, token: Token) -> Option<Partition> {
        let (partition, bytes) = self.plans.remove(&token)?;
        self.bytes -= bytes;
        Some(partition)
    }

    pub(crate) fn forget(&mut self, partition: Partition) {
        self.plans.retain(|_, (of, _)| *of != partition);
        self.bytes = self.plans.values().map(|(_, bytes)| bytes).sum();
    }

    /// Returns the number of plans that are not yet durable.
    pub(crate) fn len(&self) -> usize {
        self.plans.len()
    }
}

/// Plan under construction.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) token: Token,
    /// Entries by which seeds extend scopes, as (crawl, entry).
    pub(crate) entries: Vec<(CrawlName, String)>,
    scope: Vec<Record>,
    frontier: Vec<Record>,
    /// Entries for `crawl.seen`, by crawl, in the order of admission.
    seen: BTreeMap<CrawlName, Vec<SeenEntry>>,
    /// Number of URLs, with or without an entry or a record.
    urls: usize,
}

impl Draft {
    pub(crate) fn new(token: Token) -> Self {
        Self { token, entries: vec![], scope: vec![], frontier: vec![], seen: BTreeMap::new(), urls: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.urls >= PLAN_URLS
    }

    /// Extends the scope of `crawl`; the record goes to the partition that the default partitioner assigns to its key.
    /// Returns the bytes added.
    pub(crate) fn extend_scope(
        &mut self,
        crawl: &CrawlName,
        entry: String,
        partitions: Partition,
        now: Millis,
    ) -> usize {
        if self.entries.iter().any(|(known, other)| known == crawl && *other == entry) {
            return 0;
        }
        let key = scope_key(crawl, &entry);
        let tp = TopicPartition::new(topic::CONTROL, partition_of(slot_of(&key), partitions));
        let value = encode(&ScopeEntry { crawl: crawl.clone(), entry: entry.clone() });
        self.entries.push((crawl.clone(), entry));
        let record = Record::new(tp, Some(key.into()), Some(value), now);
        let bytes = record.bytes();
        self.scope.push(record);
        bytes
    }

    /// Adds an admitted URL, and its entry if it has none in `crawl.seen`. Returns the bytes added.
    pub(crate) fn admit_url(&mut self, waiting: &FrontierUrl, entry: Option<SeenEntry>, partition: Partition) -> usize {
        if let Some(entry) = entry {
            self.enter(&waiting.context.crawl, entry);
        }
        self.urls += 1;
        let key = waiting.context.fingerprint.to_string().into();
        let tp = TopicPartition::new(topic::FRONTIER, partition);
        let record = Record::new(tp, Some(key), Some(encode(waiting)), waiting.admitted_at_ms);
        let bytes = record.bytes();
        self.frontier.push(record);
        bytes
    }

    /// Adds a URL that is not admitted, with its entry alone. Returns the bytes added.
    pub(crate) fn enter_url(&mut self, crawl: &CrawlName, entry: SeenEntry) -> usize {
        self.enter(crawl, entry);
        self.urls += 1;
        size_of::<SeenEntry>()
    }

    fn enter(&mut self, crawl: &CrawlName, entry: SeenEntry) {
        match self.seen.get_mut(crawl) {
            Some(entries) => entries.push(entry),
            None => drop(self.seen.insert(crawl.clone(), vec![entry])),
        }
    }

    /// Builds the plan in effect order: the scope entries that the links of the URLs will need, the URLs, then their
    /// fingerprints in `seen`, one batch for each crawl. Origins complete once the stage learns that the plan is durable.
    pub(crate) fn into_plan(self, partition: Partition, now: Millis) -> Plan<Infallible> {
        let batch = |(crawl, entries): (CrawlName, Vec<SeenEntry>)| {
            let key = Bytes::from(partition.to_string());
            let value = Some(SeenBatch { entries }.encode());
            let mut record = Record::new(TopicPartition::new(topic::SEEN, partition), Some(key), value, now);
            record.headers.push((CRAWL_HEADER, Bytes::copy_from_slice(crawl.as_bytes())));
            record
        };
        let steps = [self.scope, self.frontier, self.seen.into_iter().map(batch).collect()];
        let steps = steps.into_iter().filter(|records| !records.is_empty()).map(Step::Produce).collect();
        Plan { steps, completes: vec![], token: Some(self.token) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_wait_for_a_plan_of_their_partition_while_enough_bytes_are_planned() {
        let mut tokens = Tokens::default();
        let (first, second) = (tokens.begin(0), tokens.begin(0));
        tokens.add(first, PLANNED_BYTES - 1);
        assert_eq!(tokens.awaited(0), None);
        tokens.add(second, 1);
        assert_eq!((tokens.awaited(0), tokens.awaited(1)), (Some(second), None), "1 has no plan to wait for");
        let other = tokens.begin(1);
        tokens.add(other, 100);
        assert_eq!(tokens.awaited(1), Some(other));
        tokens.forget(0);
        assert_eq!((tokens.awaited(1), tokens.bytes), (None, 100), "a closed partition frees its bytes");
        assert_eq!((tokens.settle(first), tokens.settle(other)), (None, Some(1)));
        assert_eq!((tokens.bytes, tokens.len()), (0, 0));
    }
}
