//! Answers to probes: whether a partition has live URLs of a crawl (docs/protocol.md#crawl-completion).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{
    CompletionAnswer, CompletionProbe, Millis, PROBE_KEY, answer_key, decode, encode, topic::CONTROL,
};
use orbweaver_stage::Token;
use orbweaver_url::CrawlName;

use crate::{
    index::CrawlKey,
    pages::{CrawlCounts, PageCaps},
    partition::PartitionFrontier,
};

/// Bit of the tokens of plans with dispatches, apart from those of page counts.
const DISPATCHES: Token = 1 << 63;

/// Age from which a probe is not answered, in milliseconds: its reader has ended without removing it. A reader repeats its
/// probe every few seconds.
const KEPT_MS: Millis = 3_600_000;

/// State of a probe in a partition.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// The partition was read as far as the probe demands; dispatches up to this plan must be durable, and the crawl
    /// must not move meanwhile.
    Fenced {
        plan: u64,
        moved: Offset,
    },
    Answered,
}

#[derive(Debug)]
struct Probe {
    version: Offset,
    ends: Vec<Offset>,
    asked_at_ms: Millis,
    progress: BTreeMap<Partition, Progress>,
}

/// The latest probe of each crawl, and the dispatches in flight.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    probes: BTreeMap<CrawlName, Probe>,
    /// Number of the last plan with dispatches.
    last_plan: u64,
    /// Plans with dispatches that are not durable.
    in_flight: BTreeSet<u64>,
}

impl Probes {
    /// Applies a record of `crawl.control`. Returns `false` if it is no probe.
    pub(crate) fn apply(&mut self, record: &ConsumerRecord) -> bool {
        let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        let Some(name) = key.and_then(|key| key.strip_prefix(PROBE_KEY)) else { return false };
        if record.value.is_none() {
            self.probes.remove(name);
            return true;
        }
        let version = record.offset;
        match decode::<CompletionProbe>("completion-probe", record.value.as_ref()) {
            Ok(CompletionProbe { crawl, ends, asked_at_ms }) if crawl == name => {
                let is_known = self.probes.get(name).is_some_and(|probe| probe.version >= version);
                if !is_known {
                    self.probes.insert(crawl, Probe { version, ends, asked_at_ms, progress: BTreeMap::new() });
                }
            }
            Ok(_) => tracing::warn!(offset = version, "completion probe of another crawl than its key names: ignored"),
            Err(error) => tracing::warn!(offset = version, %error, "completion probe cannot be decoded: ignored"),
        }
        true
    }

    /// Returns the token of a plan with dispatches.
    pub(crate) fn dispatches(&mut self) -> Token {
        self.last_plan += 1;
        self.in_flight.insert(self.last_plan);
        DISPATCHES | self.last_plan
    }

    /// Notes that a plan has ended. Returns `false` if it is not one with dispatches.
    pub(crate) fn settled(&mut self, token: Token) -> bool {
        let is_dispatches = token & DISPATCHES != 0;
        if is_dispatches {
            self.in_flight.remove(&(token & !DISPATCHES));
        }
        is_dispatches
    }

    /// Forgets a partition that is closed; its next owner answers.
    pub(crate) fn leave(&mut self, partition: Partition) {
        for probe in self.probes.values_mut() {
            probe.progress.remove(&partition);
        }
    }

    /// Returns the answers of the open partitions that are due, as records. Those that drain append nothing more.
    pub(crate) fn answers(
        &mut self,
        open: &BTreeMap<Partition, PartitionFrontier>,
        draining: &[Partition],
        caps: &PageCaps,
        now: Millis,
    ) -> Vec<Record> {
        let mut answers = vec![];
        let (last_plan, oldest) = (self.last_plan, self.in_flight.first().copied().unwrap_or(u64::MAX));
        let is_kept = |probe: &Probe| now.saturating_sub(probe.asked_at_ms) < KEPT_MS;
        for (crawl, probe) in self.probes.iter_mut().filter(|(_, probe)| is_kept(probe)) {
            let key = CrawlKey::of(crawl);
            for (&partition, frontier) in open.iter().filter(|(partition, _)| !draining.contains(partition)) {
                let (live, end) = frontier.live(key);
                let Some(demanded) = probe.ends.get(partition as usize) else { continue };
                let fenced = match probe.progress.get(&partition) {
                    _ if end < *demanded => continue,
                    Some(Progress::Answered) => continue,
                    Some(Progress::Fenced { plan, .. }) if *plan >= oldest => continue,
                    Some(Progress::Fenced { moved, .. }) => *moved == live.moved,
                    None => false,
                };
                let CrawlCounts { leased, pages, bytes, .. } = caps.counts_in(partition, crawl);
                if !fenced && leased == 0 {
                    probe.progress.insert(partition, Progress::Fenced { plan: last_plan, moved: live.moved });
                    continue;
                }
                probe.progress.insert(partition, Progress::Answered);
                let answer = CompletionAnswer {
                    crawl: crawl.clone(),
                    partition,
                    probe: probe.version,
                    epoch: frontier.epoch(),
                    open_for_ms: frontier.open_for_ms(),
                    end,
                    live: live.urls,
                    asleep: live.asleep,
                    leased,
                    pages,
                    bytes,
                    moved: live.moved,
                };
                let key = Some(Bytes::from(answer_key(crawl, partition)));
                answers.push(Record::new(TopicPartition::new(CONTROL, partition), key, Some(encode(&answer)), now));
            }
        }
        answers
    }
}
