//! Guarantees of readers, bounds, timestamps and deletion.

use std::time::Duration;

use tokio::time::Instant;

use super::{BOUNDS, DELETE, PATIENCE, QUIET, READ, TIME, append, join, number, record, tp};
use crate::{Bounds, Consumer, Log, LogError, Record};

pub(super) async fn a_reader_reads_on_and_waits_at_the_end(log: &dyn Log) {
    let at = tp(READ, 1);
    append(log, (0..2_500).map(|n| record(at, n)).collect()).await;
    let mut reader = log.reader(at, 500).await.expect("a reader");
    assert_eq!(reader.position(), 500);
    let mut numbers = vec![];
    while reader.position() < 2_500 {
        let before = reader.position();
        let batch = reader.read(PATIENCE).await.expect("a read");
        assert_eq!(batch.first().map(|record| record.offset), Some(before), "reading resumes at its position");
        numbers.extend(batch.iter().map(number));
    }
    assert!(numbers.into_iter().eq(500..2_500));
    assert!(reader.read(QUIET).await.expect("a read").is_empty());
    append(log, vec![record(at, 2_500)]).await;
    assert_eq!(reader.read(PATIENCE).await.expect("a read").len(), 1);
    assert!(reader.read(Duration::ZERO).await.expect("a read").is_empty());
    assert!(matches!(log.reader(at, 2_502).await.err(), Some(LogError::OutOfRange { end: 2_501, .. })));
}

pub(super) async fn bounds_tell_first_and_next_offset(log: &dyn Log) {
    let at = tp(BOUNDS, 0);
    assert_eq!(log.bounds(at).await.expect("bounds"), Bounds { start: 0, end: 0 });
    append(log, (0..3).map(|n| record(at, n)).collect()).await;
    assert_eq!(log.bounds(at).await.expect("bounds"), Bounds { start: 0, end: 3 });
    assert_eq!(log.bounds(tp(BOUNDS, 1)).await.expect("bounds"), Bounds { start: 0, end: 0 });
}

pub(super) async fn what_was_given_up_is_out_of_range(log: &dyn Log) {
    let at = tp(DELETE, 0);
    append(log, (0..100).map(|n| record(at, n)).collect()).await;
    let mut stale = log.reader(at, 10).await.expect("a reader");
    log.delete_below(at, 40).await.expect("a deletion");
    assert_eq!(log.bounds(at).await.expect("bounds"), Bounds { start: 40, end: 100 });
    log.delete_below(at, 20).await.expect("deleted records may be deleted again");
    assert_eq!(log.bounds(at).await.expect("bounds"), Bounds { start: 40, end: 100 });
    assert!(matches!(log.reader(at, 39).await.err(), Some(LogError::OutOfRange { start: 40, end: 100, .. })));
    assert!(matches!(stale.read(PATIENCE).await, Err(LogError::OutOfRange { offset: 10, .. })));
    let mut reader = log.reader(at, 40).await.expect("a reader");
    assert_eq!(reader.read(PATIENCE).await.expect("a read")[0].offset, 40);
    assert!(matches!(log.delete_below(at, 101).await, Err(LogError::OutOfRange { offset: 101, .. })));

    let mut consumer = join(log, "contract-delete", &[DELETE]).await;
    for outside in [39, 101] {
        let refused = match consumer.start(at, outside) {
            Err(refused) => refused,
            Ok(()) => reported(&mut *consumer).await,
        };
        let right = matches!(refused, LogError::OutOfRange { offset, start: 40, end: 100, .. } if offset == outside);
        assert!(right, "{refused:?}");
    }
    consumer.close().await.expect("it leaves");

    log.delete_below(at, 100).await.expect("everything may go");
    assert_eq!(log.bounds(at).await.expect("bounds"), Bounds { start: 100, end: 100 });
    assert_eq!(append(log, vec![record(at, 100)]).await, [100], "offsets continue");
}

/// Polls until an error is returned.
async fn reported(consumer: &mut dyn Consumer) -> LogError {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        match consumer.poll(QUIET).await {
            Ok(None) => {}
            Ok(Some(event)) => panic!("instead of an error came {event:?}"),
            Err(error) => return error,
        }
    }
    panic!("no error for a position outside of the log");
}

pub(super) async fn a_time_finds_the_first_record_made_since(log: &dyn Log) {
    let at = tp(TIME, 2);
    assert_eq!(log.offset_at(at, 0).await.expect("an offset"), 0, "the end of an empty partition");
    let timed = |n: usize| Record { timestamp_ms: 1_700_000_000_000 + n as i64 * 10, ..record(at, n) };
    append(log, (0..1_000).map(timed).collect()).await;
    for (time, offset) in [(0, 0), (1, 1), (10, 1), (11, 2), (9_990, 999), (9_991, 1_000)] {
        let found = log.offset_at(at, 1_700_000_000_000 + time).await.expect("an offset");
        assert_eq!(found, offset, "{time} ms after the first");
    }
}
