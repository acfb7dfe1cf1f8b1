//! Actions requested by a stage.

use orbweaver_log::Record;

use crate::Origin;

/// Identifier of a plan, chosen by the stage that made it.
pub type Token = u64;

/// One step of a plan. A step starts when the previous one is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<E> {
    /// Append these records, and wait until all are acknowledged.
    Produce(Vec<Record>),
    /// Perform these effects outside the log (store writes), and wait until all are durable.
    Perform(Vec<E>),
}

/// Ordered steps caused by one or more records, and the origins that complete when the last step is durable. When the
/// log refuses a record of a step, the plan ends with that step and all its origins are rejected: work that must not
/// fail together needs separate plans.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<E> {
    /// The steps: what continues the work comes first, what ends it last (docs/protocol.md#effect-order).
    pub steps: Vec<Step<E>>,
    /// Origins that complete after the last step.
    pub completes: Vec<Origin>,
    /// If set, `Stage::plan_durable` is called with it and the offsets of all produced records, in order.
    pub token: Option<Token>,
}

impl<E> Plan<E> {
    /// Returns the size of the produced records in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let records = self.steps.iter().filter_map(|step| match step {
            Step::Produce(records) => Some(records),
            Step::Perform(_) => None,
        });
        records.flatten().map(Record::bytes).sum()
    }
}

/// Collector of the actions that a stage requests. The runtime empties it after every call.
#[derive(Debug)]
pub struct Actions<J, E> {
    /// Plans, in order.
    pub plans: Vec<Plan<E>>,
    /// Jobs for the worker.
    pub jobs: Vec<J>,
    /// Origins that complete at once: they caused nothing, or another record continues their work.
    pub completes: Vec<Origin>,
    /// Origins that are kept in an index of the stage and are therefore no longer charged to the budget
    /// (docs/protocol.md#parked-records), and origins of a revoked partition that are left to its next owner.
    pub parked: Vec<Origin>,
    /// Records that cannot be processed, each with the reason; they are written unchanged to the dead letters.
    pub rejects: Vec<(Origin, String)>,
    /// Tokens of refreshes: the tails are read up to log ends queried from now on, then `Stage::refreshed` is called
    /// with the token. A refresh waits as long as the log is unavailable.
    pub refreshes: Vec<Token>,
}

impl<J, E> Default for Actions<J, E> {
    fn default() -> Self {
        Self { plans: vec![], jobs: vec![], completes: vec![], parked: vec![], rejects: vec![], refreshes: vec![] }
    }
}

impl<J, E> Actions<J, E> {
    /// Adds a plan of one step that produces `records` and then completes `completes`.
    pub fn produce(&mut self, records: Vec<Record>, completes: Vec<Origin>) {
        self.plans.push(Plan { steps: vec![Step::Produce(records)], completes, token: None });
    }
}
