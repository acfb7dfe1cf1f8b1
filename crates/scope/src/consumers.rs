//! Which consumer groups keep records from being deleted, as `crawl.control` declares them.
//!
//! All stand in one record (key `consumers`, partition 0) that names the versions it replaces, as a crawl's definition does. A
//! record applies when it names the version in force, or none is in force. To change it, read, append what [`Consumers::with`]
//! or [`Consumers::without`] gives, read again, until that and [`Consumers::next`] are `None`: the change of a writer that came
//! too late is made again on top of the other.

use orbweaver_messages::{CONSUMERS_KEY, ConsumerGroup, ConsumerGroups, Millis, Topic, decode};

use crate::{ControlRecord, DEFINITIONS_PARTITION, Version, history::History};

/// The declared groups, up to where the log was read.
#[derive(Debug, Default)]
pub struct Consumers {
    last: Option<Version>,
    applied: Option<(Version, Vec<ConsumerGroup>)>,
    history: History<Vec<ConsumerGroup>>,
}

impl Consumers {
    /// Takes a record of `crawl.control`; records come in the order of the log. Other settings are passed over.
    pub fn read(&mut self, record: ControlRecord<'_>) {
        let ControlRecord { partition, offset, key, value } = record;
        let is_own = key == Some(CONSUMERS_KEY.as_bytes()) && partition == DEFINITIONS_PARTITION;
        if !is_own || self.last.is_some_and(|last| last >= offset) {
            return;
        }
        self.last = Some(offset);
        if value.is_none() {
            self.applied = None;
            return self.history.deleted();
        }
        match decode::<ConsumerGroups>("consumer-groups", value) {
            Ok(ConsumerGroups { groups, replaces }) => {
                let is_next = self.version().is_none_or(|version| replaces.contains(&version));
                if is_next {
                    self.history.applied(offset, &replaces);
                    self.applied = Some((offset, groups));
                } else {
                    self.history.passed_over(offset, Some(groups));
                }
            }
            Err(_) => self.history.passed_over(offset, None),
        }
    }

    /// The version that applies; `None` when none was ever declared.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.applied.as_ref().map(|(version, _)| *version)
    }

    /// The declared groups, by name.
    #[must_use]
    pub fn groups(&self) -> &[ConsumerGroup] {
        self.applied.as_ref().map_or(&[], |(_, groups)| groups)
    }

    /// The declared groups that keep the records of a topic.
    pub fn of(&self, topic: Topic) -> impl Iterator<Item = &str> {
        let keeps = move |group: &&ConsumerGroup| group.topics.iter().any(|name| name == topic.0);
        self.groups().iter().filter(keeps).map(|group| &*group.group)
    }

    /// What is to be appended to declare a group. `None`: it is declared for these topics.
    #[must_use]
    pub fn with(&self, group: &str, topics: &[Topic], now: Millis) -> Option<ConsumerGroups> {
        let topics: Vec<String> = topics.iter().map(|topic| topic.0.to_owned()).collect();
        if self.groups().iter().any(|known| known.group == group && known.topics == topics) {
            return None;
        }
        let declared = ConsumerGroup { group: group.to_owned(), topics, declared_at_ms: now };
        let others = self.groups().iter().filter(|known| known.group != group).cloned();
        let mut groups: Vec<ConsumerGroup> = others.chain([declared]).collect();
        groups.sort_by(|one, other| one.group.cmp(&other.group));
        Some(self.following(groups))
    }

    /// What is to be appended to remove a group. `None`: it is not declared.
    #[must_use]
    pub fn without(&self, group: &str) -> Option<ConsumerGroups> {
        let groups: Vec<ConsumerGroup> = self.groups().iter().filter(|known| known.group != group).cloned().collect();
        (groups.len() < self.groups().len()).then(|| self.following(groups))
    }

    /// What is to be appended so that a record that was passed over cannot apply after compaction. `None`: nothing.
    #[must_use]
    pub fn next(&self) -> Option<ConsumerGroups> {
        let groups = self.groups().to_vec();
        self.history.wants_repair(&groups).then(|| self.following(groups))
    }

    fn following(&self, groups: Vec<ConsumerGroup>) -> ConsumerGroups {
        ConsumerGroups { groups, replaces: self.history.to_replace(self.version()) }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use orbweaver_messages::{encode, topic::DOCUMENTS, topic::OUTCOMES};
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default)]
    struct Log(Vec<Bytes>);

    impl Log {
        fn append(&mut self, groups: &ConsumerGroups) {
            self.0.push(encode(groups));
        }

        fn read_from(&self, from: usize) -> Consumers {
            let mut consumers = Consumers::default();
            for (at, value) in self.0.iter().enumerate().skip(from) {
                let key = Some(CONSUMERS_KEY.as_bytes());
                consumers.read(ControlRecord { partition: 0, offset: at as u64, key, value: Some(value) });
            }
            consumers
        }
    }

    fn names(consumers: &Consumers, topic: Topic) -> Vec<&str> {
        consumers.of(topic).collect()
    }

    #[test]
    fn a_group_is_declared_once_and_removed_once() {
        let mut log = Log::default();
        assert_eq!(log.read_from(0).without("indexer"), None);
        log.append(&log.read_from(0).with("indexer", &[DOCUMENTS], 5).unwrap());
        let read = log.read_from(0);
        assert_eq!((names(&read, DOCUMENTS), names(&read, OUTCOMES)), (vec!["indexer"], vec![]));
        assert_eq!(read.with("indexer", &[DOCUMENTS], 9), None);
        log.append(&read.with("exporter", &[OUTCOMES, DOCUMENTS], 9).unwrap());
        assert_eq!(names(&log.read_from(0), DOCUMENTS), ["exporter", "indexer"]);
        log.append(&log.read_from(0).without("indexer").unwrap());
        assert_eq!(names(&log.read_from(0), DOCUMENTS), ["exporter"]);
        assert_eq!(log.read_from(0).next(), None);
    }

    #[test]
    fn what_is_no_declaration_changes_nothing() {
        let mut log = Log::default();
        log.append(&log.read_from(0).with("indexer", &[DOCUMENTS], 5).unwrap());
        log.0.push(Bytes::from_static(b"{"));
        let read = log.read_from(0);
        assert_eq!(names(&read, DOCUMENTS), ["indexer"]);
        assert_eq!(read.next().unwrap().replaces, [0, 1]);
        let mut elsewhere = Consumers::default();
        let value = encode(&ConsumerGroups::default());
        elsewhere.read(ControlRecord { partition: 3, offset: 0, key: Some(b"consumers"), value: Some(&value) });
        elsewhere.read(ControlRecord { partition: 0, offset: 1, key: Some(b"crawl/consumers"), value: Some(&value) });
        assert_eq!(elsewhere.version(), None);
    }

    proptest! {
        #[test]
        fn no_declaration_of_writers_at_the_same_time_is_lost(order in prop::collection::vec(0usize..4, 0..60)) {
            let mut log = Log::default();
            // Each has read, or has something to append.
            let mut writers: Vec<Option<ConsumerGroups>> = vec![None; 4];
            let mut ended = [false; 4];
            // In the end one after another: in lockstep each repair would pass over the others' for ever.
            for writer in order.into_iter().chain((0..400).map(|turn| turn / 100)) {
                match writers[writer].take() {
                    Some(groups) => log.append(&groups),
                    None => {
                        let read = log.read_from(0);
                        writers[writer] = read.with(&format!("group-{writer}"), &[DOCUMENTS], 1).or_else(|| read.next());
                        ended[writer] |= writers[writer].is_none();
                    }
                }
            }
            prop_assert!(ended.iter().all(|ended| *ended));
            let whole = log.read_from(0).groups().to_vec();
            prop_assert_eq!(whole.len(), 4);
            for from in 1..log.0.len() {
                let compacted = log.read_from(from);
                prop_assert_eq!(compacted.groups(), &whole[..], "compacted up to {}", from);
            }
        }
    }
}
