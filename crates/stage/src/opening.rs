//! Ledgers of a partition that opens: which of its records are incomplete after the restore.

use orbweaver_log::Offset;
use orbweaver_messages::Topic;

use crate::{ledger::Ledger, open_partitions::TopicPartitionState, restore::StartPoint};

/// Builds the ledgers of a partition, in the order of the topics.
pub(crate) fn ledgers(
    starts: &[StartPoint],
    incomplete: impl Iterator<Item = (Topic, Offset)>,
) -> Result<Vec<TopicPartitionState>, String> {
    let mut ledgers: Vec<Ledger> = starts.iter().map(|start| Ledger::starting_at(start.commit)).collect();
    for (topic, offset) in incomplete {
        let mut tps = starts.iter().zip(&mut ledgers);
        let restored = tps.find_map(|(start, ledger)| {
            (start.tp.topic == topic).then(|| Some((start, ledger, start.restored_to?))).flatten()
        });
        let Some((start, ledger, end)) = restored else {
            return Err(format!("offset {offset} of {topic} is reported as incomplete, but {topic} was not restored"));
        };
        if offset >= end || !ledger.deliver(offset) {
            let StartPoint { tp, commit, .. } = start;
            let next = ledger.next();
            return Err(format!(
                "{tp}: offset {offset} is reported as incomplete, but is outside of {commit} (commit point) to {end} \
                 (restore end), or out of order: the lowest allowed is {next}"
            ));
        }
    }
    let tp = |(start, mut ledger): (&StartPoint, Ledger)| {
        if let Some(end) = start.restored_to {
            ledger.skip_to(end.max(start.commit));
        }
        TopicPartitionState::new(start.tp, ledger, start.commit)
    };
    Ok(starts.iter().zip(ledgers).map(tp).collect())
}

#[cfg(test)]
mod tests {
    use orbweaver_log::TopicPartition;
    use orbweaver_messages::topic;
    use proptest::prelude::*;

    use super::*;
    use crate::commit_metadata::CommitMetadata;

    fn start(commit: Offset, restored_to: Option<Offset>) -> StartPoint {
        let tp = TopicPartition::new(topic::FRONTIER, 3);
        StartPoint { tp, commit, end: 0, metadata: CommitMetadata::default(), restored_to }
    }

    fn ledger(start: StartPoint, incomplete: impl IntoIterator<Item = Offset>) -> Result<Ledger, String> {
        let named = incomplete.into_iter().map(|offset| (topic::FRONTIER, offset));
        ledgers(&[start], named).map(|mut tps| tps.remove(0).ledger)
    }

    #[test]
    fn after_a_restore_reading_goes_on_at_its_end_while_the_commit_stays() {
        let mut opened = ledger(start(10, Some(100)), [12, 40]).unwrap();
        assert_eq!((opened.commit_point(), opened.next(), opened.outstanding()), (12, 100, 2));
        assert!(opened.deliver(100) && opened.complete(12));
        assert_eq!(opened.commit_point(), 40);
        assert!(opened.complete(40));
        assert_eq!(opened.commit_point(), 100);
        assert_eq!(ledger(start(10, Some(100)), []).unwrap().commit_point(), 100);
        let empty = ledger(start(10, Some(7)), []).unwrap();
        assert_eq!((empty.commit_point(), empty.next()), (10, 10), "the commit point does not go back");
        assert_eq!(ledger(start(10, None), []).unwrap().next(), 10, "records that were not restored are received");
    }

    #[test]
    fn an_offset_that_cannot_be_incomplete_is_refused() {
        for wrong in [vec![9], vec![100], vec![Offset::MAX], vec![12, 12], vec![40, 12]] {
            let last = wrong.last().copied().unwrap();
            let reason = ledger(start(10, Some(100)), wrong).unwrap_err();
            let expected = format!(
                "crawl.frontier/3: offset {last} is reported as incomplete, but is outside of 10 (commit point) to 100"
            );
            assert!(reason.starts_with(&expected), "{reason}");
        }
        assert!(ledger(start(10, None), [12]).unwrap_err().ends_with("but crawl.frontier was not restored"));
    }

    proptest! {
        #[test]
        fn what_is_named_is_incomplete_and_nothing_else(commit in 0u64..1000, named: std::collections::BTreeSet<u16>, end in 0u64..70_000) {
            let end = commit + end;
            let named: Vec<Offset> = named.into_iter().map(|offset| commit + Offset::from(offset)).take_while(|offset| *offset < end).collect();
            let mut opened = ledger(start(commit, Some(end)), named.iter().copied()).unwrap();
            prop_assert_eq!((opened.outstanding(), opened.next()), (named.len(), end));
            for offset in named {
                prop_assert_eq!(opened.commit_point(), offset);
                prop_assert!(opened.complete(offset));
            }
            prop_assert_eq!(opened.commit_point(), end);
        }
    }
}
