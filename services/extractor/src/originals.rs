//! Originals of a partition, and decisions on near duplicates. Pure.
//!
//! A page is a near duplicate of an earlier page of its site and crawl if their signatures differ in at most
//! [`MAX_DISTANCE`] bits, else an original. Pages are compared with originals only (leader clustering), so that a page that is
//! named is not marked itself.
//!
//! The order is that of the records in `crawl.signatures`. A page that is extracted again, after a crash or at a later visit,
//! keeps its position, and is compared with the originals before it.

use std::collections::{HashMap, VecDeque};

use orbweaver_messages::{SignatureGroup, TextSignature};
use orbweaver_url::Fingerprint;

/// Maximum number of differing bits: with 2, 5 and 10 % of the words changed the recall is 1.00, 0.99 and 0.48, and of
/// 141,710 pairs of unrelated pages none is that similar (docs/adr/0066-near-duplicates.md).
const MAX_DISTANCE: u32 = 26;

/// Originals of a partition, up to a maximum number: the oldest ones are dropped.
#[derive(Debug, Default)]
pub(crate) struct Originals {
    groups: HashMap<SignatureGroup, VecDeque<(Fingerprint, TextSignature)>>,
    /// Group of each original, in the order of all.
    order: VecDeque<SignatureGroup>,
}

/// Decision on a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// First original of which the page is a near duplicate.
    pub(crate) original: Option<Fingerprint>,
    /// Changes of the originals, to be recorded in this order; without a signature the page is not one any more.
    pub(crate) changes: Vec<(SignatureGroup, Fingerprint, Option<TextSignature>)>,
}

impl Originals {
    /// Returns the number of originals.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Decides on a page with this signature; `None`: its text is too short.
    pub(crate) fn decide(
        &mut self,
        (group, page): (SignatureGroup, Fingerprint),
        signature: Option<TextSignature>,
        limit: usize,
    ) -> Decision {
        let known = self.groups.get(&group);
        let own = known.and_then(|known| known.iter().position(|(other, _)| *other == page));
        let earlier = known.into_iter().flatten().take(own.unwrap_or(usize::MAX));
        let original = signature.and_then(|signature| {
            let mut near = earlier.filter(|(_, other)| other.distance(signature) <= MAX_DISTANCE);
            near.next().map(|(other, _)| *other)
        });
        let recorded = own.and_then(|own| Some(known?.get(own)?.1));
        let own_signature = signature.filter(|_| original.is_none());
        if own_signature == recorded {
            return Decision { original, changes: vec![] };
        }
        let dropped = self.apply((group, page), own, own_signature, limit);
        let dropped = dropped.into_iter().map(|(group, page)| (group, page, None));
        Decision { original, changes: std::iter::once((group, page, own_signature)).chain(dropped).collect() }
    }

    /// Applies a recorded change: the page is an original with this signature, or is none any more.
    pub(crate) fn restore(
        &mut self,
        (group, page): (SignatureGroup, Fingerprint),
        signature: Option<TextSignature>,
        limit: usize,
    ) {
        let own = self.groups.get(&group).and_then(|known| known.iter().position(|(other, _)| *other == page));
        self.apply((group, page), own, signature, limit);
    }

    /// Applies a change of the page at this position of its group. Returns the originals that were dropped for it.
    fn apply(
        &mut self,
        (group, page): (SignatureGroup, Fingerprint),
        own: Option<usize>,
        signature: Option<TextSignature>,
        limit: usize,
    ) -> Vec<(SignatureGroup, Fingerprint)> {
        let known = self.groups.entry(group).or_default();
        match (own, signature) {
            (Some(own), Some(signature)) => known[own].1 = signature,
            (Some(own), None) => {
                known.remove(own);
                let position = self.order.iter().enumerate().filter(|(_, other)| **other == group).nth(own);
                if let Some((position, _)) = position {
                    self.order.remove(position);
                }
            }
            (None, Some(signature)) => {
                known.push_back((page, signature));
                self.order.push_back(group);
            }
            (None, None) => {}
        }
        if known.is_empty() {
            self.groups.remove(&group);
        }
        std::iter::from_fn(|| (self.order.len() > limit).then(|| self.drop_oldest())?).collect()
    }

    fn drop_oldest(&mut self) -> Option<(SignatureGroup, Fingerprint)> {
        let group = self.order.pop_front()?;
        let known = self.groups.get_mut(&group)?;
        let (page, _) = known.pop_front()?;
        if known.is_empty() {
            self.groups.remove(&group);
        }
        Some((group, page))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1000;

    fn page(number: u64) -> (SignatureGroup, Fingerprint) {
        let mut fingerprint = [0; 16];
        fingerprint[..8].copy_from_slice(&number.to_le_bytes());
        (SignatureGroup(number % 2), Fingerprint(fingerprint))
    }

    /// Returns a signature with this number of bits set.
    fn bits(count: u32) -> Option<TextSignature> {
        Some(TextSignature((1 << count) - 1))
    }

    fn originals(pages: &[(u64, u32)]) -> Originals {
        let mut originals = Originals::default();
        for (number, count) in pages {
            assert_eq!(originals.decide(page(*number), bits(*count), LIMIT).original, None);
        }
        originals
    }

    #[test]
    fn a_page_within_26_bits_of_the_first_original_names_it_and_is_none_itself() {
        let mut originals = originals(&[(0, 0), (2, 52)]);
        let near = |original, changes| Decision { original, changes };
        assert_eq!(originals.decide(page(4), bits(26), LIMIT), near(Some(page(0).1), vec![]), "both are 26 bits away");
        let (group, far) = page(6);
        assert_eq!(originals.decide((group, far), bits(79), LIMIT), near(None, vec![(group, far, bits(79))]));
        assert_eq!(originals.decide(page(8), bits(78), LIMIT).original, Some(page(2).1));
    }

    #[test]
    fn pages_of_another_site_are_not_compared() {
        let mut originals = originals(&[(0, 0)]);
        assert_eq!(originals.decide(page(1), bits(0), LIMIT).original, None);
    }

    #[test]
    fn a_page_that_is_extracted_again_gets_the_same_decision_and_writes_nothing() {
        let mut originals = originals(&[(0, 0), (2, 52)]);
        originals.decide(page(4), bits(26), LIMIT);
        for (number, count, original) in [(0, 0, None), (2, 52, None), (4, 26, Some(page(0).1))] {
            let decision = originals.decide(page(number), bits(count), LIMIT);
            assert_eq!(decision, Decision { original, changes: vec![] });
        }
    }

    #[test]
    fn an_original_that_changes_keeps_its_position_or_ends() {
        let mut originals = originals(&[(0, 0), (2, 52), (4, 104)]);
        let (group, second) = page(2);
        let changed = originals.decide((group, second), bits(90), LIMIT);
        assert_eq!(
            changed,
            Decision { original: None, changes: vec![(group, second, bits(90))] },
            "later ones do not count"
        );
        let near_both = originals.decide(page(6), bits(98), LIMIT);
        assert_eq!(near_both.original, Some(second));
        let near_first = originals.decide((group, second), bits(8), LIMIT);
        assert_eq!(near_first, Decision { original: Some(page(0).1), changes: vec![(group, second, None)] });
        let short = originals.decide(page(4), None, LIMIT);
        assert_eq!(short.changes, [(group, page(4).1, None)]);
        assert_eq!(originals.len(), 1);
    }

    #[test]
    fn a_text_that_is_too_short_is_neither() {
        let mut originals = originals(&[(0, 0)]);
        assert_eq!(originals.decide(page(2), None, LIMIT), Decision::default());
        assert_eq!(originals.len(), 1);
    }

    proptest! {
        #[test]
        fn whatever_is_lost_in_crashes_no_page_that_is_named_is_ever_marked(
            steps in prop::collection::vec((0..12_u64, 0..25_u32, any::<bool>()), 1..60),
        ) {
            let (mut originals, mut log, mut documents) = (Originals::default(), vec![], vec![]);
            let last = (0..12).map(|number| (number, 25, true));
            for (number, lost, is_crash) in steps.into_iter().chain(last) {
                let (_, own) = page(number);
                let group = SignatureGroup(0);
                // Each page has the same text whenever it is extracted.
                let decision = originals.decide((group, own), bits(number as u32 * 10), LIMIT);
                log.extend(decision.changes);
                // The document is written when these records are durable.
                documents.push((own, decision.original, log.len()));
                if is_crash && lost < 20 {
                    log.truncate(log.len().saturating_sub(lost as usize / 4));
                    documents.retain(|(_, _, needed)| *needed <= log.len());
                    originals = Originals::default();
                    for (group, page, signature) in &log {
                        originals.restore((*group, *page), *signature, LIMIT);
                    }
                }
            }
            for original in documents.iter().filter_map(|(_, original, _)| *original) {
                let marked = documents.iter().any(|(page, other, _)| *page == original && other.is_some());
                prop_assert!(!marked, "{original} in {documents:?}");
            }
        }

        #[test]
        fn what_is_recorded_restores_the_same_originals_and_their_number_is_bounded(
            pages in prop::collection::vec((0..40_u64, prop::option::of(0..127_u32)), 0..200), limit in 1..12_usize,
        ) {
            let (mut originals, mut restored) = (Originals::default(), Originals::default());
            for (number, count) in pages {
                let decision = originals.decide(page(number), count.and_then(bits), limit);
                if let Some(original) = decision.original {
                    prop_assert!(original != page(number).1);
                    let known = originals.groups[&page(number).0].iter().map(|(page, _)| *page);
                    prop_assert!(known.clone().any(|page| page == original), "an original is named");
                    prop_assert!(known.clone().all(|other| other != page(number).1), "a near duplicate is no original");
                }
                for (group, page, signature) in decision.changes {
                    restored.restore((group, page), signature, limit);
                }
                prop_assert!(originals.len() <= limit);
                prop_assert_eq!(originals.groups.values().map(VecDeque::len).sum::<usize>(), originals.len());
                prop_assert_eq!((&restored.groups, &restored.order), (&originals.groups, &originals.order));
            }
        }
    }
}
