//! Segments: obsolete ones are removed, few files are open, and each record is delivered once.

use std::{fs, time::Duration};

use orbweaver_log::{Bounds, EmbeddedLog, Event, Log, LogError, Options};
use tempfile::tempdir;

use crate::fixture::{
    DELETE, KEEP, PARTITIONS, append, created, files, filled, number, open, read_all, specs, started, still, tp,
};

const WAIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn whole_segments_are_freed_once_a_checkpoint_knows() {
    let at = tp(DELETE, 0);
    let (dir, log) = filled(at, 0..200).await;
    log.flush().unwrap();
    let before = files(dir.path(), at).len();
    log.delete_below(at, 150).await.unwrap();
    assert_eq!(files(dir.path(), at).len(), before, "a power cut now would bring the commits back that allowed it");
    log.flush().unwrap();
    assert!(files(dir.path(), at).len() < before / 2);
    assert_eq!(log.bounds(at).await.unwrap(), Bounds { start: 150, end: 200 });
    assert_eq!(read_all(&log, at).await.len(), 50);
    log.close().unwrap();
    assert_eq!(open(dir.path()).bounds(at).await.unwrap(), Bounds { start: 150, end: 200 });
}

#[tokio::test]
async fn a_partition_of_which_nothing_is_needed_takes_no_room() {
    let dir = tempdir().unwrap();
    let at = tp(DELETE, 0);
    let options = Options { segment_bytes: 8 << 20, ..still() };
    let log = EmbeddedLog::open(dir.path(), options, &specs()).unwrap();
    append(&log, at, 0..1000).await;
    assert!(log.bytes(DELETE).unwrap() > 100_000);
    log.delete_below(at, 1000).await.unwrap();
    log.flush().unwrap();
    assert_eq!(log.bytes(DELETE).unwrap(), 0);
    append(&log, at, 1000..1010).await;
    assert_eq!(read_all(&log, at).await.first(), Some(&(1000, 1000)));
    log.close().unwrap();
    assert_eq!(open(dir.path()).bounds(at).await.unwrap(), Bounds { start: 1000, end: 1010 });
}

#[tokio::test]
async fn a_consumer_overtaken_by_a_deletion_is_told() {
    let at = tp(DELETE, 0);
    let (_dir, log) = filled(at, 0..200).await;
    let mut consumer = started(&log, 10).await;
    log.delete_below(at, 150).await.unwrap();
    let reported = consumer.poll(WAIT).await;
    assert!(matches!(reported, Err(LogError::OutOfRange { offset: 10, start: 150, .. })), "{reported:?}");
    consumer.start(at, 150).unwrap();
    let Some(Event::Records(batch)) = consumer.poll(WAIT).await.unwrap() else { panic!("no records") };
    assert_eq!(number(&batch[0]), 150);
}

#[tokio::test]
async fn what_was_read_before_a_pause_or_a_new_start_is_not_delivered() {
    let at = tp(DELETE, 0);
    let (_dir, log) = filled(at, 0..200).await;
    let mut consumer = started(&log, 0).await;
    // An old segment is read on the blocking pool; the poll ends before that read, unless the read was quick.
    let mut tries = 0;
    while consumer.poll(Duration::ZERO).await.unwrap().is_some() {
        tries += 1;
        assert!(tries < 10_000, "reading aside is always quicker");
        consumer.start(at, 0).unwrap();
    }
    consumer.pause(&[at]).unwrap();
    assert!(consumer.poll(Duration::from_millis(50)).await.unwrap().is_none());
    consumer.resume(&[at]).unwrap();
    // Whether this poll is dropped or not, it reads records from before the new start.
    let _ = tokio::time::timeout(Duration::ZERO, consumer.poll(Duration::ZERO)).await;
    consumer.start(at, 100).unwrap();
    let Some(Event::Records(batch)) = consumer.poll(WAIT).await.unwrap() else { panic!("no records") };
    assert_eq!(number(&batch[0]), 100);
}

#[tokio::test]
async fn few_files_are_open_however_many_there_are() {
    let (dir, log) = created();
    let mut consumer = log.consumer("group", &[KEEP, DELETE]).unwrap();
    consumer.poll(WAIT).await.unwrap();
    let tps: Vec<_> =
        [KEEP, DELETE].iter().flat_map(|topic| (0..PARTITIONS).map(|partition| tp(*topic, partition))).collect();
    for at in &tps {
        append(&log, *at, 0..500).await;
        consumer.start(*at, 0).unwrap();
    }
    let mut came = 0;
    while came < 2_000 {
        let Some(Event::Records(batch)) = consumer.poll(WAIT).await.unwrap() else { panic!("no records") };
        came += batch.len();
    }
    let names =
        fs::read_dir("/proc/self/fd").into_iter().flatten().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let open = names.filter(|path| path.starts_with(dir.path()) && path.extension().is_some_and(|it| it == "log"));
    assert!(tps.iter().map(|at| files(dir.path(), *at).len()).sum::<usize>() > 100);
    assert!(open.count() <= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_record_comes_once_while_many_append_segments_roll_and_old_ones_go() {
    let dir = tempdir().unwrap();
    let options = Options { sync_every: Duration::from_millis(1), ..still() };
    let log = std::sync::Arc::new(EmbeddedLog::open(dir.path(), options, &specs()).unwrap());
    let at = tp(DELETE, 0);
    let mut consumer = started(&*log, 0).await;
    let (writers, each) = (4, 1_000);
    for writer in 0..writers {
        let log = std::sync::Arc::clone(&log);
        tokio::spawn(async move {
            for number in 0..each {
                append(&*log, at, [writer * each + number]).await;
                tokio::task::yield_now().await;
            }
        });
    }
    let mut numbers = vec![];
    while numbers.len() < (writers * each) as usize {
        let Some(Event::Records(batch)) = consumer.poll(WAIT).await.unwrap() else {
            panic!("{} records came, and then none", numbers.len())
        };
        assert!(batch.iter().zip(numbers.len() as u64..).all(|(record, offset)| record.offset == offset));
        numbers.extend(batch.iter().map(number));
        log.delete_below(at, batch.last().unwrap().offset).await.unwrap();
    }
    for writer in 0..writers {
        let own = numbers.iter().copied().filter(|number| number / each == writer);
        assert!(own.eq(writer * each..(writer + 1) * each), "in the order of the appends");
    }
    log.flush().unwrap();
    assert!(files(dir.path(), at).len() <= 2, "consumed segments are deleted");
}
