use std::time::Duration;

use orbweaver_messages::topic;

use super::*;

const IDLE: bool = true;

fn at(partition: Partition) -> TopicPartition {
    TopicPartition::new(topic::SEEDS, partition)
}

fn record(partition: Partition, offset: Offset) -> ConsumerRecord {
    ConsumerRecord { tp: at(partition), offset, timestamp_ms: 0, key: None, value: None, headers: vec![] }
}

fn origin(partition: Partition, offset: Offset) -> Origin {
    Origin { tp: at(partition), offset, assignment_epoch: 1 }
}

/// Returns a quarantine of these partitions, each with records 5 to 7.
fn quarantine(partitions: &[Partition], suspect: Option<Suspect>, now: Instant) -> Quarantine {
    let mut quarantine = Quarantine::new(1000, &Trials::default());
    for partition in partitions {
        quarantine.admit(at(*partition), suspect, now);
        (5..8).for_each(|offset| assert_eq!(quarantine.keep(record(*partition, offset)), None));
    }
    // The topic-partitions of the others are paused from the end of the next iteration on.
    assert_eq!(quarantine.next(now, !IDLE, |_| false), Next::Wait);
    quarantine
}

fn mark(partition: Partition, offset: Offset) -> Next {
    Next::Mark(at(partition), offset, Permit::Counts)
}

/// Passes the marked record to the stage.
fn give(quarantine: &mut Quarantine, partition: Partition) -> Offset {
    let offset = quarantine.take_marked(at(partition)).unwrap().offset;
    quarantine.give(origin(partition, offset));
    offset
}

#[test]
fn one_record_at_a_time_is_marked_then_passed_on_and_the_topic_partitions_take_turns() {
    let now = Instant::now();
    let mut quarantine = quarantine(&[1, 2], None, now);
    for expected in [(1, 5), (2, 5), (1, 6), (2, 6)] {
        assert_eq!(quarantine.next(now, !IDLE, |_| false), Next::Wait, "something else is in flight");
        assert_eq!(quarantine.next(now, IDLE, |_| false), mark(expected.0, expected.1));
        assert_eq!(quarantine.next(now, IDLE, |_| false), Next::Wait, "its mark is being committed");
        assert_eq!(give(&mut quarantine, expected.0), expected.1);
        assert_eq!(quarantine.next(now, IDLE, |_| false), Next::Wait, "the stage has it");
        quarantine.done(origin(expected.0, expected.1));
    }
    assert_eq!(quarantine.next(now, IDLE, |partition| partition == 1), mark(2, 7), "1 is being drained");
}

#[test]
fn a_panic_counts_against_a_record_that_the_stage_has_and_not_against_one_that_is_only_marked() {
    let now = Instant::now();
    let mut quarantine = quarantine(&[1], None, now);
    assert_eq!(quarantine.next(now, IDLE, |_| false), mark(1, 5));
    assert_eq!((quarantine.to_blame(), quarantine.unmark_if(|one| one.given.is_none())), (vec![], vec![at(1)]));
    assert_eq!(quarantine.next(now, IDLE, |_| false), mark(1, 5));
    give(&mut quarantine, 1);
    assert_eq!((quarantine.to_blame(), quarantine.unmark_if(|one| one.given.is_none())), (vec![at(1)], vec![]));
    assert_eq!(quarantine.unmark_if(|_| true), [at(1)]);
    assert_eq!(quarantine.to_blame(), [], "the stage ended with an error");
}

#[test]
fn a_suspect_waits_while_others_go_on_and_a_condemned_one_is_rejected() {
    let now = Instant::now();
    let suspect = Suspect { offset: 5, unexplained_ends: 1, crashes: 0 };
    let mut waiting = quarantine(&[1], Some(suspect), now);
    assert!(!waiting.holds_others(now));
    assert_eq!(waiting.next(now, IDLE, |_| false), Next::Wait);
    let later = now + suspect.pause();
    assert!(waiting.holds_others(later));
    assert_eq!(waiting.next(later, IDLE, |_| false), mark(1, 5));
    let kept = waiting.annotate(at(1), CommitMetadata::default());
    assert_eq!((kept.suspect, kept.untried), (Some(suspect), false));
    let mut condemned = quarantine(&[1], Some(Suspect { crashes: 3, unexplained_ends: 0, ..suspect }), now);
    assert!(matches!(condemned.next(now, IDLE, |_| false), Next::Reject(record, _) if record.offset == 5));
}

#[test]
fn a_quarantine_ends_after_its_records_or_when_it_has_caught_up() {
    let now = Instant::now();
    let mut quarantine = Quarantine::new(1, &Trials::default());
    quarantine.admit(at(1), None, now);
    quarantine.admit(at(2), None, now);
    (5..7).for_each(|offset| assert_eq!(quarantine.keep(record(1, offset)), None));
    assert_eq!(quarantine.keep(record(3, 5)), Some(record(3, 5)), "it is not in quarantine");
    assert_eq!(quarantine.next(now, IDLE, |_| false), mark(1, 5));
    give(&mut quarantine, 1);
    quarantine.done(origin(1, 5));
    assert_eq!(quarantine.next(now, IDLE, |_| false), Next::End(at(1), vec![record(1, 6)]));
    assert_eq!(quarantine.next(now, IDLE, |_| false), Next::Wait);
    let later = now + Duration::from_secs(5);
    assert_eq!(quarantine.next(later, IDLE, |_| false), Next::End(at(2), vec![]));
    assert_eq!(quarantine.occupied(at(2)), None);
}
