//! Guarantees of appends.

use bytes::Bytes;

use super::{APPEND, PARTITIONS, PATIENCE, REFUSE, append, number, record, tp};
use crate::{Log, LogError, Record, Refusal};

pub(super) async fn offsets_come_in_the_order_of_the_input(log: &dyn Log) {
    let order = [0, 1, 0, 2, 1, 0];
    let batch: Vec<_> = order.iter().enumerate().map(|(n, partition)| record(tp(APPEND, *partition), n)).collect();
    assert_eq!(append(log, batch.clone()).await, [0, 0, 1, 0, 1, 2]);
    assert_eq!(append(log, batch).await, [3, 2, 4, 1, 3, 5]);
    assert_eq!(append(log, vec![]).await, [0; 0], "an empty batch is nothing");
}

pub(super) async fn a_record_is_read_as_it_was_appended(log: &dyn Log) {
    let at = tp(APPEND, 3);
    let headers =
        vec![("page", Bytes::from_static(b"{}")), ("empty", Bytes::new()), ("page", Bytes::from(vec![0xff; 3]))];
    let full = Record {
        tp: at,
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::from(vec![7; 100_000])),
        headers,
        timestamp_ms: 1_700_000_000_123,
    };
    let tombstone = Record { value: None, headers: vec![], ..full.clone() };
    let no_key = Record { key: None, value: Some(Bytes::new()), timestamp_ms: 1, ..tombstone.clone() };
    let empty_key = Record { key: Some(Bytes::new()), ..tombstone.clone() };
    let given = vec![full, tombstone, no_key, empty_key];
    let offsets = append(log, given.clone()).await;

    let mut reader = log.reader(at, offsets[0]).await.expect("a reader");
    let mut read = vec![];
    while read.len() < given.len() {
        let batch = reader.read(PATIENCE).await.expect("a read");
        assert!(!batch.is_empty(), "{} of {} records came", read.len(), given.len());
        read.extend(batch);
    }
    for ((read, given), offset) in read.iter().zip(&given).zip(offsets) {
        let headers: Vec<_> = read.headers.iter().map(|(name, value)| (&**name, value.clone())).collect();
        assert_eq!((read.tp, read.offset, read.timestamp_ms), (at, offset, given.timestamp_ms));
        assert_eq!((&read.key, &read.value, &headers), (&given.key, &given.value, &given.headers));
    }
}

pub(super) async fn what_is_not_there_is_named(log: &dyn Log) {
    let topic = orbweaver_messages::Topic("contract.absent");
    let nowhere = tp(topic, 0);
    assert!(matches!(log.partitions(topic), Err(LogError::UnknownTopic(t)) if t == topic));
    assert_eq!(log.partitions(APPEND).expect("a known topic"), PARTITIONS);
    assert!(matches!(log.consumer("contract-absent", &[topic]), Err(LogError::UnknownTopic(_))));
    assert!(matches!(log.append(vec![record(nowhere, 0)]).await, Err(LogError::UnknownTopic(_))));
    assert!(matches!(log.bounds(nowhere).await, Err(LogError::UnknownTopic(_))));

    let beyond = tp(APPEND, PARTITIONS);
    let before = log.bounds(tp(APPEND, 0)).await.expect("bounds");
    let mixed = vec![record(tp(APPEND, 0), 0), record(beyond, 0)];
    assert!(matches!(log.append(mixed).await, Err(LogError::UnknownPartition(p)) if p == beyond));
    assert_eq!(log.bounds(tp(APPEND, 0)).await.expect("bounds"), before, "a refused batch appends nothing");
    assert!(matches!(log.reader(beyond, 0).await.err(), Some(LogError::UnknownPartition(_))));
    assert!(matches!(log.bounds(beyond).await, Err(LogError::UnknownPartition(_))));
}

pub(super) async fn a_record_that_is_too_large_is_refused_by_itself(log: &dyn Log) {
    let (limit, one, two) = (log.record_limit(), tp(REFUSE, 0), tp(REFUSE, 1));
    let of = |at, bytes: usize| Record { key: None, value: Some(Bytes::from(vec![7; bytes])), ..record(at, 0) };
    let headers = vec![("large", Bytes::from(vec![7; limit - 10]))];
    let by_headers = Record { headers, ..of(one, 10) };
    let batch = vec![record(one, 1), of(one, limit + 1), record(two, 2), of(two, limit), by_headers, record(one, 3)];
    let Err(LogError::Refused(refused)) = log.append(batch).await else { panic!("too large records are taken") };
    assert_eq!(refused.offsets, [Some(0), None, Some(0), Some(1), None, Some(1)], "the neighbours are appended");
    let too_large = |bytes| Refusal::TooLarge { tp: one, bytes, max: limit };
    assert_eq!(
        refused.refusals,
        [(1, too_large(limit + 1)), (4, too_large(limit + 5))],
        "the record, its size, the limit"
    );

    let mut reader = log.reader(one, 0).await.expect("a reader");
    let mut read = vec![];
    while read.len() < 2 {
        read.extend(reader.read(PATIENCE).await.expect("a read").iter().map(number));
    }
    assert_eq!(read, [1, 3], "in the order of the input");
    let mut reader = log.reader(two, 1).await.expect("a reader");
    assert_eq!(reader.read(PATIENCE).await.expect("a read")[0].bytes(), limit, "the largest one is read, too");
}
