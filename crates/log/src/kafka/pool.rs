//! Consumers that readers share, each with a thread that hands out what comes.
//!
//! A process follows many partitions, and a client of librdkafka is threads and connections: so readers share them. The
//! thread never waits for one reader while others want to read, save for a moment: pausing a partition throws away what
//! was fetched of it, so a reader that keeps reading is waited for, and one that does not is paused.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, Message, TopicPartitionList,
    config::FromClientConfigAndContext,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    types::RDKafkaErrorCode as Code,
};

use super::{
    KafkaConfig,
    client::{Names, failed, reading},
    eof::Ends,
    inquiry::{bounds, position, raw_partition},
    message::delivered,
    reader::Feed,
};
use crate::{LogError, Offset, TopicPartition};

/// How long a thread rests when nothing tells it to look.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a thread waits for a reader that is full before it pauses its partition.
const PATIENCE: Duration = Duration::from_millis(50);
/// A client that nobody has used for so long ends, save the first.
const IDLE: Duration = Duration::from_secs(60);
/// Between two looks whether a position beyond the end is in the log by now.
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(200);
/// How long a position may lie beyond the end that its leader reports.
const LEADER_CATCHES_UP_WITHIN: Duration = Duration::from_secs(30);
/// Polls that give nothing before the queue counts as empty: a poll that handles an event of librdkafka's own gives nothing.
const EMPTY_POLLS: usize = 3;

/// What a thread is told.
pub(super) enum Command {
    /// Something may have come, or a reader has room again.
    Look,
    /// Read `place` from `from` on.
    Open { place: TopicPartition, name: Arc<str>, from: Offset, feed: Arc<Feed> },
    /// The reader of this partition is gone.
    Close { partition: i32 },
}

/// Where a reader is served. It is given up when this is dropped.
pub(super) struct Seat {
    member: Arc<Member>,
    partition: i32,
}

impl Seat {
    pub(super) fn tell(&self, command: Command) {
        // A thread ends only after its member left the pool with no seat taken.
        let _ = self.member.commands.send(command);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.tell(Command::Close { partition: self.partition });
    }
}

/// One consumer.
struct Member {
    commands: Sender<Command>,
    /// Numbers of partitions that are served or about to be. One number is one reader, whatever its topic: the end of a
    /// partition is told by its number alone.
    taken: Mutex<HashSet<i32>>,
}

impl Member {
    fn taken(&self) -> std::sync::MutexGuard<'_, HashSet<i32>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The consumers of a log's readers.
pub(super) struct Pool {
    config: ClientConfig,
    /// What the thread holds for a reader at most, more or less.
    feed_bytes: usize,
    timeout: Duration,
    members: Arc<Mutex<Vec<Arc<Member>>>>,
}

impl Pool {
    pub(super) fn new(config: &KafkaConfig) -> Self {
        let mut client = reading(config);
        // librdkafka wants a group for any assignment. Nobody ever joins this one or commits for it.
        client
            .set("group.id", Names::new(&config.prefix).group("readers"))
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "50");
        let feed_bytes = config.fetch_bytes / 4;
        Self { config: client, feed_bytes, timeout: config.request_timeout, members: Arc::default() }
    }

    /// A seat in the first consumer that serves no partition of this number.
    pub(super) fn seat(&self, partition: u32) -> Result<Seat, LogError> {
        let partition = raw_partition(partition);
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        for member in &*members {
            if member.taken().insert(partition) {
                return Ok(Seat { member: member.clone(), partition });
            }
        }
        let member = self.begin(Arc::downgrade(&self.members))?;
        member.taken().insert(partition);
        members.push(member.clone());
        Ok(Seat { member, partition })
    }

    fn begin(&self, members: Weak<Mutex<Vec<Arc<Member>>>>) -> Result<Arc<Member>, LogError> {
        let invalid = |error: KafkaError| LogError::Invalid(format!("a Kafka client of readers: {error}"));
        let mut client = BaseConsumer::from_config_and_context(&self.config, Ends::default()).map_err(invalid)?;
        let (commands, received) = channel();
        // One wake-up is enough until the thread has looked.
        let woken = Arc::new(AtomicBool::new(false));
        let (wake, told) = (commands.clone(), woken.clone());
        client.set_nonempty_callback(move || {
            if !told.swap(true, Ordering::AcqRel) {
                let _ = wake.send(Command::Look);
            }
        });
        let member = Arc::new(Member { commands, taken: Mutex::default() });
        let thread = Thread {
            client,
            commands: received,
            woken,
            member: Arc::downgrade(&member),
            members,
            open: HashMap::new(),
            feed_bytes: self.feed_bytes,
            timeout: self.timeout,
            deferred: VecDeque::new(),
            out_of_range: false,
            look_again_at: Instant::now(),
        };
        std::thread::Builder::new()
            .name("kafka-readers".to_owned())
            .spawn(move || thread.run())
            .map_err(|source| LogError::Io { path: "a thread for readers".to_owned(), source })?;
        Ok(member)
    }
}

/// A partition that is read.
struct Open {
    place: TopicPartition,
    name: Arc<str>,
    /// The lowest offset that may come.
    next: Offset,
    feed: Arc<Feed>,
    paused: bool,
    /// Since when `next` lies beyond the end that the leader reports.
    beyond_since: Option<Instant>,
}

struct Thread {
    client: BaseConsumer<Ends>,
    commands: Receiver<Command>,
    woken: Arc<AtomicBool>,
    member: Weak<Member>,
    members: Weak<Mutex<Vec<Arc<Member>>>>,
    open: HashMap<i32, Open>,
    feed_bytes: usize,
    timeout: Duration,
    /// Commands that came while a reader was waited for.
    deferred: VecDeque<Command>,
    /// Some position is not in the log.
    out_of_range: bool,
    /// When to look again whether positions beyond the end are in the log by now.
    look_again_at: Instant,
}

impl Thread {
    fn run(mut self) {
        let mut used = Instant::now();
        loop {
            match self.commands.recv_timeout(LOOK_EVERY) {
                Ok(command) => self.told(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.hear();
            self.resume();
            self.hand_out(true);
            self.find_out_of_range();
            if !self.open.is_empty() {
                used = Instant::now();
            } else if used.elapsed() >= IDLE && self.leave() || self.members.strong_count() == 0 {
                return;
            }
        }
    }

    /// Takes this consumer out of the pool when nobody uses it. The first stays.
    fn leave(&self) -> bool {
        let (Some(members), Some(member)) = (self.members.upgrade(), self.member.upgrade()) else { return true };
        let mut members = members.lock().unwrap_or_else(PoisonError::into_inner);
        let here = members.iter().position(|other| Arc::ptr_eq(other, &member));
        match here {
            Some(index) if index > 0 && member.taken().is_empty() => {
                members.remove(index);
                true
            }
            _ => false,
        }
    }

    /// Carries out what waits to be heard.
    fn hear(&mut self) {
        while let Some(command) = self.deferred.pop_front().or_else(|| self.commands.try_recv().ok()) {
            self.told(command);
        }
    }

    fn told(&mut self, command: Command) {
        match command {
            Command::Look => {}
            Command::Open { place, name, from, feed } => {
                let partition = raw_partition(place.partition);
                self.unassign(partition);
                let open = Open { place, name, next: from, feed, paused: false, beyond_since: None };
                self.assign(partition, &open);
                self.open.insert(partition, open);
            }
            Command::Close { partition } => {
                self.unassign(partition);
                if let Some(member) = self.member.upgrade() {
                    member.taken().remove(&partition);
                }
            }
        }
    }

    fn assign(&self, partition: i32, open: &Open) {
        let mut list = TopicPartitionList::with_capacity(1);
        let listed = list.add_partition_offset(&open.name, partition, position(open.next));
        if let Err(error) = listed.and_then(|()| self.client.incremental_assign(&list)) {
            open.feed.fail(failed(format_args!("reading {}", open.place), &error));
        }
    }

    fn unassign(&mut self, partition: i32) {
        let Some(open) = self.open.remove(&partition) else { return };
        if let Err(error) = self.client.incremental_unassign(&list_of(&open)) {
            tracing::warn!(place = %open.place, %error, "a reader could not be ended");
        }
        // What is on its way of it is outdated to librdkafka from here on, but what lies in the queue is taken off it before
        // another partition of this number may come.
        self.hand_out(false);
    }

    /// Gives what came to the readers. `patiently` waits a moment for one that is full.
    fn hand_out(&mut self, patiently: bool) {
        self.woken.store(false, Ordering::Release);
        let mut empty = 0;
        while empty < EMPTY_POLLS {
            let full = match self.client.poll(Duration::ZERO) {
                None => {
                    empty += 1;
                    continue;
                }
                Some(Ok(message)) => {
                    let Some(open) = self.open.get_mut(&message.partition()) else { continue };
                    let offset = Offset::try_from(message.offset()).unwrap_or(0);
                    if message.topic() != &*open.name || offset < open.next {
                        continue;
                    }
                    open.next = offset + 1;
                    open.feed.push(delivered(open.place, &message)) > self.feed_bytes
                }
                Some(Err(error)) => {
                    self.erred(&error);
                    continue;
                }
            };
            empty = 0;
            if full && patiently {
                self.wait_for_room();
                if !self.deferred.is_empty() {
                    return;
                }
            }
        }
    }

    /// Some reader is full. One that reads on makes room in a moment; the others' partitions are paused.
    fn wait_for_room(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let feed_bytes = self.feed_bytes;
        let mut full = true;
        while full && self.deferred.is_empty() {
            full = false;
            for open in self.open.values().filter(|open| !open.paused) {
                full |= !open.feed.has_room(feed_bytes / 2);
            }
            match self.commands.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Command::Look) => {}
                // Its reader may be the one that is full.
                Ok(command) => self.deferred.push_back(command),
                Err(_) => break,
            }
        }
        for open in self.open.values_mut().filter(|open| !open.paused) {
            if !open.feed.has_room(feed_bytes) {
                open.paused = self.client.pause(&list_of(open)).is_ok();
            }
        }
    }

    /// Reads on where readers have room again.
    fn resume(&mut self) {
        for open in self.open.values_mut().filter(|open| open.paused) {
            if open.feed.has_room(self.feed_bytes / 4) {
                open.paused = self.client.resume(&list_of(open)).is_err();
            }
        }
    }

    fn erred(&mut self, error: &KafkaError) {
        if let KafkaError::PartitionEOF(partition) = error {
            let end = self.client.context().take();
            if let (Some(open), Some(end)) = (self.open.get_mut(partition), end) {
                // Nothing but gaps lies between the last record and this end, which need not be the one that another leader
                // reported: the reader waits for more until it is reached.
                open.next = open.next.max(end);
                open.feed.prove(end);
            }
            return;
        }
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => self.out_of_range = true,
            Some(code) if super::client::is_passing(code) => {}
            _ => {
                for open in self.open.values() {
                    open.feed.fail(failed(format_args!("reading {}", open.place), error));
                }
            }
        }
    }

    /// Some position is not in the log; librdkafka does not say which.
    fn find_out_of_range(&mut self) {
        let (all, now) = (self.out_of_range, Instant::now());
        if !all && now < self.look_again_at {
            return;
        }
        self.look_again_at = now + LOOK_AGAIN_EVERY;
        let meant = self.open.values().filter(|open| all || open.beyond_since.is_some());
        let places: Vec<_> = meant.map(|open| (open.place, open.name.clone())).collect();
        if places.is_empty() {
            self.out_of_range = false;
            return;
        }
        let found = match bounds(&self.client, &places, self.timeout) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "a position is not in the log, and the brokers do not say which; asking again");
                return;
            }
        };
        self.out_of_range = false;
        for ((place, _), bounds) in places.into_iter().zip(found) {
            let partition = raw_partition(place.partition);
            let Some(mut open) = self.open.remove(&partition) else { continue };
            // Fetches of the one that is meant have stopped; which one it is, is not known, so all begin anew.
            let _ = self.client.incremental_unassign(&list_of(&open));
            let offset = open.next;
            if (bounds.start..=bounds.end).contains(&offset) {
                (open.paused, open.beyond_since) = (false, None);
                self.assign(partition, &open);
                self.open.insert(partition, open);
            } else if offset > bounds.end && open.beyond_since.get_or_insert(now).elapsed() < LEADER_CATCHES_UP_WITHIN {
                // A new leader may not know yet how far the one before it had come.
                self.open.insert(partition, open);
            } else {
                open.feed.fail(LogError::OutOfRange { place, offset, start: bounds.start, end: bounds.end });
            }
        }
    }
}

fn list_of(open: &Open) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(1);
    list.add_partition(&open.name, raw_partition(open.place.partition));
    list
}

#[cfg(test)]
mod tests {
    use orbweaver_messages::topic;
    use rdkafka::{
        mocking::MockCluster,
        producer::{BaseProducer, BaseRecord, Producer as _},
    };

    use super::*;
    use crate::{Delivered, Reader, kafka::reader::KafkaReader};

    const NAME: &str = "crawl.frontier";

    fn produce(brokers: &str, count: usize) {
        let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", brokers).create().unwrap();
        for _ in 0..count {
            let record = BaseRecord::<str, str>::to(NAME).partition(0).key("key").payload("value");
            producer.send(record).map_err(|(error, _)| error).unwrap();
            // One batch each, so that a read may begin at any of them.
            producer.flush(Duration::from_secs(30)).unwrap();
        }
    }

    async fn read_to(reader: &mut dyn Reader, end: Offset) -> Vec<Offset> {
        let (deadline, mut read) = (Instant::now() + Duration::from_secs(30), vec![]);
        while reader.position() < end {
            assert!(Instant::now() < deadline, "it stands at {}, the end is {end}", reader.position());
            let batch: Vec<Delivered> = reader.read(Duration::from_millis(200)).await.unwrap();
            read.extend(batch.iter().map(|record| record.offset));
        }
        read
    }

    /// A leader that lags behind what the one before it reported: the end that is asked for, 10, is not there yet.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_reader_stays_where_the_leader_ends_until_what_was_asked_for_is_there() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic(NAME, 1, 1).unwrap();
        let brokers = cluster.bootstrap_servers();
        produce(&brokers, 5);
        let pool = Pool::new(&KafkaConfig::new(&*brokers));
        let reader =
            |from| KafkaReader::new(TopicPartition::new(topic::FRONTIER, 0), NAME.into(), from, pool.seat(0).unwrap());
        let (mut behind, mut beyond) = (reader(0), reader(8));
        assert_eq!(read_to(&mut behind, 5).await, [0, 1, 2, 3, 4]);
        for reader in [&mut behind, &mut beyond] {
            let at = reader.position();
            for _ in 0..5 {
                assert_eq!(reader.read(Duration::from_millis(100)).await.unwrap(), []);
                assert_eq!(reader.position(), at, "neither the end that was asked for nor an error");
            }
        }
        produce(&brokers, 5);
        assert_eq!(read_to(&mut behind, 10).await, [5, 6, 7, 8, 9]);
        assert_eq!(read_to(&mut beyond, 10).await, [8, 9]);
    }
}
