//! Writes the events of crawls that are due.

use std::collections::BTreeMap;

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Log, LogError, Offset, Record, TopicPartition, read_up_to, topic_partitions};
use orbweaver_messages::{
    CrawlEvent, Millis, decode, encode,
    topic::{CONTROL, EVENTS},
};
#[cfg(doc)]
use orbweaver_stage::crawl_completion::CrawlTotals;
use orbweaver_stage::crawl_completion::{CrawlCompletion, CrawlProgress};
use orbweaver_url::CrawlName;

use super::{CrawlState, SHORTEST_ROUND_MS, Step, next_step};

/// Partition of `crawl.events` that holds all of them, and of `crawl.frontier`, whose owner writes them.
pub(crate) const EVENTS_PARTITION: u32 = 0;
/// Maximum number of crawls that are proven at a time: each probe is a record per partition.
const PROVEN_AT_ONCE: usize = 16;
/// Time after which a crawl that was found not to be complete is probed again, in milliseconds.
const PROVE_AGAIN_MS: Millis = 10_000;

/// Proof that is under way, or that rests after it failed.
#[derive(Debug)]
struct Proof {
    completion: CrawlCompletion,
    rests_until_ms: Millis,
}

/// State of a crawl at its last proof, or when it was first seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at_ms: Millis,
    /// [`CrawlState::changes`].
    changes: u64,
    /// [`CrawlTotals::moved`], if there was a proof.
    moved: Option<u64>,
}

/// Writer of events. Reads its own events back: two writers, while the partition moves, may repeat one, and the later one
/// continues from the last in the log.
#[derive(Debug, Default)]
pub struct EventWriter {
    last: BTreeMap<CrawlName, CrawlEvent>,
    /// Offset of the next event to read.
    next: Offset,
    proofs: BTreeMap<CrawlName, Proof>,
    seen: BTreeMap<CrawlName, Seen>,
    /// Offsets of the next records of `crawl.control` to read; empty while nothing is proven.
    control: BTreeMap<TopicPartition, Offset>,
}

impl EventWriter {
    /// Forgets the proofs, because another process owns the partition.
    pub fn leave(&mut self) {
        self.proofs.clear();
    }

    /// Takes one step for each crawl.
    ///
    /// # Errors
    /// Fails if the log fails; the step is repeated with the next call.
    pub async fn step(&mut self, log: &dyn Log, crawls: &[CrawlState], now: Millis) -> Result<(), LogError> {
        self.read_events(log).await?;
        let (mut events, mut to_prove) = (vec![], BTreeMap::new());
        for state in crawls {
            let first = Seen { at_ms: now, changes: state.changes, moved: None };
            let seen = self.seen.entry(state.name.clone()).or_insert(first);
            let last = self.last.get(&state.name);
            let is_counted = last.is_some_and(|last| last.pages == state.counts.pages);
            let has_moved = seen.changes != state.changes || seen.moved.is_none() && !is_counted;
            let may_prove_again = !(0..SHORTEST_ROUND_MS).contains(&now.saturating_sub(seen.at_ms));
            match next_step(last, state, has_moved && may_prove_again, now) {
                Step::Write(kind) => events.push(state.event(last, kind, now)),
                Step::Prove => drop(to_prove.insert(&state.name, state)),
                Step::Nothing => {}
            }
        }
        self.choose_proofs(log, &to_prove, now).await?;
        events.extend(self.prove(log, &to_prove, now).await?);
        if events.is_empty() {
            return Ok(());
        }
        let record = |event: CrawlEvent| {
            let key = Some(Bytes::from(event.crawl.to_string()));
            Record::new(TopicPartition::new(EVENTS, EVENTS_PARTITION), key, Some(encode(&event)), now)
        };
        log.append(events.into_iter().map(record).collect()).await.map(drop)
    }

    /// Reads `crawl.events` up to the log end.
    async fn read_events(&mut self, log: &dyn Log) -> Result<(), LogError> {
        let tp = TopicPartition::new(EVENTS, EVENTS_PARTITION);
        let last = &mut self.last;
        let apply = |record: ConsumerRecord| match decode::<CrawlEvent>("crawl event", record.value.as_ref()) {
            Ok(event) => drop(last.insert(event.crawl.clone(), event)),
            Err(error) => tracing::warn!(offset = record.offset, %error, "event of a crawl cannot be decoded: ignored"),
        };
        self.next = read_up_to(log, tp, self.next, log.bounds(tp).await?, apply).await?;
        Ok(())
    }

    /// Ends the proofs of other crawls than these, and begins those of as many more as may be proven at a time.
    async fn choose_proofs(
        &mut self,
        log: &dyn Log,
        to_prove: &BTreeMap<&CrawlName, &CrawlState>,
        now: Millis,
    ) -> Result<(), LogError> {
        let ended: Vec<_> = self.proofs.keys().filter(|crawl| !to_prove.contains_key(crawl)).cloned().collect();
        for crawl in ended {
            if let Some(proof) = self.proofs.remove(&crawl) {
                proof.completion.end(log, now).await?;
            }
        }
        let active = self.proofs.values().filter(|proof| proof.rests_until_ms <= now).count();
        let new = to_prove.keys().filter(|crawl| !self.proofs.contains_key(**crawl));
        let new: Vec<CrawlName> =
            new.take(PROVEN_AT_ONCE.saturating_sub(active)).map(|crawl| (*crawl).clone()).collect();
        for crawl in new {
            let completion = CrawlCompletion::new(crawl.clone());
            self.proofs.insert(crawl, Proof { completion, rests_until_ms: 0 });
        }
        Ok(())
    }

    /// Takes a step of each proof. Returns the events of the crawls that are proven complete.
    async fn prove(
        &mut self,
        log: &dyn Log,
        to_prove: &BTreeMap<&CrawlName, &CrawlState>,
        now: Millis,
    ) -> Result<Vec<CrawlEvent>, LogError> {
        self.read_answers(log).await?;
        let mut events = vec![];
        for (crawl, proof) in self.proofs.iter_mut().filter(|(_, proof)| proof.rests_until_ms <= now) {
            let Some(state) = to_prove.get(crawl) else { continue };
            match proof.completion.step(log, now, state.is_at_cap && !state.is_paused).await? {
                CrawlProgress::Complete(totals) => {
                    let proven = Seen { at_ms: now, changes: state.changes, moved: Some(totals.moved) };
                    let moved = self.seen.insert(crawl.clone(), proven).and_then(|seen| seen.moved);
                    let last = self.last.get(crawl);
                    let event = state.proven(last, totals, now);
                    if !last.is_some_and(|last| is_repeated(last, &event, moved.map(|moved| moved == totals.moved))) {
                        events.push(event);
                    }
                }
                CrawlProgress::Running { .. } => proof.rests_until_ms = now.saturating_add(PROVE_AGAIN_MS),
                CrawlProgress::Unproven => {}
            }
        }
        Ok(events)
    }

    /// Passes the answers to probes on to the proofs.
    async fn read_answers(&mut self, log: &dyn Log) -> Result<(), LogError> {
        if self.proofs.is_empty() {
            self.control.clear();
            return Ok(());
        }
        let tps = topic_partitions(log, &[CONTROL])?;
        for (tp, bounds) in tps.iter().zip(log.all_bounds(&tps).await?) {
            // No answer to a probe that is still to be written is before the first log end.
            let next = self.control.entry(*tp).or_insert(bounds.end);
            let proofs = &mut self.proofs;
            let apply = |record| proofs.values_mut().for_each(|proof| proof.completion.apply(&record));
            *next = read_up_to(log, *tp, *next, bounds, apply).await?;
        }
        Ok(())
    }
}

/// Returns `true` if a proven event says nothing that is not known since the last one. `has_rested`: whether nothing of the crawl
/// has moved since its last proof, if that is known.
fn is_repeated(last: &CrawlEvent, event: &CrawlEvent, has_rested: Option<bool>) -> bool {
    let left = |event: &CrawlEvent| (event.queued > 0, event.asleep > 0);
    let has_rested = has_rested.unwrap_or((last.pages, last.bytes) == (event.pages, event.bytes));
    last.complete && left(last) == left(event) && has_rested
}
