//! Plan of a poll, for one partition.

use std::{collections::HashMap, convert::Infallible};

use bytes::Bytes;
use orbweaver_log::{Partition, Record, TopicPartition};
use orbweaver_messages::{Millis, ScopeEntry, SeenBatch, SeenEntry, Waiting, encode, scope_key, topic};
use orbweaver_stage::{Plan, Step, Token};
use orbweaver_url::{partition_of, slot_of};

/// Maximum number of URLs per plan; a poll that admits more makes several. The `seen` record of a full plan has 160 KB.
pub(crate) const PLAN_URLS: usize = 8192;

/// Tokens of plans, with the partition of each.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    last: Token,
    partitions: HashMap<Token, Partition>,
    drafted: Vec<Partition>,
}

impl Tokens {
    /// Starts a draft for this partition.
    pub(crate) fn begin(&mut self, partition: Partition) -> Token {
        self.last += 1;
        self.partitions.insert(self.last, partition);
        self.drafted.push(partition);
        self.last
    }

    /// Returns the partitions in which drafts were started since the last call.
    pub(crate) fn take_drafted(&mut self) -> Vec<Partition> {
        std::mem::take(&mut self.drafted)
    }

    /// Removes a durable plan; returns its partition if that is still open.
    pub(crate) fn settle(&mut self, token: Token) -> Option<Partition> {
        self.partitions.remove(&token)
    }

    pub(crate) fn forget(&mut self, partition: Partition) {
        self.partitions.retain(|_, known| *known != partition);
    }

    /// Returns the number of plans that are not yet durable.
    pub(crate) fn len(&self) -> usize {
        self.partitions.len()
    }
}

/// Plan under construction.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) token: Token,
    /// Entries by which seeds extend scopes, as (crawl, entry).
    pub(crate) entries: Vec<(String, String)>,
    scope: Vec<Record>,
    frontier: Vec<Record>,
}

impl Draft {
    pub(crate) fn new(token: Token) -> Self {
        Self { token, entries: vec![], scope: vec![], frontier: vec![] }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.frontier.len() >= PLAN_URLS
    }

    /// Extends the scope of `crawl`; the record goes to the partition that the default partitioner assigns to its key.
    pub(crate) fn extend_scope(&mut self, crawl: &str, entry: String, partitions: Partition, now: Millis) {
        if self.entries.iter().any(|(known, other)| known == crawl && *other == entry) {
            return;
        }
        let key = scope_key(crawl, &entry);
        let place = TopicPartition::new(topic::CONTROL, partition_of(slot_of(&key), partitions));
        let value = encode(&ScopeEntry { crawl: crawl.to_owned(), entry: entry.clone() });
        self.entries.push((crawl.to_owned(), entry));
        self.scope.push(Record {
            place,
            key: Some(key.into()),
            value: Some(value),
            headers: vec![],
            timestamp_ms: now,
        });
    }

    /// Adds an admitted URL.
    pub(crate) fn let_through(&mut self, waiting: &Waiting, partition: Partition) {
        self.frontier.push(Record {
            place: TopicPartition::new(topic::FRONTIER, partition),
            key: Some(waiting.fingerprint.to_string().into()),
            value: Some(encode(waiting)),
            headers: vec![],
            timestamp_ms: waiting.admitted_at_ms,
        });
    }

    /// Builds the plan in effect order: the scope entries that the links of the URLs will need, the URLs, then their
    /// fingerprints in `seen`. Origins complete once the stage learns that the plan is durable.
    pub(crate) fn into_plan(self, entries: &[SeenEntry], partition: Partition, now: Millis) -> Plan<Infallible> {
        let seen = (!entries.is_empty()).then(|| Record {
            place: TopicPartition::new(topic::SEEN, partition),
            key: Some(Bytes::from(partition.to_string())),
            value: Some(SeenBatch { entries: entries.to_vec() }.encode()),
            headers: vec![],
            timestamp_ms: now,
        });
        let steps = [self.scope, self.frontier, seen.into_iter().collect()];
        let steps = steps.into_iter().filter(|records| !records.is_empty()).map(Step::Produce).collect();
        Plan { steps, completes: vec![], token: Some(self.token) }
    }
}
