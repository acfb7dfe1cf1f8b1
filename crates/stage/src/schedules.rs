//! Random schedules of all events of a consumer, over the pure parts together: in any order, no offset is committed
//! before all lower ones are complete, every record completes exactly once per assignment, and the budget returns to
//! zero.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use orbweaver_log::{ConsumerRecord, Offset, Partition, TopicPartition};
use orbweaver_messages::{Topic, topic};
use proptest::prelude::*;

use crate::{
    Limits, Origin,
    assignment::{Assignment, PartitionAction, TopicSet},
    ledger::Ledger,
    open_partitions::{Completion, Delivery, OpenPartitions, TopicPartitionState},
};

const TOPICS: &[Topic] = &[topic::FRONTIER, topic::OUTCOMES];
const PARTITIONS: Partition = 3;

#[derive(Debug, Clone)]
enum Event {
    Assign(Partition, usize),
    Revoke(Partition, usize),
    Lose(Partition, usize),
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
    prop_oneof![
        3 => (partition(), topic()).prop_map(|(partition, topic)| Event::Assign(partition, topic)),
        1 => (partition(), topic()).prop_map(|(partition, topic)| Event::Revoke(partition, topic)),
        1 => (partition(), topic()).prop_map(|(partition, topic)| Event::Lose(partition, topic)),
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
            assignment: Assignment::new(TOPICS.len()),
            served: OpenPartitions::new(TOPICS, Limits { records: 50, bytes: 10_000, low_water_percent: 50 }),
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
            Event::Assign(partition, topic) => {
                self.held.insert(at(partition, topic));
                let verdicts = self.assignment.assigned(partition, topic);
                self.apply_actions(verdicts)
            }
            Event::Revoke(partition, topic) => {
                let verdicts = self.assignment.revoked(partition, topic);
                self.apply_actions(verdicts)
            }
            Event::Lose(partition, topic) => {
                self.held.remove(&at(partition, topic));
                let verdicts = self.assignment.lost(partition, topic);
                self.apply_actions(verdicts)
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
                let verdicts = self.assignment.drained(partition);
                self.apply_actions(verdicts)
            }
        }
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

    fn apply_actions(&mut self, verdicts: Vec<PartitionAction>) -> Result<(), TestCaseError> {
        for verdict in verdicts {
            match verdict {
                PartitionAction::Begin { partition, epoch } => {
                    for topic in 0..TOPICS.len() {
                        prop_assert!(self.held.contains(&at(partition, topic)), "both or neither");
                    }
                    self.restoring.insert(partition, epoch);
                }
                PartitionAction::Cancel { partition } => prop_assert!(self.restoring.remove(&partition).is_some()),
                PartitionAction::Drain { partition } => self.served.stop_taking(partition),
                PartitionAction::Close { partition, commit } => {
                    let points = self.served.commit_points(partition, commit);
                    self.commit(points)?;
                    self.served.close(partition);
                    self.position.retain(|tp, _| tp.partition != partition);
                }
                PartitionAction::Release { partition, topics } => {
                    for topic in topics.iter() {
                        prop_assert!(
                            self.held.remove(&at(partition, topic)),
                            "released a partition that was not assigned"
                        );
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
    ) {
        let mut world = World::new();
        for event in &events {
            world.happens(event)?;
        }
        // All delivered records complete: the budget is free, and the commit points equal the positions.
        for index in 0..world.origins.len() {
            let origin = world.origins[index];
            if world.served.complete(origin) == Completion::Completed {
                prop_assert!(world.completed.insert(origin));
                world.records.get_mut(&origin.tp).unwrap().insert(origin.offset, true);
            }
        }
        prop_assert_eq!((world.served.budget().records(), world.served.budget().bytes()), (0, 0));
        prop_assert_eq!(world.served.outstanding(), 0);
        let tps: Vec<TopicPartition> = world.served.tps().collect();
        for tp in tps {
            prop_assert_eq!(world.served.commit_point(tp).unwrap().1, world.position[&tp]);
            prop_assert!(world.served.is_drained(tp.partition));
        }
        let moved = world.served.moved();
        world.commit(moved)?;
        prop_assert!(world.served.moved().is_empty());
        // Remaining open partitions close without a remainder.
        for partition in 0..PARTITIONS {
            world.served.close(partition);
        }
        prop_assert_eq!(world.served.open_partitions(), 0);
    }

    #[test]
    fn closing_with_work_in_flight_releases_all_that_was_charged(
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut world = World::new();
        for event in &events {
            world.happens(event)?;
        }
        for partition in 0..PARTITIONS {
            let points = world.served.commit_points(partition, TopicSet::of(0));
            world.served.close(partition);
            for (tp, _) in points {
                let late = Origin { tp, offset: 0, assignment_epoch: 1 };
                prop_assert_eq!(world.served.complete(late), Completion::Late);
            }
        }
        prop_assert_eq!((world.served.budget().records(), world.served.budget().bytes()), (0, 0));
        prop_assert_eq!(world.served.outstanding(), 0);
    }
}
