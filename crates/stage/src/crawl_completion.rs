//! Proof that one crawl is complete while others run (docs/protocol.md#crawl-completion).
//!
//! Offsets alone cannot show that: the groups always have records of other crawls left. The owners of `crawl.frontier`
//! count the live URLs of the crawl instead, twice, and in between everything that was on its way is consumed: it would
//! have become live again, or have moved the crawl.

use std::collections::BTreeMap;

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Log, LogError, Offset, Partition, Record, TopicPartition, topic_partitions};
use orbweaver_messages::{
    ANSWER_KEY, CompletionAnswer, CompletionProbe, LEASE_MS, Millis, Topic, decode, encode, probe_key,
    topic::{self, CONTROL, DISCOVERED, FRONTIER, PAGES, READY, SCHEDULED, SEEDS},
};
use orbweaver_url::CrawlName;

use crate::completion::{PartitionOffsets, holds_a_record};

/// Topics with records that may still lead to a live URL, in the order in which these pass them.
const ON_THE_WAY: [Topic; 5] = [SCHEDULED, READY, SEEDS, PAGES, DISCOVERED];
/// Time after which a probe is repeated: another reader may have removed it when it had its own answers.
const REPEAT_MS: Millis = 10_000;

/// Progress of a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrawlProgress {
    /// Nothing is proven yet.
    Unproven,
    /// The crawl is not complete: these URLs are in the frontier, and these dispatches have no outcome.
    Running { live: u64, leased: u64 },
    /// The crawl was complete, or at its cap with live URLs.
    Complete(CrawlTotals),
}

/// Counts of a crawl that is proven complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrawlTotals {
    /// URLs in the frontier that are held at a cap.
    pub live: u64,
    /// URLs that sleep until their next visit.
    pub asleep: u64,
    /// Fetched pages.
    pub pages: u64,
    /// Decoded bytes of the bodies of pages and revisits.
    pub bytes: u64,
    /// Sum of the offsets in `crawl.frontier` up to which the last URL that became live, or ceased to be, is contained: equal for two
    /// proofs if nothing of the crawl moved, and no partition, between them.
    pub moved: u64,
}

type Answers = BTreeMap<Partition, CompletionAnswer>;

#[derive(Debug)]
enum Step {
    Idle,
    /// Waits for the answers of all partitions to this probe, up to these ends. `first` are those to the first one.
    Probing {
        probe: Offset,
        ends: Vec<Offset>,
        asked_at_ms: Millis,
        first: Option<Answers>,
        answers: Answers,
    },
    /// From this time on, waits until the topics of [`ON_THE_WAY`] from this one on are consumed up to their ends.
    Draining {
        first: Answers,
        from_ms: Millis,
        topic: usize,
        ends: Option<Vec<Offset>>,
    },
}

/// Proof of completion of one crawl, in steps.
#[derive(Debug)]
pub struct CrawlCompletion {
    crawl: CrawlName,
    step: Step,
    has_probed: bool,
}

impl CrawlCompletion {
    #[must_use]
    pub fn new(crawl: CrawlName) -> Self {
        Self { crawl, step: Step::Idle, has_probed: false }
    }

    /// Applies a record of `crawl.control`; all that are appended after a step must be passed in before the next one.
    pub fn apply(&mut self, record: &ConsumerRecord) {
        let Step::Probing { probe, ends, answers, .. } = &mut self.step else { return };
        if !record.key.as_deref().is_some_and(|key| key.starts_with(ANSWER_KEY.as_bytes())) || record.value.is_none() {
            return;
        }
        match decode::<CompletionAnswer>("completion-answer", record.value.as_ref()) {
            // An answer to a later probe of another reader counts too, if it is about as much of the log.
            Ok(answer)
                if answer.crawl == self.crawl
                    && answer.probe >= *probe
                    && ends.get(answer.partition as usize).is_some_and(|end| answer.end >= *end)
                    // Not from a former owner that resumed.
                    && answers.get(&answer.partition).is_none_or(|known| known.epoch <= answer.epoch) =>
            {
                answers.insert(answer.partition, answer);
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(offset = record.offset, %error, "completion answer cannot be decoded: ignored");
            }
        }
    }

    /// Takes the next step. `at_cap`: the crawl has reached its page cap, and URLs that are not leased count as held.
    ///
    /// # Errors
    /// Fails if the log fails; the proof begins again with the next step.
    pub async fn step(&mut self, log: &dyn Log, now: Millis, at_cap: bool) -> Result<CrawlProgress, LogError> {
        match std::mem::replace(&mut self.step, Step::Idle) {
            Step::Idle => self.probe(log, now, None).await,
            Step::Probing { first, answers, .. } if answers.len() == log.partitions(FRONTIER)? as usize => {
                Ok(self.judge((first, answers), now, at_cap))
            }
            Step::Probing { asked_at_ms, first, .. } if !(0..REPEAT_MS).contains(&now.saturating_sub(asked_at_ms)) => {
                self.probe(log, now, first).await
            }
            Step::Draining { first, from_ms, topic, ends } if now >= from_ms => {
                self.drain(log, now, (first, topic, ends)).await
            }
            waiting @ (Step::Probing { .. } | Step::Draining { .. }) => {
                self.step = waiting;
                Ok(CrawlProgress::Unproven)
            }
        }
    }

    /// Removes the probe; another reader of the same crawl repeats its own.
    ///
    /// # Errors
    /// Fails if the log fails.
    pub async fn end(&self, log: &dyn Log, now: Millis) -> Result<(), LogError> {
        if !self.has_probed {
            return Ok(());
        }
        log.append(vec![self.record(None, now)]).await.map(drop)
    }

    fn record(&self, probe: Option<&CompletionProbe>, now: Millis) -> Record {
        let key = Some(Bytes::from(probe_key(&self.crawl)));
        Record::new(TopicPartition::new(CONTROL, 0), key, probe.map(encode), now)
    }

    async fn probe(&mut self, log: &dyn Log, now: Millis, first: Option<Answers>) -> Result<CrawlProgress, LogError> {
        let bounds = log.all_bounds(&topic_partitions(log, &[FRONTIER])?).await?;
        let ends: Vec<_> = bounds.iter().map(|bounds| bounds.end).collect();
        let probe = CompletionProbe { crawl: self.crawl.clone(), ends: ends.clone(), asked_at_ms: now };
        self.has_probed = true;
        let offsets = log.append(vec![self.record(Some(&probe), now)]).await?;
        let probe = offsets.first().copied().unwrap_or_default();
        self.step = Step::Probing { probe, ends, asked_at_ms: now, first, answers: Answers::new() };
        Ok(CrawlProgress::Unproven)
    }

    /// Compares the answers with those to the first probe.
    fn judge(&mut self, (first, answers): (Option<Answers>, Answers), now: Millis, at_cap: bool) -> CrawlProgress {
        let sum = |of: fn(&CompletionAnswer) -> u64| answers.values().map(of).sum();
        let (live, leased) = (sum(|answer| answer.live), sum(|answer| answer.leased));
        if answers.values().any(|answer| answer.leased > 0 || answer.live > 0 && !at_cap) {
            return CrawlProgress::Running { live, leased };
        }
        let state = |answers: &Answers| answers.values().map(|answer| (answer.epoch, answer.moved)).collect::<Vec<_>>();
        if first.is_some_and(|first| state(&first) == state(&answers)) {
            return CrawlProgress::Complete(CrawlTotals {
                live,
                asleep: sum(|answer| answer.asleep),
                pages: sum(|answer| answer.pages),
                bytes: sum(|answer| answer.bytes),
                moved: sum(|answer| answer.moved),
            });
        }
        // A dispatch of an earlier owner may be in flight for as long as its lease. A claim at offset 0 is the first.
        let successors = answers.values().filter(|answer| answer.epoch > 0);
        let open_for_ms = successors.map(|answer| answer.open_for_ms).min().unwrap_or(LEASE_MS);
        let from_ms = now.saturating_add((LEASE_MS - open_for_ms).max(0));
        self.step = Step::Draining { first: answers, from_ms, topic: 0, ends: None };
        CrawlProgress::Unproven
    }

    async fn drain(
        &mut self,
        log: &dyn Log,
        now: Millis,
        (first, index, ends): (Answers, usize, Option<Vec<Offset>>),
    ) -> Result<CrawlProgress, LogError> {
        let Some(topic) = ON_THE_WAY.get(index) else { return self.probe(log, now, Some(first)).await };
        let tps = topic_partitions(log, &[*topic])?;
        let ends = match ends {
            Some(ends) => ends,
            None => log.all_bounds(&tps).await?.iter().map(|bounds| bounds.end).collect(),
        };
        let is_consumed = is_consumed(log, *topic, &tps, &ends).await?;
        let (topic, ends) = if is_consumed { (index + 1, None) } else { (index, Some(ends)) };
        self.step = Step::Draining { first, from_ms: now, topic, ends };
        Ok(CrawlProgress::Unproven)
    }
}

/// Returns `true` if all groups of the pipeline have committed these partitions up to `ends`, but for gaps without
/// records. Fails if records were deleted before they were processed.
async fn is_consumed(log: &dyn Log, topic: Topic, tps: &[TopicPartition], ends: &[Offset]) -> Result<bool, LogError> {
    let described = topic::topics().iter().find(|described| described.topic == topic);
    // Before the commits: records are deleted below commits only.
    let bounds = log.all_bounds(tps).await?;
    for group in described.map_or(&[][..], |described| described.consumers) {
        let commits = log.committed(group, tps).await?;
        for (((tp, commit), end), bounds) in tps.iter().zip(commits).zip(ends).zip(&bounds) {
            let (tp, start, end, committed) = (*tp, bounds.start, *end, commit.map(|commit| commit.offset));
            let standing = PartitionOffsets { tp, start, end, committed, records_left: false };
            if standing.is_overtaken() {
                return Err(LogError::OutOfRange { tp, offset: committed.unwrap_or(0), start, end: bounds.end });
            }
            if standing.lag() > 0 && holds_a_record(log, &standing).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, Commit, MemoryLog, TopicSpec};

    use super::*;

    const NOW: Millis = 1_000_000_000;

    fn log() -> MemoryLog {
        let topics = ON_THE_WAY.into_iter().chain([CONTROL, FRONTIER]);
        MemoryLog::new(&topics.map(|topic| TopicSpec::new(topic, 2, Cleanup::Delete)).collect::<Vec<_>>())
    }

    async fn append(log: &MemoryLog, topic: Topic) {
        log.append(vec![Record::new(TopicPartition::new(topic, 1), None, Some(Bytes::new()), NOW)]).await.unwrap();
    }

    /// Commits all that a topic holds, for every group of the pipeline.
    async fn consume(log: &MemoryLog, topic: Topic) {
        let tps = topic_partitions(log, &[topic]).unwrap();
        let bounds = log.all_bounds(&tps).await.unwrap();
        let commit = |bounds: &orbweaver_log::Bounds| Commit { offset: bounds.end, ..Commit::default() };
        let commits: Vec<_> = tps.iter().copied().zip(bounds.iter().map(commit)).collect();
        for group in topic::topics().iter().find(|described| described.topic == topic).unwrap().consumers {
            let mut member = log.consumer(group, &[topic]).unwrap();
            while member.poll(std::time::Duration::ZERO).await.unwrap().is_some() {}
            member.commit(commits.clone()).await.unwrap();
        }
    }

    /// Answers the latest probe for both partitions.
    fn answer(proof: &mut CrawlCompletion, log: &MemoryLog, change: impl Fn(&mut CompletionAnswer)) {
        let probe = log.records(TopicPartition::new(CONTROL, 0)).last().unwrap().offset;
        for partition in [0, 1] {
            let (crawl, open_for_ms) = (proof.crawl.clone(), LEASE_MS);
            let mut answer = CompletionAnswer {
                crawl,
                partition,
                probe,
                epoch: 3,
                open_for_ms,
                end: 0,
                live: 0,
                asleep: 0,
                leased: 0,
                pages: 5,
                bytes: 0,
                moved: 7,
            };
            change(&mut answer);
            let key = Some(orbweaver_messages::answer_key(&answer.crawl, partition).into());
            let tp = TopicPartition::new(CONTROL, partition);
            let value = Some(encode(&answer));
            proof.apply(&ConsumerRecord { tp, offset: 9, timestamp_ms: 0, key, value, headers: vec![] });
        }
    }

    /// Takes steps until the proof waits for answers, with everything consumed.
    async fn drained(proof: &mut CrawlCompletion, log: &MemoryLog) {
        for topic in ON_THE_WAY {
            consume(log, topic).await;
        }
        for _ in 0..=ON_THE_WAY.len() {
            assert_eq!(proof.step(log, NOW, false).await.unwrap(), CrawlProgress::Unproven);
        }
        assert!(matches!(proof.step, Step::Probing { first: Some(_), .. }), "{:?}", proof.step);
    }

    #[tokio::test]
    async fn a_crawl_is_proven_complete_while_records_of_another_keep_coming() {
        let (log, mut proof) = (log(), CrawlCompletion::new("docs".parse().unwrap()));
        assert_eq!(proof.step(&log, NOW, false).await.unwrap(), CrawlProgress::Unproven);
        answer(&mut proof, &log, |_| {});
        for topic in ON_THE_WAY {
            append(&log, topic).await;
        }
        for topic in ON_THE_WAY {
            for _ in 0..3 {
                assert_eq!(proof.step(&log, NOW, false).await.unwrap(), CrawlProgress::Unproven);
                let Step::Draining { topic: index, .. } = &proof.step else { panic!("{:?}", proof.step) };
                assert_eq!(ON_THE_WAY[*index], topic, "nothing of it is consumed");
            }
            consume(&log, topic).await;
            append(&log, topic).await;
            proof.step(&log, NOW, false).await.unwrap();
        }
        proof.step(&log, NOW, false).await.unwrap();
        answer(&mut proof, &log, |_| {});
        assert_eq!(
            proof.step(&log, NOW, false).await.unwrap(),
            CrawlProgress::Complete(CrawlTotals { pages: 10, moved: 14, ..CrawlTotals::default() })
        );
    }

    #[tokio::test]
    async fn what_moves_the_crawl_or_its_owner_between_two_probes_begins_the_proof_again() {
        type Change = fn(&mut CompletionAnswer);
        let changes: [(Change, u64); 2] = [(|answer| answer.moved += 1, 16), (|answer| answer.epoch += 1, 14)];
        for (change, moved) in changes {
            let (log, mut proof) = (log(), CrawlCompletion::new("docs".parse().unwrap()));
            proof.step(&log, NOW, false).await.unwrap();
            answer(&mut proof, &log, |_| {});
            proof.step(&log, NOW, false).await.unwrap();
            drained(&mut proof, &log).await;
            answer(&mut proof, &log, change);
            assert_eq!(proof.step(&log, NOW, false).await.unwrap(), CrawlProgress::Unproven);
            drained(&mut proof, &log).await;
            answer(&mut proof, &log, change);
            assert_eq!(
                proof.step(&log, NOW, false).await.unwrap(),
                CrawlProgress::Complete(CrawlTotals { pages: 10, moved, ..CrawlTotals::default() })
            );
        }
    }

    #[tokio::test]
    async fn live_urls_are_reported_and_at_the_cap_only_those_that_are_leased() {
        let (log, mut proof) = (log(), CrawlCompletion::new("docs".parse().unwrap()));
        for (at_cap, leased, is_running) in [(false, 0, true), (true, 1, true), (true, 0, false)] {
            proof.step(&log, NOW, at_cap).await.unwrap();
            answer(&mut proof, &log, |answer| (answer.live, answer.leased) = (2, leased));
            let progress = proof.step(&log, NOW, at_cap).await.unwrap();
            let running = CrawlProgress::Running { live: 4, leased: 2 * leased };
            assert_eq!(progress == running, is_running, "{progress:?}");
        }
    }

    #[tokio::test]
    async fn a_partition_that_was_opened_within_a_lease_delays_the_proof_and_a_lost_probe_is_repeated() {
        let (log, mut proof) = (log(), CrawlCompletion::new("docs".parse().unwrap()));
        proof.step(&log, NOW, false).await.unwrap();
        let probes = || log.records(TopicPartition::new(CONTROL, 0)).len();
        proof.step(&log, NOW + REPEAT_MS - 1, false).await.unwrap();
        assert_eq!(probes(), 1);
        proof.step(&log, NOW + REPEAT_MS, false).await.unwrap();
        assert_eq!(probes(), 2);
        answer(&mut proof, &log, |answer| answer.open_for_ms = 1_000);
        let over_ms = NOW + LEASE_MS - 1_000;
        for now in [NOW, over_ms - 1] {
            proof.step(&log, now, false).await.unwrap();
            proof.step(&log, now, false).await.unwrap();
            assert!(matches!(proof.step, Step::Draining { topic: 0, ends: None, .. }), "{:?}", proof.step);
        }
        proof.step(&log, over_ms, false).await.unwrap();
        assert!(matches!(proof.step, Step::Draining { topic: 1, .. }), "{:?}", proof.step);
    }

    #[tokio::test]
    async fn an_answer_about_less_of_the_log_or_from_a_former_owner_does_not_count() {
        let (log, mut proof) = (log(), CrawlCompletion::new("docs".parse().unwrap()));
        append(&log, FRONTIER).await;
        proof.step(&log, NOW, false).await.unwrap();
        answer(&mut proof, &log, |_| {});
        let counted = |proof: &CrawlCompletion| match &proof.step {
            Step::Probing { answers, .. } => answers.values().map(|answer| answer.epoch).collect::<Vec<_>>(),
            step => panic!("{step:?}"),
        };
        assert_eq!(counted(&proof), [3], "partition 1 has a record that is not read");
        answer(&mut proof, &log, |answer| (answer.end, answer.epoch) = (1, 5));
        answer(&mut proof, &log, |answer| (answer.end, answer.epoch) = (1, 4));
        assert_eq!(counted(&proof), [5, 5]);
    }
}
