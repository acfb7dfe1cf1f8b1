//! Readers: many at once, slow ones, gaps, deletion.

use std::{collections::BTreeMap, time::Duration};

use futures::future::join_all;
use orbweaver_log::{
    Bounds, Cleanup, Log, Record, TopicPartition, TopicSpec,
    kafka::{KafkaConfig, KafkaLog},
};
use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier},
    client::DefaultClientContext,
    producer::{BaseProducer, BaseRecord, Producer},
};
use tokio::time::Instant;

use crate::fixture::{Member, ONE, PATIENCE, TWO, append, at, config, number, read_to, record, specs, with};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn many_readers_share_a_few_consumers_and_each_reads_its_own() {
    with(config(), &specs(&[ONE, TWO], 16), |log| async move {
        let shift = |tp: TopicPartition| tp.partition as usize * 1_000 + usize::from(tp.topic == TWO) * 100_000;
        let tps: Vec<_> = [ONE, TWO]
            .iter()
            .flat_map(|topic| (0..16).map(|partition| TopicPartition::new(*topic, partition)))
            .collect();
        for tp in &tps {
            append(&log, *tp, shift(*tp)..shift(*tp) + 500).await;
        }
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        let mut reading = vec![];
        for tp in tps {
            for from in [0_u64, 250] {
                let (log, shift) = (&log, shift(tp));
                reading.push(async move {
                    let mut reader = log.reader(tp, from).await.unwrap();
                    let read = read_to(&mut *reader, 500).await;
                    let wanted: Vec<_> = (from..500).map(|offset| (offset, offset as usize + shift)).collect();
                    assert_eq!(read, wanted, "{tp}");
                    reader
                });
            }
        }
        let readers = join_all(reading).await;
        let more = threads() - before;
        assert!(more < 64, "{} readers took {more} threads more", readers.len());
        println!("{} readers took {more} threads more", readers.len());
    })
    .await;
}

/// Returns a figure of this process from `/proc/self/status`, in KiB.
fn status_kib(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// 400 MB of records in 2 MB of batches, as a site can bring about by its links.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn records_that_were_compressed_200_times_are_read_in_bounded_memory() {
    const RECORDS: usize = 400;
    with(config(), &specs(&[ONE], 1), |log| async move {
        let large = |n: usize| Record {
            headers: vec![("number", n.to_string().into())],
            value: Some(vec![b'a'; 1_000_000].into()),
            ..record(at(0), n)
        };
        for n in 0..RECORDS / 10 {
            log.append((10 * n..10 * n + 10).map(large).collect()).await.unwrap();
        }
        // Sets the peak of the process to its present memory.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = status_kib("VmRSS");
        let mut reader = log.reader(at(0), 0).await.unwrap();
        let (deadline, mut count) = (Instant::now() + PATIENCE, 0);
        while count < RECORDS {
            assert!(Instant::now() < deadline, "{count} of {RECORDS} records came");
            count += reader.read(Duration::from_secs(1)).await.unwrap().len();
        }
        let more = status_kib("VmHWM").saturating_sub(before) / 1024;
        println!("{RECORDS} MB of records took {more} MiB");
        assert!(more < 100, "{more} MiB");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_reader_that_stands_still_holds_nobody_up_and_misses_nothing() {
    let config = KafkaConfig { fetch_bytes: 4 << 20, ..config() };
    with(config, &specs(&[ONE], 2), |log| async move {
        let large = |partition: u32, n: usize| Record {
            headers: vec![("page", vec![b'x'; 50_000].into())],
            ..record(at(partition), n)
        };
        for partition in 0..2 {
            log.append((0..400).map(|n| large(partition, n)).collect()).await.unwrap();
        }
        let mut still = log.reader(at(0), 0).await.unwrap();
        let first = still.read(PATIENCE).await.unwrap();
        let mut other = log.reader(at(1), 0).await.unwrap();
        assert_eq!(read_to(&mut *other, 400).await.len(), 400);
        let rest = read_to(&mut *still, 400).await;
        let all: Vec<_> =
            first.iter().map(|record| record.offset).chain(rest.iter().map(|(offset, _)| *offset)).collect();
        assert_eq!(all, (0..400).collect::<Vec<_>>());
    })
    .await;
}

/// Writes a transaction of `numbers` to partition 0 of [`ONE`], and commits or aborts it.
fn transact(log: &KafkaLog, numbers: std::ops::Range<usize>, commit: bool) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &log.config().brokers)
        .set("transactional.id", orbweaver_testkit::unique("transaction"))
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    let topic = log.topic_name(ONE);
    for number in numbers {
        let value = number.to_string();
        let record = BaseRecord::<[u8], str>::to(&topic).partition(0).payload(&value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(PATIENCE).unwrap();
    if commit { producer.commit_transaction(PATIENCE) } else { producer.abort_transaction(PATIENCE) }.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_reader_passes_the_markers_of_transactions_at_the_end_and_a_member_those_in_between() {
    with(config(), &specs(&[ONE], 1), |log| async move {
        let foreign = log.clone();
        tokio::task::spawn_blocking(move || {
            transact(&foreign, 0..3, true);
            transact(&foreign, 3..6, false);
        })
        .await
        .unwrap();
        // Three records, a marker, three aborted records, a marker; markers are written shortly after the response.
        let deadline = Instant::now() + PATIENCE;
        while log.bounds(at(0)).await.unwrap() != (Bounds { start: 0, end: 8 }) {
            assert!(Instant::now() < deadline, "the markers never came");
        }
        let mut reader = log.reader(at(0), 0).await.unwrap();
        assert_eq!(read_to(&mut *reader, 8).await, [(0, 0), (1, 1), (2, 2)]);
        for from in 3..=8 {
            let mut reader = log.reader(at(0), from).await.unwrap();
            // As long as the completion check waits.
            let read = reader.read(Duration::from_millis(500)).await.unwrap();
            assert_eq!((read.len(), reader.position()), (0, 8), "from {from}");
        }
        append(&log, at(0), 8..9).await;
        assert_eq!(read_to(&mut *reader, 9).await, [(8, 8)], "it continues behind the gap");

        let mut member = Member::holding(&log, "group", &[ONE], 1).await;
        member.start_all(0);
        member.until("records", |member| member.records.len() == 4).await;
        assert!(member.records.iter().map(number).eq([0, 1, 2, 8]));
        member.consumer.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn a_reader_passes_what_compaction_took() {
    let spec = TopicSpec::new(ONE, 1, Cleanup::Compact);
    with(config(), &[spec], |log| async move {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &log.config().brokers).create().unwrap();
        let name = log.topic_name(ONE);
        let settings = [
            ("cleanup.policy", "compact"),
            ("segment.bytes", "1048576"),
            ("min.cleanable.dirty.ratio", "0.01"),
            ("min.compaction.lag.ms", "0"),
            ("max.compaction.lag.ms", "1"),
            ("retention.ms", "-1"),
        ];
        let change = AlterConfig::new(ResourceSpecifier::Topic(&name));
        let change = settings.iter().fold(change, |change, (key, value)| change.set(key, value));
        admin.alter_configs(&[change], &AdminOptions::new()).await.unwrap();

        let keyed = |n: usize| Record {
            key: Some(format!("key {}", n % 10).into()),
            headers: vec![("fill", crate::append::noise(10_000).into())],
            ..record(at(0), n)
        };
        log.append((0..500).map(keyed).collect()).await.unwrap();
        // Until the cleaner has run; it needs a new segment to do so.
        let (deadline, mut written) = (Instant::now() + PATIENCE, 500);
        loop {
            assert!(Instant::now() < deadline, "nothing was compacted");
            log.append((written..written + 20).map(keyed).collect()).await.unwrap();
            written += 20;
            let mut reader = log.reader(at(0), 0).await.unwrap();
            let read = read_to(&mut *reader, written as u64).await;
            let last: BTreeMap<_, _> = read.iter().map(|(offset, number)| (number % 10, *offset)).collect();
            assert_eq!(
                last.into_values().collect::<std::collections::BTreeSet<_>>(),
                (written as u64 - 10..written as u64).collect()
            );
            assert!(read.windows(2).all(|pair| pair[0].0 < pair[1].0));
            // The cleaner may work between two reads: what they say is compared once it has left the records alone.
            let gap = (0..written as u64).find(|offset| read.iter().all(|(kept, _)| kept != offset));
            if let Some(gap) = gap {
                let mut from_gap = log.reader(at(0), gap).await.unwrap();
                let behind = read_to(&mut *from_gap, written as u64).await;
                let mut reader = log.reader(at(0), 0).await.unwrap();
                if read_to(&mut *reader, written as u64).await == read {
                    println!("{} of {written} records are left", read.len());
                    assert!(behind.iter().eq(read.iter().filter(|(offset, _)| *offset > gap)), "from {gap}");
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn an_untouched_record_behind_a_deletion_is_read_as_it_was() {
    with(config(), &specs(&[ONE], 1), |log| async move {
        append(&log, at(0), 0..1_000).await;
        let mut reader = log.reader(at(0), 0).await.unwrap();
        let first = reader.read(PATIENCE).await.unwrap();
        assert_eq!(first[0].offset, 0);
        log.delete_below(at(0), 600).await.unwrap();
        append(&log, at(0), 1_000..1_010).await;
        // Returns prefetched records, then those in the log: no offset is repeated, none above the deletion missing.
        let mut read: Vec<_> = first.iter().map(|record| (record.offset, number(record))).collect();
        read.extend(read_to(&mut *reader, 1_010).await);
        assert!(read.windows(2).all(|pair| pair[0].0 < pair[1].0) && read.iter().all(|(at, n)| *at == *n as u64));
        assert_eq!(read.iter().filter(|(offset, _)| *offset >= 600).count(), 410);
        let mut fresh = log.reader(at(0), 600).await.unwrap();
        assert_eq!(read_to(&mut *fresh, 1_010).await.len(), 410);
        assert_eq!(log.offset_at(at(0), 0).await.unwrap(), 600);
    })
    .await;
}

/// The partitions of one process of sixteen, such as a frontier's at its start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn sixty_four_of_1024_partitions_are_opened() {
    const OPENED: usize = 64;
    with(config(), &specs(&[ONE], 1_024), |log| async move {
        let opened: Vec<_> = (0..1_024).step_by(1_024 / OPENED).map(at).collect();
        let records = opened.iter().flat_map(|tp| (0..10).map(move |n| record(*tp, n)));
        log.append(records.collect()).await.unwrap();

        let begun = Instant::now();
        let bounds = log.all_bounds(&opened).await.unwrap();
        println!("bounds of 64 of 1,024 partitions: {:.2} s", begun.elapsed().as_secs_f64());
        let mut reading = vec![];
        for (tp, bounds) in opened.into_iter().zip(bounds) {
            let log = &log;
            reading.push(async move {
                let mut reader = log.reader(tp, bounds.start).await.unwrap();
                assert_eq!(read_to(&mut *reader, bounds.end).await.len(), 10, "{tp}");
                // Kept open until all are read, as those of a process are.
                reader
            });
        }
        assert_eq!(join_all(reading).await.len(), OPENED);
        println!("64 of 1,024 partitions opened and read: {:.2} s", begun.elapsed().as_secs_f64());
    })
    .await;
}
