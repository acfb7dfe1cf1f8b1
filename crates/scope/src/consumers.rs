//! Declared consumer groups, whose records are protected from deletion, as read from `crawl.control`.
//!
//! All groups are in one record (key `consumers`, partition 0), which names the versions it replaces, like a crawl
//! definition. A record applies if it names the version in force or if none is in force. To change the groups, a writer
//! reads the log, appends the result of [`Consumers::with`] or [`Consumers::without`], and repeats until that and
//! [`Consumers::next`] return `None`: the change of a writer that came too late is thus reapplied on top of the other
//! one.

use orbweaver_messages::{CONSUMERS_KEY, ConsumerGroup, ConsumerGroups, Millis, Topic, decode};

use crate::{
    ControlRecord, DEFINITIONS_PARTITION, Version,
    setting::{Content, Setting},
};

/// The declared groups, up to the offset that was read.
#[derive(Debug, Default)]
pub struct Consumers {
    setting: Setting<Vec<ConsumerGroup>>,
}

impl Consumers {
    /// Applies a record of `crawl.control`. Records must be in log order; other settings are ignored.
    pub fn read(&mut self, record: ControlRecord<'_>) {
        let ControlRecord { partition, offset, key, value } = record;
        if key != Some(CONSUMERS_KEY.as_bytes()) || partition != DEFINITIONS_PARTITION {
            return;
        }
        let content = match decode::<ConsumerGroups>("consumer-groups", value) {
            _ if value.is_none() => Content::Tombstone,
            Ok(ConsumerGroups { groups, replaces }) => Content::Value(groups, replaces),
            Err(_) => Content::Unreadable,
        };
        self.setting.read(offset, content);
    }

    /// Returns the version in force; `None` if no declaration applies.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        self.setting.version()
    }

    /// Returns the declared groups, by name.
    #[must_use]
    pub fn groups(&self) -> &[ConsumerGroup] {
        self.setting.value().map_or(&[], Vec::as_slice)
    }

    /// Returns the declared groups that retain the records of a topic.
    pub fn of(&self, topic: Topic) -> impl Iterator<Item = &str> {
        let keeps = move |group: &&ConsumerGroup| group.topics.iter().any(|name| name == topic.0);
        self.groups().iter().filter(keeps).map(|group| &*group.group)
    }

    /// Returns the record to append to declare a group. `None` if it is already declared for these topics.
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

    /// Returns the record to append to remove a group. `None` if it is not declared.
    #[must_use]
    pub fn without(&self, group: &str) -> Option<ConsumerGroups> {
        let groups: Vec<ConsumerGroup> = self.groups().iter().filter(|known| known.group != group).cloned().collect();
        (groups.len() < self.groups().len()).then(|| self.following(groups))
    }

    /// Returns the record to append so that a skipped record cannot apply after compaction. `None` if none is needed.
    #[must_use]
    pub fn next(&self) -> Option<ConsumerGroups> {
        let groups = self.groups().to_vec();
        self.setting.wants_repair(&groups).then(|| self.following(groups))
    }

    fn following(&self, groups: Vec<ConsumerGroup>) -> ConsumerGroups {
        ConsumerGroups { groups, replaces: self.setting.to_replace() }
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
            // Each writer either reads next or holds a record to append.
            let mut writers: Vec<Option<ConsumerGroups>> = vec![None; 4];
            let mut ended = [false; 4];
            // Finally one writer after another: in lockstep, each repair would invalidate the others' indefinitely.
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
