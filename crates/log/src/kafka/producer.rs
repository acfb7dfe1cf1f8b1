//! Appends: one idempotent producer, and one countdown a batch instead of a future a record.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use orbweaver_messages::Topic;
use rdkafka::{
    ClientContext, Message,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::KafkaError,
    message::{Header, OwnedHeaders},
    producer::{BaseRecord, DeliveryResult, NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer},
    types::RDKafkaErrorCode as Code,
};
use tokio::sync::oneshot;

use super::{
    KafkaConfig,
    client::{log_error, log_line, properties},
};
use crate::{LogError, Offset, Record, TopicPartition};

/// The largest record: key, value and headers. A page carries a body of 512 KiB at most.
pub(super) const MAX_RECORD_BYTES: usize = 2 << 20;
/// A dead letter is the record that it was, and why.
pub(super) const MAX_DEAD_LETTER_BYTES: usize = MAX_RECORD_BYTES + (128 << 10);
/// What Kafka's framing may add to a record.
pub(super) const FRAMING_BYTES: usize = 64 << 10;

/// Records that are handed over between two yields to the runtime.
const RECORDS_A_TURN: usize = 256;
/// How long an append waits before it looks whether the full producer has room again.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// Appends of one call, counted down as they are acknowledged.
struct Batch {
    /// In the order of the records.
    offsets: Box<[AtomicU64]>,
    left: AtomicUsize,
    end: Mutex<(Option<oneshot::Sender<()>>, Option<LogError>)>,
}

impl Batch {
    fn failed(&self, error: LogError) {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.1.get_or_insert(error);
    }

    /// One record is acknowledged, at the offset that librdkafka reports, or refused.
    fn reported(&self, index: usize, place: TopicPartition, report: Result<i64, LogError>) {
        match report.and_then(|offset| offset_of(place, offset)) {
            Ok(offset) => {
                if let Some(slot) = self.offsets.get(index) {
                    slot.store(offset, Ordering::Release);
                }
            }
            Err(error) => self.failed(error),
        }
        self.settled(1);
    }

    /// The offsets of all records, once all are reported; the first error if there was one.
    fn outcome(&self) -> Result<Vec<Offset>, LogError> {
        if let Some(error) = self.end.lock().unwrap_or_else(PoisonError::into_inner).1.take() {
            return Err(error);
        }
        Ok(self.offsets.iter().map(|offset| offset.load(Ordering::Acquire)).collect())
    }

    fn settled(&self, count: usize) {
        if self.left.fetch_sub(count, Ordering::AcqRel) == count {
            let done = self.end.lock().unwrap_or_else(PoisonError::into_inner).0.take();
            // Whoever gave up waiting does not want to know.
            let _ = done.map(|done| done.send(()));
        }
    }
}

/// One record of a batch, on its way.
pub(super) struct Delivery {
    batch: Arc<Batch>,
    index: usize,
    place: TopicPartition,
}

#[derive(Default)]
pub(super) struct Deliveries {
    fatal: OnceLock<String>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if error.rdkafka_error_code() == Some(Code::Fatal) {
            self.fatal.get_or_init(|| reason.to_owned());
        }
        log_error(&error, reason);
    }
}

impl ProducerContext<NoCustomPartitioner> for Deliveries {
    type DeliveryOpaque = Box<Delivery>;

    fn delivery(&self, result: &DeliveryResult<'_>, delivery: Box<Delivery>) {
        let Delivery { batch, index, place } = *delivery;
        let report = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, message)) => Err(match error.rdkafka_error_code() {
                Some(Code::MessageSizeTooLarge) => too_large(place, message.payload_len() + message.key_len()),
                _ => LogError::Fatal(format!("an append to {place} failed: {error}")),
            }),
        };
        batch.reported(index, place, report);
    }
}

/// The offset of an acknowledged record. A retry that the brokers refuse as a duplicate counts as acknowledged, but reports no
/// offset (`RD_KAFKA_OFFSET_INVALID`). The record is in the log; who appended it needs its offset (claims, indexes), and
/// appends it again after the next start, as whenever an acknowledgement is lost.
fn offset_of(place: TopicPartition, reported: i64) -> Result<Offset, LogError> {
    let unknown = "the record is in the log, and is appended again at the next start";
    Offset::try_from(reported).map_err(|_| {
        LogError::Unavailable(format!(
            "an append to {place} was acknowledged without an offset ({reported}): {unknown}"
        ))
    })
}

fn too_large(place: TopicPartition, bytes: usize) -> LogError {
    LogError::TooLarge { place, bytes, max: limit(place) }
}

/// What a record may have in bytes.
fn limit(place: TopicPartition) -> usize {
    if place.topic == orbweaver_messages::topic::DEAD_LETTERS { MAX_DEAD_LETTER_BYTES } else { MAX_RECORD_BYTES }
}

/// The producer of a log.
pub(super) struct Appender {
    /// `None` once it is dropped.
    producer: Option<ThreadedProducer<Deliveries>>,
}

impl Appender {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, LogError> {
        let mut client = properties(config);
        client
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", "0")
            .set("linger.ms", config.linger.as_millis().to_string())
            .set("compression.type", "lz4")
            .set("message.max.bytes", (MAX_DEAD_LETTER_BYTES + FRAMING_BYTES).to_string())
            .set("batch.size", (1 << 20).to_string())
            .set("queue.buffering.max.kbytes", (config.producer_bytes >> 10).to_string())
            .set("queue.buffering.max.messages", "1000000")
            .set("allow.auto.create.topics", "false");
        let producer = ThreadedProducer::from_config_and_context(&client, Deliveries::default())
            .map_err(|error| LogError::Invalid(format!("a Kafka producer: {error}")))?;
        Ok(Self { producer: Some(producer) })
    }

    fn producer(&self) -> Result<&ThreadedProducer<Deliveries>, LogError> {
        self.producer.as_ref().ok_or_else(|| LogError::Fatal("the producer is closed".to_owned()))
    }

    /// Appends `records`; `topics` has the names of their topics on the brokers. Resolves when all are acknowledged.
    pub(super) async fn append(
        &self,
        records: Vec<Record>,
        topics: &[(Topic, Arc<str>)],
    ) -> Result<Vec<Offset>, LogError> {
        for record in &records {
            let bytes = size(record);
            if bytes > limit(record.place) {
                return Err(too_large(record.place, bytes));
            }
        }
        if records.is_empty() {
            return Ok(vec![]);
        }
        let (done, all_done) = oneshot::channel();
        let batch = Arc::new(Batch {
            offsets: records.iter().map(|_| AtomicU64::new(Offset::MAX)).collect(),
            left: AtomicUsize::new(records.len()),
            end: Mutex::new((Some(done), None)),
        });
        for (index, record) in records.into_iter().enumerate() {
            if index % RECORDS_A_TURN == RECORDS_A_TURN - 1 {
                tokio::task::yield_now().await;
            }
            let topic = topics.iter().find(|(topic, _)| *topic == record.place.topic).map_or("", |(_, name)| name);
            let delivery = Box::new(Delivery { batch: batch.clone(), index, place: record.place });
            self.hand_over(topic, &record, delivery).await?;
        }
        // The sender is dropped only with the batch, which the deliveries hold.
        let _ = all_done.await;
        batch.outcome()
    }

    /// Gives one record to the producer, waiting while it is full.
    async fn hand_over(&self, topic: &str, record: &Record, delivery: Box<Delivery>) -> Result<(), LogError> {
        let place = record.place;
        let mut message = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic, delivery);
        message.partition = Some(i32::try_from(place.partition).unwrap_or(i32::MAX));
        message.key = record.key.as_deref();
        message.payload = record.value.as_deref();
        // To librdkafka 0 is "now".
        message.timestamp = Some(record.timestamp_ms.max(1));
        if !record.headers.is_empty() {
            let headers = OwnedHeaders::new_with_capacity(record.headers.len());
            message.headers =
                Some(record.headers.iter().fold(headers, |headers, (key, value)| {
                    headers.insert(Header { key, value: Some(value.as_ref()) })
                }));
        }
        loop {
            let (error, returned) = match self.producer()?.send(message) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            match error.rdkafka_error_code() {
                Some(Code::QueueFull) => {
                    // What it would hold across the wait is not to be sent between threads.
                    message = returned;
                    tokio::time::sleep(FULL_PAUSE).await;
                }
                Some(Code::MessageSizeTooLarge) => return Err(too_large(place, size(record))),
                _ => return Err(self.broken(place, &error)),
            }
        }
    }

    fn broken(&self, place: TopicPartition, error: &KafkaError) -> LogError {
        let fatal = self.producer().ok().and_then(|producer| producer.context().fatal.get());
        LogError::Fatal(match fatal {
            Some(reason) => format!("the producer cannot go on: {reason}"),
            None => format!("an append to {place} failed: {error}"),
        })
    }

    /// Waits until everything that was appended is acknowledged.
    pub(super) async fn flush(&self, within: Duration) -> Result<(), LogError> {
        let producer = self.producer()?.clone();
        let flushed = tokio::task::spawn_blocking(move || {
            let _ = producer.flush(within);
            producer.in_flight_count()
        });
        match flushed.await {
            Ok(0) => Ok(()),
            Ok(left) => Err(LogError::Unavailable(format!("{left} records were not acknowledged within {within:?}"))),
            Err(error) => Err(LogError::Fatal(error.to_string())),
        }
    }
}

impl Drop for Appender {
    /// What is not acknowledged is purged: nobody waits for it any more. That takes its thread a moment, which is not the
    /// runtime's to spend.
    fn drop(&mut self) {
        if let Some(producer) = self.producer.take() {
            std::thread::spawn(move || drop(producer));
        }
    }
}

/// Key, value and headers of a record.
fn size(record: &Record) -> usize {
    let headers: usize = record.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    record.key.as_ref().map_or(0, bytes::Bytes::len) + record.value.as_ref().map_or(0, bytes::Bytes::len) + headers
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    /// `RD_KAFKA_OFFSET_INVALID`.
    const NO_OFFSET: i64 = -1001;

    fn batch(records: usize) -> (Batch, oneshot::Receiver<()>) {
        let (done, all_done) = oneshot::channel();
        let offsets = (0..records).map(|_| AtomicU64::new(Offset::MAX)).collect();
        (Batch { offsets, left: AtomicUsize::new(records), end: Mutex::new((Some(done), None)) }, all_done)
    }

    #[test]
    fn a_batch_is_answered_with_the_offsets_in_the_order_of_its_records() {
        let (batch, mut done) = batch(2);
        let place = TopicPartition::new(topic::FRONTIER, 3);
        batch.reported(1, place, Ok(8));
        assert!(done.try_recv().is_err(), "one is on its way");
        batch.reported(0, place, Ok(7));
        done.try_recv().unwrap();
        assert_eq!(batch.outcome().unwrap(), [7, 8]);
    }

    #[test]
    fn an_acknowledgement_without_an_offset_is_an_error_and_no_offset() {
        for missing in [NO_OFFSET, -1] {
            let (batch, mut done) = batch(3);
            let place = TopicPartition::new(topic::FRONTIER, 3);
            batch.reported(0, place, Ok(7));
            batch.reported(1, place, Ok(missing));
            batch.reported(2, place, Ok(9));
            done.try_recv().unwrap();
            let error = batch.outcome().unwrap_err();
            assert!(matches!(error, LogError::Unavailable(_)), "{error}");
            let expected = format!("an append to crawl.frontier/3 was acknowledged without an offset ({missing})");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}
