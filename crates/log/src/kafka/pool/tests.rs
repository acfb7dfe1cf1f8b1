//! A shared consumer on librdkafka's mock cluster.

use orbweaver_messages::topic;
use rdkafka::{
    mocking::MockCluster,
    producer::{BaseProducer, BaseRecord, Producer as _},
};

use super::*;
use crate::{ConsumerRecord, Reader, kafka::reader::KafkaReader};

const NAME: &str = "crawl.frontier";

fn produce(brokers: &str, count: usize, value: &str) {
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
    for _ in 0..count {
        let record = BaseRecord::<str, str>::to(NAME).partition(0).key("key").payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
        // One batch per record, so that a read may start at any of them.
        producer.flush(Duration::from_secs(30)).unwrap();
    }
}

async fn read_to(reader: &mut dyn Reader, end: Offset) -> Vec<Offset> {
    let (deadline, mut read) = (Instant::now() + Duration::from_secs(30), vec![]);
    while reader.position() < end {
        assert!(Instant::now() < deadline, "it is at {}, the end is {end}", reader.position());
        let batch: Vec<ConsumerRecord> = reader.read(Duration::from_millis(200)).await.unwrap();
        read.extend(batch.iter().map(|record| record.offset));
    }
    read
}

/// A leader that lags behind the end its predecessor reported: the requested end, 10, is not there yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_stays_where_the_leader_ends_until_what_was_asked_for_is_there() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(NAME, 1, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    produce(&brokers, 5, "value");
    let pool = ReaderPool::new(&KafkaConfig::new(&*brokers));
    let reader =
        |from| KafkaReader::new(TopicPartition::new(topic::FRONTIER, 0), NAME.into(), from, pool.seat(0).unwrap());
    let (mut behind, mut beyond) = (reader(0), reader(8));
    assert_eq!(read_to(&mut behind, 5).await, [0, 1, 2, 3, 4]);
    for reader in [&mut behind, &mut beyond] {
        let at = reader.position();
        for _ in 0..5 {
            assert_eq!(reader.read(Duration::from_millis(100)).await.unwrap(), []);
            assert_eq!(reader.position(), at, "neither the requested end nor an error");
        }
    }
    produce(&brokers, 5, "value");
    assert_eq!(read_to(&mut behind, 10).await, [5, 6, 7, 8, 9]);
    assert_eq!(read_to(&mut beyond, 10).await, [8, 9]);
}

/// A restore is slower than the fetch, its partition is lost, and assigned again. The test takes the place of the
/// consumer's thread, so that it sees the pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_whose_last_reader_was_dropped_while_it_was_paused_is_read_whole() {
    const RECORDS: usize = 60;
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(NAME, 1, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    produce(&brokers, RECORDS, &"x".repeat(50_000));
    let pool = ReaderPool::new(&KafkaConfig { fetch_bytes: 4 << 20, ..KafkaConfig::new(&*brokers) });
    let (mut thread, member) = pool.thread(Weak::new()).unwrap();
    let reader = || {
        let seat = ReaderSlot { member: member.clone(), partition: 0 };
        KafkaReader::new(TopicPartition::new(topic::FRONTIER, 0), NAME.into(), 0, seat)
    };
    let deadline = Instant::now() + Duration::from_secs(30);

    let mut slow = reader();
    assert_eq!(slow.read(Duration::ZERO).await.unwrap(), [], "it only opens the partition");
    while !thread.open.get(&0).is_some_and(|open| open.paused) {
        assert!(Instant::now() < deadline, "it was never paused");
        assert!(thread.step());
    }
    drop(slow);
    let (mut next, mut read) = (reader(), vec![]);
    while read.len() < RECORDS {
        assert!(Instant::now() < deadline, "{} records of {RECORDS} came", read.len());
        read.extend(next.read(Duration::ZERO).await.unwrap().iter().map(|record| record.offset));
        assert!(thread.step());
    }
    assert_eq!(read, (0..60).collect::<Vec<Offset>>());
}
