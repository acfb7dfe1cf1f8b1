//! Several writers that change one crawl at the same time, with their steps in any order.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use bytes::Bytes;
use orbweaver_messages::{CrawlDefinition, encode};
use orbweaver_scope::{Change, ControlRecord, DefinitionHistory, Definitions, Revision};
use proptest::prelude::*;

const HOST: &str = include_str!("../../../schemas/examples/crawl-definition/1/host.json");
const KEY: &[u8] = b"crawl/docs";

#[derive(Debug, Default)]
struct Log(Vec<Bytes>);

impl Log {
    fn append(&mut self, definition: &CrawlDefinition) -> u64 {
        self.0.push(encode(definition));
        self.0.len() as u64 - 1
    }

    fn records(&self, from: usize) -> impl Iterator<Item = ControlRecord<'_>> {
        let records = self.0.iter().enumerate().skip(from);
        records.map(|(at, value)| ControlRecord { partition: 0, offset: at as u64, key: Some(KEY), value: Some(value) })
    }

    fn standing(&self) -> DefinitionHistory {
        let mut standing = DefinitionHistory::new("docs");
        self.records(0).for_each(|record| standing.read(record));
        standing
    }

    /// Returns the definition that applies for a reader that starts at `from`.
    fn read_from(&self, from: usize) -> CrawlDefinition {
        let mut definitions = Definitions::default();
        for record in self.records(from) {
            assert!(!matches!(definitions.apply(record), Change::Refused { .. }));
        }
        let definition = definitions.applied("docs").unwrap().definition.clone();
        CrawlDefinition { replaces: vec![], ..definition }
    }
}

/// A writer that adds a pattern to the present ones.
#[derive(Debug)]
enum Writer {
    Begins,
    /// Has read, and will append this definition.
    HasRead(Box<CrawlDefinition>),
    /// Has written a record at this offset.
    HasWritten(u64),
    /// Knows whether its record applied; checks for a needed repair.
    Looks(bool),
    /// Will append the applied definition again.
    Repairs(bool, Box<CrawlDefinition>),
    Ended(bool),
}

impl Writer {
    fn step(self, name: usize, log: &mut Log) -> Self {
        match self {
            Self::Begins => {
                let standing = log.standing();
                let mut exclude = standing.applied().unwrap().definition.exclude.clone();
                exclude.push(format!("writer-{name}$"));
                let revision = Revision { exclude: Some(exclude), ..Revision::default() };
                Self::HasRead(Box::new(standing.revised(revision).unwrap().unwrap()))
            }
            Self::HasRead(definition) => Self::HasWritten(log.append(&definition)),
            Self::HasWritten(offset) => Self::Looks(log.standing().has_applied(offset)),
            Self::Looks(won) => match log.standing().next() {
                Some(definition) => Self::Repairs(won, Box::new(definition)),
                None => Self::Ended(won),
            },
            Self::Repairs(won, definition) => {
                log.append(&definition);
                Self::Looks(won)
            }
            Self::Ended(won) => Self::Ended(won),
        }
    }
}

proptest! {
    #[test]
    fn whoever_was_told_that_it_won_did_and_nobody_else_for_every_reader(order in prop::collection::vec(0usize..4, 0..60)) {
        let mut log = Log::default();
        log.append(&serde_json::from_str(HOST).unwrap());
        let mut writers: Vec<Option<Writer>> = (0..4).map(|_| Some(Writer::Begins)).collect();
        // Afterwards one step of each writer in turn, until all have ended.
        for name in order.into_iter().chain((0..400).map(|turn| turn % 4)) {
            let writer = writers[name].take().unwrap();
            writers[name] = Some(writer.step(name, &mut log));
        }
        let whole = log.read_from(0);
        for (name, writer) in writers.iter().enumerate() {
            let Some(Writer::Ended(won)) = writer else { panic!("{writer:?} does not end") };
            prop_assert_eq!(whole.exclude.contains(&format!("writer-{name}$")), *won, "writer {}", name);
        }
        prop_assert!(writers.iter().any(|writer| matches!(writer, Some(Writer::Ended(true)))));
        for from in 1..log.0.len() {
            prop_assert_eq!(log.read_from(from), whole.clone(), "from {}", from);
        }
    }
}
