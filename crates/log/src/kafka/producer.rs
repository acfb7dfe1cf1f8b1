//! Appends: one idempotent producer, and one countdown per batch instead of a future per record.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use orbweaver_messages::Topic;
use rdkafka::{
    ClientContext, Message,
    config::{FromClientConfigAndContext, RDKafkaLogLevel},
    error::KafkaError,
    message::{Header, OwnedHeaders, OwnedMessage},
    producer::{BaseRecord, DeliveryResult, NoCustomPartitioner, Producer, ProducerContext, ThreadedProducer},
    types::RDKafkaErrorCode as Code,
};
use tokio::sync::oneshot;

use super::{
    KafkaConfig,
    acknowledged::Acknowledged,
    broker_queries::raw_partition,
    client::{invalid, log_error, log_line, properties},
};
use crate::{DEAD_LETTER_ROOM, LogError, Offset, Partition, Record, Refusal, Refused, TopicPartition, limit::limit_of};

/// Maximum bytes that Kafka's framing, and compression without gain, add to a record.
pub(super) const FRAMING_BYTES: usize = 64 << 10;

/// Number of records sent between two yields to the runtime.
const RECORDS_PER_YIELD: usize = 256;
/// Delay before retrying a full producer.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// The records of one append, counted down as they are acknowledged or refused.
struct Batch {
    /// In the order of the records.
    offsets: Box<[AtomicU64]>,
    left: AtomicUsize,
    end: Mutex<End>,
}

/// Result of a batch, apart from its offsets.
#[derive(Default)]
struct End {
    done: Option<oneshot::Sender<()>>,
    error: Option<LogError>,
    refusals: Vec<(usize, Refusal)>,
    /// Records that the brokers refused.
    returned: Vec<Returned>,
}

/// A record that the brokers refused, because of itself or of another one in the same request.
struct Returned {
    index: usize,
    tp: TopicPartition,
    message: OwnedMessage,
}

impl Batch {
    /// Creates a batch of `count` records, and a receiver that resolves when all are settled.
    fn of(count: usize) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (done, all_done) = oneshot::channel();
        let batch = Self {
            offsets: (0..count).map(|_| AtomicU64::new(Offset::MAX)).collect(),
            left: AtomicUsize::new(count),
            end: Mutex::new(End { done: Some(done), ..End::default() }),
        };
        (Arc::new(batch), all_done)
    }

    fn end(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the report on one record: acknowledged at an offset, or failed.
    fn reported(&self, index: usize, report: Result<Offset, LogError>) {
        match report {
            Ok(offset) => {
                if let Some(slot) = self.offsets.get(index) {
                    slot.store(offset, Ordering::Release);
                }
            }
            Err(error) => drop(self.end().error.get_or_insert(error)),
        }
        self.settled();
    }

    /// Refuses one record before it is sent.
    fn refuse(&self, index: usize, refusal: Refusal) {
        self.end().refusals.push((index, refusal));
        self.settled();
    }

    /// Counts down one settled record.
    fn settled(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let done = self.end().done.take();
            // The caller may have stopped waiting.
            let _ = done.map(|done| done.send(()));
        }
    }

    /// Returns the result of the batch, once all its records are settled.
    fn outcome(&self) -> Result<(Vec<Offset>, End), LogError> {
        let mut end = std::mem::take(&mut *self.end());
        if let Some(error) = end.error.take() {
            return Err(error);
        }
        Ok((self.offsets.iter().map(|offset| offset.load(Ordering::Acquire)).collect(), end))
    }
}

/// Returns whether the brokers refuse a record as it is, or a request because of a record in it.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::MessageSizeTooLarge
            | Code::MessageBatchTooLarge
            | Code::InvalidMessageSize
            | Code::InvalidRecord
            | Code::InvalidDifferentRecord
    )
}

/// Callback data of one record in flight.
pub(super) struct Delivery {
    batch: Arc<Batch>,
    index: usize,
    tp: TopicPartition,
}

#[derive(Default)]
pub(super) struct Deliveries {
    fatal: OnceLock<String>,
    acknowledged: Mutex<Acknowledged>,
}

impl Deliveries {
    /// Returns the offset of an acknowledged record. If a retry was refused as a duplicate, it has none: the record is
    /// in the log, but the caller needs its offset (claims, indexes), and appends it again after the next start, as
    /// after any lost acknowledgement.
    fn offset(&self, tp: TopicPartition, reported: i64) -> Result<Offset, LogError> {
        let offset = self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).offset(tp, reported);
        let unknown = "the record is in the log, and will be appended again after a restart";
        offset.ok_or_else(|| {
            LogError::Unavailable(format!(
                "an append to {tp} was acknowledged without an offset ({reported}): {unknown}"
            ))
        })
    }
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
        let Delivery { batch, index, tp } = *delivery;
        match result {
            Ok(message) => batch.reported(index, self.offset(tp, message.offset())),
            Err((error, message)) => match error.rdkafka_error_code() {
                Some(code) if is_refusal(code) => {
                    batch.end().returned.push(Returned { index, tp, message: message.detach() });
                    batch.settled();
                }
                _ => {
                    let error = LogError::Fatal(format!("an append to {tp} failed: {error}"));
                    batch.reported(index, Err(error));
                }
            },
        }
    }
}

/// The producer of a log.
pub(super) struct BatchProducer {
    /// `None` once dropped.
    producer: Option<ThreadedProducer<Deliveries>>,
    record_limit: usize,
}

impl BatchProducer {
    pub(super) fn new(config: &KafkaConfig) -> Result<Self, LogError> {
        let mut client = properties(config);
        client
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", "0")
            .set("linger.ms", config.linger.as_millis().to_string())
            .set("compression.type", "lz4")
            .set("message.max.bytes", (config.record_limit + DEAD_LETTER_ROOM + FRAMING_BYTES).to_string())
            // Below the limit: a batch of small records never exceeds what the topics accept for one.
            .set("batch.size", config.record_limit.min(1 << 20).to_string())
            .set("queue.buffering.max.kbytes", (config.producer_bytes >> 10).to_string())
            .set("queue.buffering.max.messages", "1000000")
            .set("allow.auto.create.topics", "false");
        let producer = ThreadedProducer::from_config_and_context(&client, Deliveries::default())
            .map_err(|error| invalid("a Kafka producer", &error))?;
        Ok(Self { producer: Some(producer), record_limit: config.record_limit })
    }

    fn producer(&self) -> Result<&ThreadedProducer<Deliveries>, LogError> {
        self.producer.as_ref().ok_or_else(|| LogError::Fatal("the producer is closed".to_owned()))
    }

    /// Appends `records`; `topics` has the topic names on the brokers, and their partition counts. Resolves once all are
    /// acknowledged or refused.
    pub(super) async fn append(
        &self,
        records: Vec<Record>,
        topics: &[(Topic, Arc<str>, Partition)],
    ) -> Result<Vec<Offset>, LogError> {
        if records.is_empty() {
            return Ok(vec![]);
        }
        let (batch, all_done) = Batch::of(records.len());
        for (index, record) in records.into_iter().enumerate() {
            if index % RECORDS_PER_YIELD == RECORDS_PER_YIELD - 1 {
                tokio::task::yield_now().await;
            }
            if let Err(refusal) = Refusal::check_size(&record, self.record_limit) {
                batch.refuse(index, refusal);
                continue;
            }
            let topic = topics.iter().find(|(topic, ..)| *topic == record.tp.topic).map_or("", |(_, name, _)| name);
            let delivery = Box::new(Delivery { batch: batch.clone(), index, tp: record.tp });
            let mut message = BaseRecord::with_opaque_to(topic, delivery);
            message.partition = Some(raw_partition(record.tp.partition));
            message.key = record.key.as_deref();
            message.payload = record.value.as_deref();
            // librdkafka reads 0 as "now".
            message.timestamp = Some(record.timestamp_ms.max(1));
            if !record.headers.is_empty() {
                let headers = OwnedHeaders::new_with_capacity(record.headers.len());
                message.headers = Some(record.headers.iter().fold(headers, |headers, (key, value)| {
                    headers.insert(Header { key, value: Some(value.as_ref()) })
                }));
            }
            self.hand_over(message).await?;
        }
        // The sender is dropped only with the batch, which the deliveries keep alive.
        let _ = all_done.await;
        let (mut offsets, End { mut refusals, returned, .. }) = batch.outcome()?;
        for returned in returned {
            let index = returned.index;
            match self.send_alone(returned).await? {
                Ok(offset) => drop(offsets.get_mut(index).map(|slot| *slot = offset)),
                Err(refusal) => refusals.push((index, refusal)),
            }
        }
        Refused::unless_all(offsets, refusals)
    }

    /// Resends a record alone: the brokers refuse a whole request because of one record in it.
    async fn send_alone(&self, returned: Returned) -> Result<Result<Offset, Refusal>, LogError> {
        let Returned { tp, mut message, .. } = returned;
        let (batch, done) = Batch::of(1);
        let headers = message.detach_headers();
        let delivery = Box::new(Delivery { batch: batch.clone(), index: 0, tp });
        let mut again = BaseRecord::with_opaque_to(message.topic(), delivery);
        again.partition = Some(message.partition());
        again.key = message.key();
        again.payload = message.payload();
        again.timestamp = message.timestamp().to_millis();
        again.headers = headers;
        self.hand_over(again).await?;
        let _ = done.await;
        let (offsets, mut end) = batch.outcome()?;
        if let (Some(offset), true, true) = (offsets.first(), end.returned.is_empty(), end.refusals.is_empty()) {
            return Ok(Ok(*offset));
        }
        Ok(Err(end.refusals.pop().map_or_else(|| self.refused_by_brokers(tp, &message), |(_, refusal)| refusal)))
    }

    fn refused_by_brokers(&self, tp: TopicPartition, message: &OwnedMessage) -> Refusal {
        let (bytes, limit) = (length(message.key()) + length(message.payload()), self.record_limit);
        let reason = format!(
            "the brokers refuse a record of {bytes} bytes, although the record limit is {limit}; run `orbweaver topics \
             check` to find the setting that is too low"
        );
        Refusal::Invalid { tp, reason }
    }

    /// Passes one record to the producer, waiting while it is full.
    async fn hand_over(&self, mut message: BaseRecord<'_, [u8], [u8], Box<Delivery>>) -> Result<(), LogError> {
        loop {
            let (error, returned) = match self.producer()?.send(message) {
                Ok(()) => return Ok(()),
                Err(refused) => refused,
            };
            let Delivery { batch, index, tp } = &*returned.delivery_opaque;
            match error.rdkafka_error_code() {
                Some(Code::QueueFull) => {
                    // Moved, not held across the await: otherwise the future is not `Send`.
                    message = returned;
                    tokio::time::sleep(FULL_PAUSE).await;
                }
                Some(Code::MessageSizeTooLarge) => {
                    let bytes = length(returned.key) + length(returned.payload);
                    let max = limit_of(tp.topic, self.record_limit);
                    batch.refuse(*index, Refusal::TooLarge { tp: *tp, bytes, max });
                    return Ok(());
                }
                _ => return Err(self.broken(*tp, &error)),
            }
        }
    }

    fn broken(&self, tp: TopicPartition, error: &KafkaError) -> LogError {
        let fatal = self.producer().ok().and_then(|producer| producer.context().fatal.get());
        LogError::Fatal(match fatal {
            Some(reason) => format!("the producer failed permanently: {reason}"),
            None => format!("an append to {tp} failed: {error}"),
        })
    }

    /// Waits until all appended records are acknowledged: for `within`, or twice as long if librdkafka does not return.
    pub(super) async fn flush(&self, within: Duration) -> Result<(), LogError> {
        let producer = self.producer()?.clone();
        let flushed = tokio::task::spawn_blocking(move || {
            let _ = producer.flush(within);
            producer.in_flight_count()
        });
        let Ok(flushed) = tokio::time::timeout(2 * within, flushed).await else {
            return Err(LogError::Unavailable(format!("the producer did not answer within {:?}", 2 * within)));
        };
        match flushed {
            Ok(0) => Ok(()),
            Ok(left) => Err(LogError::Unavailable(format!("{left} records were not acknowledged within {within:?}"))),
            Err(error) => Err(LogError::Fatal(error.to_string())),
        }
    }
}

impl Drop for BatchProducer {
    /// Purges unacknowledged records, which nothing waits for any longer. Ending the producer's thread takes a moment,
    /// and must not block the runtime.
    fn drop(&mut self) {
        if let Some(producer) = self.producer.take() {
            std::thread::spawn(move || drop(producer));
        }
    }
}

fn length(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;

    use super::*;

    /// `RD_KAFKA_OFFSET_INVALID`.
    const NO_OFFSET: i64 = -1001;

    #[test]
    fn a_batch_is_answered_with_the_offsets_in_the_order_of_its_records() {
        let (batch, mut done) = Batch::of(2);
        batch.reported(1, Ok(8));
        assert!(done.try_recv().is_err(), "one is on its way");
        batch.reported(0, Ok(7));
        done.try_recv().unwrap();
        assert_eq!(batch.outcome().unwrap().0, [7, 8]);
    }

    #[test]
    fn an_acknowledgement_without_an_offset_is_an_error_and_no_offset() {
        for missing in [NO_OFFSET, -1] {
            let (batch, mut done) = Batch::of(3);
            let (deliveries, tp) = (Deliveries::default(), TopicPartition::new(topic::FRONTIER, 3));
            for (index, reported) in [7, missing, 9].into_iter().enumerate() {
                batch.reported(index, deliveries.offset(tp, reported));
            }
            done.try_recv().unwrap();
            let Err(error) = batch.outcome() else { panic!("{missing} is taken for an offset") };
            assert!(matches!(error, LogError::Unavailable(_)), "{error}");
            let expected = format!("an append to crawl.frontier/3 was acknowledged without an offset ({missing})");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}
