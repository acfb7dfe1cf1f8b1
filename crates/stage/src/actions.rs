//! What a stage wants done: the closed set of verdicts.

use orbweaver_log::Record;

use crate::Origin;

/// Names a plan to the stage that made it.
pub type Token = u64;

/// One step of a plan. A step begins when the one before it is durable.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<E> {
    /// Append these records, and wait until all are acknowledged.
    Produce(Vec<Record>),
    /// Perform these effects outside of the log (store writes), and wait until all are durable.
    Perform(Vec<E>),
}

/// What one or more records caused: steps in order, and what is complete when the last is durable. When the log refuses a
/// record of a step, the plan ends with that step and its origins are rejected, all of them: what must not fall together gets
/// plans of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan<E> {
    /// The steps. Rule 1: what carries the work on comes first, what ends it last.
    pub steps: Vec<Step<E>>,
    /// The origins that are complete after the last step.
    pub completes: Vec<Origin>,
    /// When given, the stage hears of it through `Stage::settled`, with the offsets of all produced records in order.
    pub token: Option<Token>,
}

impl<E> Plan<E> {
    /// The bytes of the records that it produces.
    pub(crate) fn bytes(&self) -> usize {
        let records = self.steps.iter().filter_map(|step| match step {
            Step::Produce(records) => Some(records),
            Step::Perform(_) => None,
        });
        records.flatten().map(Record::bytes).sum()
    }
}

/// Collects what a stage wants done. The runtime empties it after every call.
#[derive(Debug)]
pub struct Actions<J, E> {
    /// Work that carries on, in order.
    pub plans: Vec<Plan<E>>,
    /// Work outside, for the worker.
    pub jobs: Vec<J>,
    /// Origins that are complete at once: nothing was caused, or another record carries it.
    pub completes: Vec<Origin>,
    /// Origins that are kept in an index of the stage and so are not charged to the budget any more (rule 18).
    pub parked: Vec<Origin>,
    /// Records that cannot be processed, with the reason: to the dead letters, untouched.
    pub rejects: Vec<(Origin, String)>,
    /// Reads the tails up to ends that are asked for from now on, then calls `Stage::refreshed` with this token. While the log
    /// does not answer that takes as long.
    pub refreshes: Vec<Token>,
    /// The stage cannot go on; the process ends with this message and nothing more completes.
    pub halt: Option<String>,
}

impl<J, E> Default for Actions<J, E> {
    fn default() -> Self {
        Self {
            plans: vec![],
            jobs: vec![],
            completes: vec![],
            parked: vec![],
            rejects: vec![],
            refreshes: vec![],
            halt: None,
        }
    }
}

impl<J, E> Actions<J, E> {
    /// Adds a plan of one step that produces `records` and then completes `completes`.
    pub fn produce(&mut self, records: Vec<Record>, completes: Vec<Origin>) {
        self.plans.push(Plan { steps: vec![Step::Produce(records)], completes, token: None });
    }
}
