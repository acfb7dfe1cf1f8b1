//! Rules that are switched off, so that a case can be shown to fail without its rule. The services stay as they are: what is
//! broken is what the log tells them and takes of them, how they are set, and, in `BrokenStage`, what the runtime hears of a
//! stage.

mod records;
mod stage;

use std::collections::BTreeSet;

use orbweaver_log::{Commit, Delivered, Event, MemoryLog, Offset, Record, TopicPartition};
use orbweaver_messages::topic;
use orbweaver_stage::CLAIM_HEADER;

pub(crate) use stage::BrokenStage;

/// A rule of the protocol that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// 1: what ends a dispatch is written last. Off: a fetcher writes the outcome first, then the page, then its row.
    Order,
    /// 1: a URL is marked as seen after its record of the frontier is acknowledged. Off: before.
    SeenLast,
    /// 2: an index moves by records read back, in order. Off: what was acknowledged moves it past what others wrote below.
    Positions,
    /// 3: an owner's records carry its epoch. Off: they carry none; records of sites all carry the same one.
    Claims,
    /// 5: a partition is open while its owner holds all of its topics. Off: while it holds any.
    Together,
    /// 6: a stage without a commit begins at offset 0. Off: where the log begins.
    Offsets,
    /// 8: the lowest waiting records are appended again. Off: never.
    Reappend,
    /// 9: what was let through is marked when what it caused is acknowledged. Off: nobody waits for the log.
    Acknowledged,
    /// 10: a URL that is found at a lesser depth waits at that depth. Off: at the depth at which it was found first.
    Depth,
    /// 11: the URL as found is requested. Off: its canonical form.
    AsFound,
    /// 12: outcomes go where their dispatch came from. Off: they go elsewhere.
    Partition,
    /// 13: the target of a redirect carries the chain that led to it. Off: it carries none.
    Chain,
    /// 14: a dispatch is not used past its time. Off: dispatches live for ever.
    Expiry,
    /// 15: outstanding dispatches are bounded by measured outcomes. Off: by nothing.
    Outstanding,
    /// 16: only a request that was made counts as an attempt. Off: a deferral does, too.
    Attempts,
    /// 17: a record that ends its reader again and again goes to the dead letters. Off: no commit says what happened before.
    Quarantine,
    /// 17: a record that the log refuses rejects its own origins. Off: it ends its writer.
    Refusals,
    /// 18: what the frontier parks is not charged. Off: it is.
    Parking,
    /// 19: a site's clock runs from its answer. Off: from the request.
    Answers,
    /// 20: delays restart on assignment. Off: a partition counts as opened a day ago.
    Delays,
    /// 21: a fetcher sends nothing unless a commit was accepted not long ago. Off: nobody looks.
    Proof,
    /// 22: a robots.txt on another site is requested in that site's time. Off: at once.
    RobotsTime,
    /// 22: a block counts from the outcome's time. Off: from the moment at which the rate-limiter reads the outcome.
    BlockTime,
    /// 23: a dispatch carries the time of the previous write. Off: it carries none.
    WriteTimes,
    /// 24: a definition names the version that it replaces. Off: it names none, so that the last one applies.
    Versions,
    /// 25: completion is proved by two readings. Off: one is enough.
    TwoReadings,
    /// 27: the services cut what they write to the log's record limit. Off: to another one.
    RecordLimit,
    /// 28: a reader that has nothing more for now is not at the end. Off: it is.
    Ends,
    /// After a restore, reading goes on at its end while the commit stays at the commit point. Off: the commit moves along.
    CommitPoint,
}

/// The rules that are switched off.
#[derive(Debug, Clone, Default)]
pub struct Broken(BTreeSet<Rule>);

impl Broken {
    /// Without this rule.
    #[must_use]
    pub fn without(rule: Rule) -> Self {
        Self(BTreeSet::from([rule]))
    }

    /// Without this rule, too.
    #[must_use]
    pub fn and(mut self, rule: Rule) -> Self {
        self.0.insert(rule);
        self
    }

    /// Whether a rule is switched off.
    #[must_use]
    pub fn is_off(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }

    /// What is appended to `log` in place of `records`.
    pub(crate) fn append(&self, mut records: Vec<Record>, partitions: u32, log: &MemoryLog) -> Vec<Record> {
        if self.0.is_empty() {
            return records;
        }
        for record in &mut records {
            match record.place.topic {
                topic::FRONTIER if self.is_off(Rule::Claims) => record.headers.retain(|(name, _)| *name != "epoch"),
                topic::SITES if self.is_off(Rule::Claims) => records::of_any_epoch(record),
                topic::FRONTIER if self.is_off(Rule::Depth) => records::at_first_depth(record, log),
                topic::SCHEDULED if self.is_off(Rule::Expiry) => records::without_end(record),
                topic::SCHEDULED if self.is_off(Rule::AsFound) => records::as_its_key(record),
                topic::SCHEDULED if self.is_off(Rule::WriteTimes) => records::without_write_time(record),
                topic::DISCOVERED if self.is_off(Rule::Chain) => records::without_chain(record),
                topic::OUTCOMES if self.is_off(Rule::Attempts) => records::as_an_attempt(record),
                topic::OUTCOMES if self.is_off(Rule::Partition) => {
                    record.place.partition = (record.place.partition + 1) % partitions;
                }
                _ => {}
            }
        }
        records
    }

    /// What is read in place of `records`.
    pub(crate) fn read(&self, mut records: Vec<Delivered>) -> Vec<Delivered> {
        let control = records.iter_mut().filter(|record| record.place.topic == topic::CONTROL);
        control.filter(|_| self.is_off(Rule::Versions)).for_each(records::without_version);
        records
    }

    /// What is committed in place of `commit`.
    pub(crate) fn commit(&self, commit: Commit) -> Commit {
        if self.is_off(Rule::Quarantine) { Commit { metadata: String::new(), ..commit } } else { commit }
    }

    /// Whether an append is acknowledged before it has landed.
    pub(crate) fn acknowledges_early(&self, records: &[Record]) -> bool {
        self.is_off(Rule::Acknowledged)
            && records.iter().any(|record| record.place.topic == topic::FRONTIER && record.headers.is_empty())
    }

    /// What is told in place of `event`; `written` is the end of what was acknowledged here of a place.
    pub(crate) fn poll(&self, event: Event, written: impl Fn(TopicPartition) -> Option<Offset>) -> Event {
        match event {
            Event::Records(mut records) if self.is_off(Rule::Positions) => {
                records.retain(|record| {
                    let passed = written(record.place).is_some_and(|end| record.offset < end);
                    record.place.topic != topic::FRONTIER || !passed || is_owners(record)
                });
                Event::Records(records)
            }
            event => event,
        }
    }
}

/// Whether a record of `crawl.frontier` was written by an owner of it.
fn is_owners(record: &Delivered) -> bool {
    record.value.is_none() || record.header("epoch").is_some() || record.header(CLAIM_HEADER).is_some()
}
