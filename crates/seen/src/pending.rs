//! Pending admissions: URLs whose plan is not yet durable, and their waiting origins.

use std::{collections::HashMap, hash::Hash};

use orbweaver_messages::SeenEntry;
use orbweaver_url::Fingerprint;

use crate::keyed::ByFingerprint;

/// A URL whose admission is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingUrl {
    /// Plan that admits it.
    pub token: u64,
    /// Depth of the admission.
    pub depth: u16,
}

/// Result of a plan that became durable, or was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct DurablePlan<O, S> {
    /// Admitted URLs, to be applied to cache, filter and index.
    pub entries: Vec<SeenEntry>,
    /// Deferred decisions that are now due. Their origins are still held; release each once after deciding.
    pub deferred: Vec<(O, S)>,
    /// Origins that no longer wait for anything.
    pub completes: Vec<O>,
}

#[derive(Debug)]
struct PendingPlan<O, S> {
    entries: Vec<SeenEntry>,
    /// URLs that were admitted before, and get no other entry.
    readmitted: Vec<Fingerprint>,
    waiting: Vec<O>,
    deferred: Vec<(O, S)>,
}

/// The ledger of one partition: pending plans (identified by tokens), the URLs that each admits, and the origins that
/// wait for them. An origin is complete when it no longer waits for anything. `O` identifies an origin, `S` is a
/// discovered URL.
#[derive(Debug)]
pub struct PendingAdmissions<O, S> {
    plans: HashMap<u64, PendingPlan<O, S>>,
    urls: ByFingerprint<PendingUrl>,
    /// Number of waits per origin; never zero.
    holds: HashMap<O, u32>,
}

impl<O, S> Default for PendingAdmissions<O, S> {
    fn default() -> Self {
        Self { plans: HashMap::new(), urls: ByFingerprint::default(), holds: HashMap::new() }
    }
}

impl<O: Copy + Eq + Hash, S> PendingAdmissions<O, S> {
    /// Returns the pending admission of this URL, if there is one.
    #[must_use]
    pub fn get(&self, fingerprint: Fingerprint) -> Option<PendingUrl> {
        self.urls.get(&fingerprint).copied()
    }

    /// Records that the plan `token` admits this URL, which no other pending plan does; `origin` waits for it.
    pub fn admit(&mut self, token: u64, entry: SeenEntry, origin: O) {
        self.urls.insert(entry.fingerprint, PendingUrl { token, depth: entry.depth });
        self.plan(token).entries.push(entry);
        self.wait(token, origin);
    }

    /// Records that the plan `token` admits this URL again, which no other pending plan does, without a new entry; `origin`
    /// waits for it.
    pub fn readmit(&mut self, token: u64, entry: SeenEntry, origin: O) {
        self.urls.insert(entry.fingerprint, PendingUrl { token, depth: entry.depth });
        self.plan(token).readmitted.push(entry.fingerprint);
        self.wait(token, origin);
    }

    /// Makes `origin` wait until the plan `token` is durable.
    pub fn wait(&mut self, token: u64, origin: O) {
        let plan = self.plan(token);
        // The links of a record arrive in sequence, so checking the last entry avoids most duplicates.
        if plan.waiting.last() != Some(&origin) {
            plan.waiting.push(origin);
            self.hold(origin);
        }
    }

    /// Defers the decision on `sighting` of `origin` until the plan `token` is durable; `origin` waits for it.
    pub fn defer(&mut self, token: u64, origin: O, sighting: S) {
        self.plan(token).deferred.push((origin, sighting));
        self.hold(origin);
    }

    /// Returns `true` if `origin` waits for anything.
    #[must_use]
    pub fn is_waiting(&self, origin: &O) -> bool {
        self.holds.contains_key(origin)
    }

    /// Removes a plan that became durable. Returns `None` if it is not known, as after its partition was closed.
    pub fn settle(&mut self, token: u64) -> Option<DurablePlan<O, S>> {
        let plan = self.take(token)?;
        let completes = plan.waiting.into_iter().filter(|origin| self.release(origin)).collect();
        Some(DurablePlan { entries: plan.entries, deferred: plan.deferred, completes })
    }

    /// Removes a plan that the log refused. Origins that wait for it no longer wait for anything, not even for other
    /// plans: [`DurablePlan::completes`] must be rejected.
    pub fn refuse(&mut self, token: u64) -> Option<DurablePlan<O, S>> {
        let PendingPlan { entries, waiting, mut deferred, .. } = self.take(token)?;
        let completes = waiting.into_iter().filter(|origin| self.holds.remove(origin).is_some()).collect();
        deferred.retain(|(origin, _)| self.holds.contains_key(origin));
        Some(DurablePlan { entries, deferred, completes })
    }

    /// Removes a plan, and the URLs that it admits.
    fn take(&mut self, token: u64) -> Option<PendingPlan<O, S>> {
        let plan = self.plans.remove(&token)?;
        let readmitted = plan.readmitted.iter().copied();
        let fingerprints = plan.entries.iter().map(|entry| entry.fingerprint).chain(readmitted);
        fingerprints.for_each(|fingerprint| _ = self.urls.remove(&fingerprint));
        Some(plan)
    }

    /// Removes one wait of `origin`; returns `true` if it no longer waits for anything.
    pub fn release(&mut self, origin: &O) -> bool {
        let Some(holds) = self.holds.get_mut(origin) else { return false };
        *holds -= 1;
        let free = *holds == 0;
        if free {
            self.holds.remove(origin);
        }
        free
    }

    fn hold(&mut self, origin: O) {
        *self.holds.entry(origin).or_default() += 1;
    }

    fn plan(&mut self, token: u64) -> &mut PendingPlan<O, S> {
        self.plans.entry(token).or_insert_with(|| PendingPlan {
            entries: vec![],
            readmitted: vec![],
            waiting: vec![],
            deferred: vec![],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn entry(number: u8) -> SeenEntry {
        SeenEntry { slot: 0, depth: 1, fingerprint: Fingerprint([number; 16]) }
    }

    #[test]
    fn an_origin_completes_when_all_that_it_waits_for_is_durable() {
        let mut pending = PendingAdmissions::<u32, ()>::default();
        pending.admit(1, entry(1), 10);
        pending.admit(1, entry(2), 10);
        pending.admit(2, entry(3), 10);
        pending.wait(1, 11);
        pending.defer(1, 12, ());
        let settled = pending.settle(1).unwrap();
        assert_eq!((settled.completes, settled.deferred), (vec![11], vec![(12, ())]));
        assert_eq!(settled.entries, [entry(1), entry(2)]);
        assert!(pending.get(entry(1).fingerprint).is_none() && pending.get(entry(3).fingerprint).is_some());
        assert!(pending.release(&12));
        assert_eq!(pending.settle(2).unwrap().completes, [10]);
        assert!(pending.settle(2).is_none());
    }

    #[test]
    fn a_refused_plan_frees_its_urls_and_gives_back_each_origin_once() {
        let mut pending = PendingAdmissions::<u32, ()>::default();
        pending.admit(1, entry(1), 10);
        pending.admit(2, entry(2), 10);
        pending.wait(1, 11);
        pending.defer(1, 11, ());
        pending.defer(1, 12, ());
        let refused = pending.refuse(1).unwrap();
        assert_eq!((refused.completes, refused.deferred), (vec![10, 11], vec![(12, ())]));
        assert!(pending.get(entry(1).fingerprint).is_none() && pending.refuse(1).is_none());
        assert!(pending.release(&12));
        assert!(pending.settle(2).unwrap().completes.is_empty(), "it was rejected already");
    }

    proptest! {
        #[test]
        fn every_origin_completes_exactly_once_and_not_before_its_plans(
            records in proptest::collection::vec(proptest::collection::vec(0u8..20, 1..6), 1..40),
            order: u64,
        ) {
            let mut pending = PendingAdmissions::<usize, ()>::default();
            let mut needs = HashMap::<usize, HashSet<u64>>::new();
            let mut completed = HashSet::new();
            let mut open = vec![];
            let mut random = order;
            for (origin, urls) in records.iter().enumerate() {
                let token = origin as u64;
                for url in urls {
                    let of = match pending.get(entry(*url).fingerprint) {
                        Some(known) => { pending.wait(known.token, origin); known.token }
                        None if url.is_multiple_of(3) => { pending.readmit(token, entry(*url), origin); token }
                        None => { pending.admit(token, entry(*url), origin); token }
                    };
                    needs.entry(origin).or_default().insert(of);
                }
                if pending.plans.contains_key(&token) {
                    open.push(token);
                }
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let settles = if origin + 1 == records.len() { open.len() } else { (random >> 33) as usize % 2 };
                for _ in 0..settles.min(open.len()) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let token = open.swap_remove((random >> 33) as usize % open.len());
                    let settled = pending.settle(token).unwrap();
                    prop_assert!(settled.entries.iter().all(|entry| entry.fingerprint.0[0] % 3 != 0));
                    needs.values_mut().for_each(|plans| { plans.remove(&token); });
                    for origin in settled.completes {
                        prop_assert!(needs[&origin].is_empty());
                        prop_assert!(completed.insert(origin));
                    }
                }
            }
            prop_assert_eq!(completed.len(), records.len());
            prop_assert!(pending.urls.is_empty() && pending.holds.is_empty() && pending.plans.is_empty());
        }
    }
}
