//! Throughput figures, printed; nothing is asserted about time.

use std::time::{Duration, Instant};

use orbweaver_log::{Log, Record, TopicPartition};
use orbweaver_messages::Topic;

use crate::fixture::{Member, PATIENCE, config, record, specs, with};

const ONE: Topic = Topic("crawl.one");
const PARTITIONS: u32 = 8;
const BATCHES: usize = 60;
const BATCH: usize = 1_000;
const RECORDS: usize = PARTITIONS as usize * BATCHES * BATCH;

fn at(partition: u32) -> TopicPartition {
    TopicPartition::new(ONE, partition)
}

fn of_300_bytes(partition: u32, n: usize) -> Record {
    let value = format!("{{\"n\":{n},\"url\":\"http://example.org/{}\"}}{}", n * 7_919, "x".repeat(240));
    Record { value: Some(value.into()), ..record(at(partition), n) }
}

/// Returns the CPU time of this process, over all threads.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

fn report(what: &str, begun: (Instant, Duration)) {
    let (wall, cpu) = (begun.0.elapsed(), cpu() - begun.1);
    let rate = RECORDS as f64 / wall.as_secs_f64();
    println!(
        "{what}: {rate:.0} records/s, {:.2} us CPU of this process a record",
        cpu.as_micros() as f64 / RECORDS as f64
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the servers of tests/stack"]
async fn records_of_300_bytes_are_appended_and_read() {
    with(config(), &specs(&[ONE], PARTITIONS), |log| async move {
        let begun = (Instant::now(), cpu());
        let appending: Vec<_> = (0..PARTITIONS)
            .map(|partition| {
                let log = log.clone();
                tokio::spawn(async move {
                    for batch in 0..BATCHES {
                        let records =
                            (batch * BATCH..(batch + 1) * BATCH).map(|n| of_300_bytes(partition, n)).collect();
                        assert_eq!(log.append(records).await.unwrap().len(), BATCH);
                    }
                })
            })
            .collect();
        for task in appending {
            task.await.unwrap();
        }
        report("appended, 8 batches of 1,000 in flight", begun);

        let mut member = Member::join(&log, "group", &[ONE]);
        member.until("all partitions", |member| member.held.len() == 8).await;
        let begun = (Instant::now(), cpu());
        for partition in 0..PARTITIONS {
            member.consumer.start(at(partition), 0).unwrap();
        }
        let mut count = 0;
        while count < RECORDS {
            member.step().await;
            count += std::mem::take(&mut member.records).len();
        }
        report("read by a member", begun);
        member.consumer.close().await.unwrap();

        let begun = (Instant::now(), cpu());
        let reading: Vec<_> = (0..PARTITIONS)
            .map(|partition| {
                let log = log.clone();
                tokio::spawn(async move {
                    let mut reader = log.reader(at(partition), 0).await.unwrap();
                    let mut count = 0;
                    while count < BATCHES * BATCH {
                        count += reader.read(PATIENCE).await.unwrap().len();
                    }
                })
            })
            .collect();
        for task in reading {
            task.await.unwrap();
        }
        report("read by eight readers that share a consumer", begun);
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
        let reading: Vec<_> = opened
            .into_iter()
            .zip(bounds)
            .map(|(tp, bounds)| {
                let log = log.clone();
                tokio::spawn(async move {
                    let mut reader = log.reader(tp, bounds.start).await.unwrap();
                    let mut count = 0;
                    while reader.position() < bounds.end {
                        assert!(begun.elapsed() < PATIENCE, "{tp}: {count} of 10 records came");
                        count += reader.read(Duration::from_secs(1)).await.unwrap().len();
                    }
                    assert_eq!(count, 10, "{tp}");
                    // Kept open until all are read, as those of a process are.
                    reader
                })
            })
            .collect();
        assert_eq!(reading.len(), OPENED);
        let mut readers = vec![];
        for task in reading {
            readers.push(task.await.unwrap());
        }
        println!("64 of 1,024 partitions opened and read: {:.2} s", begun.elapsed().as_secs_f64());
    })
    .await;
}
