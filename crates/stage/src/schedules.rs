//! Random schedules of all events of a consumer, over the pure parts together: in any order, no offset is committed
//! before all lower ones are complete, every record completes exactly once per assignment, and the budget returns to
//! zero.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::{Topic, topic};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::{
    Limits, Origin,
    assignment::{Assignment, Change, Drain, PartitionAction},
    ledger::Ledger,
    open_partitions::{Completion, Delivery, OpenPartitions, TopicPartitionState},
};

const TOPICS: &[Topic] = &[topic::FRONTIER, topic::OUTCOMES];
const PARTITIONS: Partition = 3;

#[derive(Debug, Clone)]
enum Event {
    Change(Change, Partition, usize),
    Restored(Partition),
    /// Number of records of one topic-partition, and the offsets skipped before each new one.
    Poll(Partition, usize, u8, u8),
    /// Completes one of all origins ever delivered, possibly again.
    Complete(prop::sample::Index),
    Park(prop::sample::Index),
    Commit,
    Drained(Partition),
}

fn event() -> impl Strategy<Value = Event> {
    let partition = || 0..PARTITIONS;
    let topic = || 0..TOPICS.len();
    let change = prop_oneof![3 => Just(Change::Assigned), 1 => Just(Change::Revoked), 1 => Just(Change::Lost)];
    prop_oneof![
        5 => (change, partition(), topic()).prop_map(|(change, p, t)| Event::Change(change, p, t)),
        4 => partition().prop_map(Event::Restored),
        8 => (partition(), topic(), 1u8..20, 0u8..5).prop_map(|(p, t, count, gap)| Event::Poll(p, t, count, gap)),
        16 => any::<prop::sample::Index>().prop_map(Event::Complete),
        2 => any::<prop::sample::Index>().prop_map(Event::Park),
        3 => Just(Event::Commit),
        2 => partition().prop_map(Event::Drained),
    ]
}

/// The environment of the pure parts: contents of the log, and the true state.
struct World {
    assignment: Assignment,
    now: Instant,
    served: OpenPartitions,
    restoring: BTreeMap<Partition, u32>,
    /// Commits of the group, which outlive assignments.
    commits: BTreeMap<TopicPartition, Offset>,
    /// Topic-partitions held, from the broker's view.
    held: BTreeSet<TopicPartition>,
    /// Records by topic-partition, and whether each ever completed under a live assignment.
    records: BTreeMap<TopicPartition, BTreeMap<Offset, bool>>,
    position: BTreeMap<TopicPartition, Offset>,
    origins: Vec<Origin>,
    completed: BTreeSet<Origin>,
}

impl World {
    fn new() -> Self {
        Self {
            assignment: Assignment::new(TOPICS),
            now: Instant::now(),
            served: OpenPartitions::new(TOPICS, Limits { records: 50, bytes: 10_000 }),
            restoring: BTreeMap::new(),
            commits: BTreeMap::new(),
            held: BTreeSet::new(),
            records: BTreeMap::new(),
            position: BTreeMap::new(),
            origins: vec![],
            completed: BTreeSet::new(),
        }
    }

    fn happens(&mut self, event: &Event) -> Result<(), TestCaseError> {
        match *event {
            Event::Change(change, partition, topic) => {
                let tp = at(partition, topic);
                match change {
                    Change::Assigned => drop(self.held.insert(tp)),
                    Change::Lost => drop(self.held.remove(&tp)),
                    Change::Revoked => {}
                }
                let deadline = self.now + Duration::from_secs(5);
                let actions = self.assignment.change(change, &[tp], Drain { deadline, barrier: 0 });
                self.apply_actions(actions)
            }
            Event::Restored(partition) => {
                let Some(epoch) = self.restoring.remove(&partition) else { return Ok(()) };
                prop_assert!(self.assignment.restored(partition, epoch));
                let tps = (0..TOPICS.len()).map(|topic| {
                    let commit = self.commits.get(&at(partition, topic)).copied().unwrap_or(0);
                    self.position.insert(at(partition, topic), commit);
                    TopicPartitionState::new(at(partition, topic), Ledger::starting_at(commit), commit)
                });
                let tps = tps.collect();
                self.served.open(partition, epoch, tps);
                Ok(())
            }
            Event::Poll(partition, topic, count, gap) => self.poll(at(partition, topic), count, gap),
            Event::Complete(index) => {
                let Some(&origin) = self.pick(index) else { return Ok(()) };
                self.complete(origin)
            }
            Event::Park(index) => {
                if let Some(&origin) = self.pick(index) {
                    self.served.park(origin);
                }
                Ok(())
            }
            Event::Commit => {
                let moved = self.served.moved();
                self.commit(moved)
            }
            Event::Drained(partition) => {
                let (actions, _) = self.assignment.drained(self.now, |quiet, _| quiet == partition);
                self.apply_actions(actions)
            }
        }
    }

    fn complete(&mut self, origin: Origin) -> Result<(), TestCaseError> {
        match self.served.complete(origin) {
            Completion::Completed => {
                prop_assert!(self.completed.insert(origin), "completed twice under one assignment");
                self.records.get_mut(&origin.tp).unwrap().insert(origin.offset, true);
            }
            Completion::Twice => prop_assert!(self.completed.contains(&origin)),
            Completion::Late => {}
        }
        Ok(())
    }

    /// Checks that nothing is charged or outstanding.
    fn is_free(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!((self.served.budget().records(), self.served.budget().bytes()), (0, 0));
        prop_assert_eq!(self.served.outstanding(), 0);
        Ok(())
    }

    fn pick(&self, index: prop::sample::Index) -> Option<&Origin> {
        (!self.origins.is_empty()).then(|| index.get(&self.origins))
    }

    /// Delivers records from the position of a topic-partition: existing ones first, then new ones.
    fn poll(&mut self, tp: TopicPartition, count: u8, gap: u8) -> Result<(), TestCaseError> {
        let Some(position) = self.position.get_mut(&tp) else { return Ok(()) };
        let records = self.records.entry(tp).or_default();
        for _ in 0..count {
            let next = records.range(*position..).next().map(|(&offset, _)| offset);
            let offset = next.unwrap_or_else(|| {
                let offset = records.last_key_value().map_or(0, |(last, _)| last + 1) + u64::from(gap);
                records.insert(offset, false);
                offset
            });
            let value = Some(Bytes::from(vec![0; usize::from(gap) * 10]));
            let record = ConsumerRecord { tp, offset, timestamp_ms: 0, key: None, value, headers: vec![] };
            match self.served.deliver(&record) {
                Delivery::Accepted(origin) => {
                    prop_assert!(!self.origins.contains(&origin), "delivered twice under one assignment");
                    prop_assert_eq!(self.served.deliver(&record), Delivery::Duplicate);
                    self.origins.push(origin);
                }
                other => {
                    prop_assert_ne!(other, Delivery::Duplicate);
                    return Ok(());
                }
            }
            *position = offset + 1;
        }
        Ok(())
    }

    fn apply_actions(&mut self, actions: Vec<PartitionAction>) -> Result<(), TestCaseError> {
        for action in actions {
            match action {
                PartitionAction::Begin { partition, epoch } => {
                    for topic in 0..TOPICS.len() {
                        prop_assert!(self.held.contains(&at(partition, topic)), "both or neither");
                    }
                    self.restoring.insert(partition, epoch);
                }
                PartitionAction::Cancel { partition } => prop_assert!(self.restoring.remove(&partition).is_some()),
                PartitionAction::Drain { partition } => self.served.stop_taking(partition),
                PartitionAction::Close { partition, commit } => {
                    self.commit(commit.into_iter().filter_map(|tp| self.served.commit_point(tp)).collect())?;
                    self.served.close(partition);
                    self.position.retain(|tp, _| tp.partition != partition);
                }
                PartitionAction::Release(tps) => {
                    for tp in tps {
                        prop_assert!(self.held.remove(&tp), "released a partition that was not assigned");
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the invariant: commits are only for held topic-partitions, and everything below them is complete.
    fn commit(&mut self, points: Vec<(TopicPartition, Offset)>) -> Result<(), TestCaseError> {
        for (tp, offset) in points {
            prop_assert!(self.held.contains(&tp), "{tp} was committed without being assigned");
            let none = BTreeMap::new();
            let incomplete = self.records.get(&tp).unwrap_or(&none).range(..offset).find(|(_, complete)| !**complete);
            prop_assert_eq!(incomplete, None, "{} was committed at {}", tp, offset);
            self.served.committed(tp, offset);
            let last = self.commits.insert(tp, offset);
            prop_assert!(last.is_none_or(|last| last <= offset), "the commit point went back");
        }
        Ok(())
    }
}

fn at(partition: Partition, topic: usize) -> TopicPartition {
    TopicPartition::new(TOPICS[topic], partition)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn whatever_happens_only_what_is_complete_is_committed_and_the_budget_returns_to_zero(
        events in prop::collection::vec(event(), 1..400),
        all_complete: bool,
    ) {
        let mut world = World::new();
        for event in &events {
            world.happens(event)?;
        }
        let origins = world.origins.clone();
        if all_complete {
            // The budget is free, and the commit points equal the positions.
            for &origin in &origins {
                world.complete(origin)?;
            }
            world.is_free()?;
            let tps: Vec<TopicPartition> = world.served.tps().collect();
            for tp in tps {
                prop_assert_eq!(world.served.commit_point(tp).unwrap().1, world.position[&tp]);
                prop_assert!(world.served.is_drained(tp.partition));
            }
            let moved = world.served.moved();
            world.commit(moved)?;
            prop_assert!(world.served.moved().is_empty());
        }
        // Open partitions close without a remainder, whatever is in flight.
        for partition in 0..PARTITIONS {
            world.served.close(partition);
        }
        world.is_free()?;
        prop_assert_eq!(world.served.open_partitions(), 0);
        for origin in origins {
            prop_assert_eq!(world.served.complete(origin), Completion::Late);
        }
    }
}
