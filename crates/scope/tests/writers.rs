//! Several writers that change one crawl at the same time, with their steps in any order.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use bytes::Bytes;
use orbweaver_messages::{CrawlDefinition, encode};
use orbweaver_scope::{Change, ControlRecord, Definitions, Revision};
use orbweaver_url::CrawlName;
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

    fn definitions(&self, from: usize) -> Definitions {
        let mut definitions = Definitions::default();
        for record in self.records(from) {
            assert!(!matches!(definitions.apply(record), Change::Refused { .. }));
        }
        definitions
    }

    /// Returns the definition that applies for a reader that starts at `from`.
    fn read_from(&self, from: usize) -> CrawlDefinition {
        let definition = self.definitions(from).applied(&docs()).unwrap().definition.clone();
        CrawlDefinition { replaces: vec![], ..definition }
    }
}

fn docs() -> CrawlName {
    "docs".parse().unwrap()
}

/// A writer that adds a pattern to the present ones.
#[derive(Debug, Default)]
struct Writer {
    /// Record that it will append: its change, or the applied definition again.
    holds: Option<CrawlDefinition>,
    /// Offset of its change.
    own: Option<u64>,
    /// Whether its change applied, once it has ended.
    won: Option<bool>,
}

impl Writer {
    /// Reads the log, or appends what it read it for.
    fn step(&mut self, name: usize, log: &mut Log) {
        if let Some(definition) = self.holds.take() {
            let offset = log.append(&definition);
            self.own.get_or_insert(offset);
            return;
        }
        let (definitions, docs) = (log.definitions(0), docs());
        match self.own {
            None => {
                let mut exclude = definitions.applied(&docs).unwrap().definition.exclude.clone();
                exclude.push(format!("writer-{name}$"));
                let revision = Revision { exclude: Some(exclude), ..Revision::default() };
                self.holds = Some(definitions.revised(&docs, revision).unwrap().unwrap());
            }
            Some(own) if self.won.is_none() => {
                self.holds = definitions.repair(&docs);
                self.won = self.holds.is_none().then(|| definitions.has_applied(&docs, own));
            }
            Some(_) => {}
        }
    }
}

proptest! {
    #[test]
    fn whoever_was_told_that_it_won_did_and_nobody_else_for_every_reader(order in prop::collection::vec(0usize..4, 0..60)) {
        let mut log = Log::default();
        log.append(&serde_json::from_str(HOST).unwrap());
        let mut writers: [Writer; 4] = Default::default();
        // Afterwards one step of each writer in turn, until all have ended.
        for name in order.into_iter().chain((0..400).map(|turn| turn % 4)) {
            writers[name].step(name, &mut log);
        }
        let whole = log.read_from(0);
        for (name, writer) in writers.iter().enumerate() {
            let applies = whole.exclude.contains(&format!("writer-{name}$"));
            prop_assert_eq!(writer.won, Some(applies), "writer {}: {:?}", name, writer);
        }
        prop_assert!(writers.iter().any(|writer| writer.won == Some(true)));
        for from in 1..log.0.len() {
            prop_assert_eq!(log.read_from(from), whole.clone(), "from {}", from);
        }
    }
}
