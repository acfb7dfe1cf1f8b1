//! Disabled rules, to show that a case fails without its rule. The services are unchanged: altered are the data
//! exchanged with the log, the settings and, in `BrokenStage`, the calls between runtime and stage.

mod records;
mod stage;

use std::collections::BTreeSet;

use orbweaver_log::{Commit, ConsumerRecord, Event, MemoryLog, Offset, Record, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_stage::CLAIM_HEADER;

pub(crate) use stage::BrokenStage;

/// A rule of the protocol that can be disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// docs/protocol.md#effect-order: what ends a dispatch is written last. Off: a fetcher writes the outcome first,
    /// then the page, then its row.
    Order,
    /// docs/protocol.md#effect-order: a URL is marked as seen after its frontier record is acknowledged. Off: before.
    SeenLast,
    /// docs/protocol.md#effect-order: a site's block is in `crawl.sites` and restored from there. Off: it is not
    /// restored.
    Blocks,
    /// docs/protocol.md#checkpoints-by-reading: an index advances only by records read back, in order. Off:
    /// acknowledged records advance it past records that others wrote below them.
    Positions,
    /// docs/protocol.md#claims: an owner's records carry its epoch. Off: they carry none; all records of sites carry
    /// one fixed epoch.
    Claims,
    /// docs/protocol.md#proven-checkpoints: an index over a compacted log is discarded once it is older than half of
    /// the log's delete retention. Off: an index of any age is used.
    IndexAge,
    /// docs/protocol.md#co-assignment: a partition is open while its owner holds all of its topics. Off: while it holds
    /// any.
    Together,
    /// docs/protocol.md#offsets: a stage without a commit starts at offset 0. Off: at the log start.
    Offsets,
    /// docs/protocol.md#re-append: the oldest queued URLs are appended again. Off: never.
    Reappend,
    /// docs/protocol.md#pending-admissions: an admitted URL is marked once its records are acknowledged. Off: the log
    /// is not awaited.
    Acknowledged,
    /// docs/protocol.md#depth: a URL that is discovered at a lesser depth is queued at that depth. Off: at that of the
    /// first discovery.
    Depth,
    /// docs/protocol.md#url-as-found: the URL as found is requested. Off: its canonical form.
    AsFound,
    /// docs/protocol.md#one-partition: an outcome goes to its dispatch's partition. Off: to another one.
    Partition,
    /// docs/protocol.md#redirects: the target of a redirect carries the chain that led to it. Off: it carries none.
    Chain,
    /// docs/protocol.md#dispatch-expiry: a dispatch expires. Off: never.
    Expiry,
    /// docs/protocol.md#dispatch-expiry: a process whose clock differs from those of all that are working does not
    /// join. Off: it joins at once.
    ClockDifference,
    /// docs/protocol.md#outstanding-dispatches: outstanding dispatches are bounded by measured outcomes. Off:
    /// practically unbounded.
    Outstanding,
    /// docs/protocol.md#attempts: only a request that was made counts as an attempt. Off: a deferral does, too.
    Attempts,
    /// docs/protocol.md#attempts: leases are restored by reading `crawl.scheduled` back. Off: they are not restored.
    Leases,
    /// docs/adr/0026-fencing-of-requests.md: a process reads the wall clock once. Off: each time.
    SteadyClock,
    /// docs/protocol.md#quarantine: a record that repeatedly crashes its reader becomes a dead letter. Off: commits
    /// carry no metadata about earlier starts.
    Quarantine,
    /// docs/protocol.md#record-limit: a record that the log refuses rejects its own origins. Off: it ends its writer.
    Refusals,
    /// docs/protocol.md#parked-records: records that the frontier parks are not charged to the budget. Off: they are.
    Parking,
    /// docs/protocol.md#answer-delay: a site's politeness delay runs from its response. Off: from the request.
    Answers,
    /// docs/protocol.md#delays-restart: delays restart on assignment. Off: a partition counts as opened a day ago.
    Delays,
    /// docs/protocol.md#fenced-requests: a fetcher sends nothing unless a commit was accepted recently. Off: unchecked.
    Proof,
    /// docs/protocol.md#blocks-and-robots: a robots.txt on another site is requested at that site's rate. Off:
    /// immediately.
    RobotsTime,
    /// docs/protocol.md#blocks-and-robots: a block counts from the outcome's time. Off: from the time at which the
    /// rate-limiter reads the outcome.
    BlockTime,
    /// docs/protocol.md#event-times: a dispatch carries the time of the previous write. Off: it carries none.
    WriteTimes,
    /// docs/protocol.md#settings-versions: a definition names the version that it replaces. Off: it names none, so that
    /// the last one applies.
    Versions,
    /// docs/protocol.md#site-caps: the pages of a site are in `crawl.site-pages` and restored from there. Off: they are not
    /// restored.
    SitePages,
    /// docs/protocol.md#crawl-caps: a frontier uses its share of a remainder once all partitions that it restores are open.
    /// Off: as each one opens.
    SharesLast,
    /// docs/protocol.md#completion: completion is proved by two offset snapshots. Off: one is enough.
    TwoReadings,
    /// docs/protocol.md#record-limit: the services cut records to the log's record limit. Off: to another limit.
    RecordLimit,
    /// docs/protocol.md#restore-end: a reader that has no more records for now is not at the end. Off: it is.
    Ends,
    /// docs/protocol.md#position-and-commit: after a restore, reading continues at the restore end while the commit
    /// stays at the commit point. Off: the commit moves along.
    CommitPoint,
}

/// The disabled rules.
#[derive(Debug, Clone, Default)]
pub struct Broken(BTreeSet<Rule>);

impl Broken {
    /// Disables this rule only.
    #[must_use]
    pub fn without(rule: Rule) -> Self {
        Self(BTreeSet::from([rule]))
    }

    /// Disables this rule as well.
    #[must_use]
    pub fn and(mut self, rule: Rule) -> Self {
        self.0.insert(rule);
        self
    }

    /// Returns `true` if a rule is disabled.
    #[must_use]
    pub fn is_off(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }

    /// Returns the records to append to `log` in place of `records`.
    pub(crate) fn append(&self, mut records: Vec<Record>, partitions: u32, log: &MemoryLog) -> Vec<Record> {
        if self.0.is_empty() {
            return records;
        }
        for record in &mut records {
            match record.tp.topic {
                topic::FRONTIER if self.is_off(Rule::Claims) => record.headers.retain(|(name, _)| *name != "epoch"),
                topic::SITES if self.is_off(Rule::Claims) => records::of_any_epoch(record),
                topic::FRONTIER if self.is_off(Rule::Depth) => records::at_first_depth(record, log),
                topic::SCHEDULED if self.is_off(Rule::Expiry) => records::without_end(record),
                topic::SCHEDULED if self.is_off(Rule::AsFound) => records::as_its_key(record),
                topic::SCHEDULED if self.is_off(Rule::WriteTimes) => records::without_write_time(record),
                topic::DISCOVERED if self.is_off(Rule::Chain) => records::without_chain(record),
                topic::OUTCOMES if self.is_off(Rule::Attempts) => records::as_an_attempt(record),
                topic::OUTCOMES if self.is_off(Rule::Partition) => {
                    record.tp.partition = (record.tp.partition + 1) % partitions;
                }
                _ => {}
            }
        }
        records
    }

    /// Returns the records that a reader receives in place of `records`.
    pub(crate) fn read(&self, mut records: Vec<ConsumerRecord>) -> Vec<ConsumerRecord> {
        let control = records.iter_mut().filter(|record| record.tp.topic == topic::CONTROL);
        control.filter(|_| self.is_off(Rule::Versions)).for_each(records::without_version);
        records
    }

    /// Returns the commit in place of `commit`.
    pub(crate) fn commit(&self, commit: Commit) -> Commit {
        if self.is_off(Rule::Quarantine) { Commit { metadata: String::new(), ..commit } } else { commit }
    }

    /// Returns `true` if an append is acknowledged before it has landed.
    pub(crate) fn acknowledges_early(&self, records: &[Record]) -> bool {
        let is_admission = |record: &Record| {
            let is_owners = record.headers.iter().any(|(name, _)| matches!(*name, "epoch" | CLAIM_HEADER));
            record.tp.topic == topic::FRONTIER && record.value.is_some() && !is_owners
        };
        self.is_off(Rule::Acknowledged) && records.iter().any(is_admission)
    }

    /// Returns the event in place of `event`; `written` returns the end of this process's acknowledged records in a
    /// topic-partition.
    pub(crate) fn poll(&self, event: Event, written: impl Fn(TopicPartition) -> Option<Offset>) -> Event {
        match event {
            Event::Records(mut records) if self.is_off(Rule::Positions) => {
                records.retain(|record| {
                    let passed = written(record.tp).is_some_and(|end| record.offset < end);
                    record.tp.topic != topic::FRONTIER || !passed || is_owners(record)
                });
                Event::Records(records)
            }
            event => event,
        }
    }
}

/// Returns `true` if a record of `crawl.frontier` was written by an owner of its partition.
fn is_owners(record: &ConsumerRecord) -> bool {
    record.value.is_none() || record.header("epoch").is_some() || record.header(CLAIM_HEADER).is_some()
}
