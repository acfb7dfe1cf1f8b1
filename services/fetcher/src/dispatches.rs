//! Dispatches from their acceptance to their durable end: pure.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use orbweaver_log::Partition;
use orbweaver_messages::{DispatchId, Millis};
use orbweaver_stage::{Origin, Token};
use orbweaver_store::RobotsRow;

use crate::{active_dispatch::ActiveDispatch, completed_dispatches::CompletedDispatches};

/// A plan that is not yet durable.
#[derive(Debug)]
pub(crate) enum InFlightPlan {
    /// End of a dispatch, and whether that holds a slot.
    Outcome { name: (Partition, DispatchId), has_slot: bool },
    /// Robots.txt of an authority.
    Robots(Arc<str>, RobotsRow),
}

/// Dispatches that wait, are in flight, or have ended within a lease. Each is requested once, however often its record
/// is delivered.
#[derive(Debug, Default)]
pub(crate) struct Dispatches {
    pub(crate) completed: CompletedDispatches,
    /// Dispatches that wait, are in flight, or have not durably ended.
    active: HashSet<(Partition, DispatchId)>,
    plans: HashMap<Token, InFlightPlan>,
    last: Token,
    /// Records of a revoked partition on which work has stopped.
    pub(crate) abandoned: Vec<Origin>,
}

impl Dispatches {
    /// Accepts a dispatch; `false` if it has ended or is active. Its work is then carried by its first record, which is
    /// incomplete at a lower offset, or by its durable outcome.
    pub(crate) fn accept(&mut self, partition: Partition, id: DispatchId) -> bool {
        !self.completed.contains(partition, id) && self.active.insert((partition, id))
    }

    /// Adds a plan, and returns its token.
    pub(crate) fn plan(&mut self, plan: InFlightPlan) -> Token {
        self.last += 1;
        self.plans.insert(self.last, plan);
        self.last
    }

    /// Removes a plan that is durable; the dispatch that it ends has completed.
    pub(crate) fn durable(&mut self, token: Token, now: Millis) -> Option<InFlightPlan> {
        let plan = self.plans.remove(&token)?;
        if let InFlightPlan::Outcome { name, .. } = &plan {
            self.active.remove(name);
            self.completed.insert(name.0, name.1, now);
        }
        Some(plan)
    }

    /// Abandons a dispatch; its record stays incomplete, and the partition's next owner receives it.
    pub(crate) fn abandon(&mut self, active: &ActiveDispatch) {
        self.active.remove(&active.name());
        self.abandoned.push(active.origin);
    }

    /// Forgets a partition, and returns the number of slots that its plans held.
    pub(crate) fn close(&mut self, partition: Partition) -> usize {
        self.abandoned.retain(|origin| origin.tp.partition != partition);
        self.active.retain(|name| name.0 != partition);
        let of_it = |plan: &InFlightPlan| matches!(plan, InFlightPlan::Outcome { name, .. } if name.0 == partition);
        let gone = self.plans.extract_if(|_, plan| of_it(plan));
        gone.filter(|(_, plan)| matches!(plan, InFlightPlan::Outcome { has_slot: true, .. })).count()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.plans.is_empty()
    }
}
