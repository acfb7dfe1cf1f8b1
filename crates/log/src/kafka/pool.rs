//! Consumers shared by readers, each with a thread that distributes the records.
//!
//! A process tails many partitions, and a librdkafka client costs threads and connections, so readers share clients.
//! The thread waits for a full reader only briefly while others want to read: pausing a partition discards its
//! prefetched records, so it waits for a reader that keeps reading, and pauses one that does not.

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
    broker_queries::{bounds, position, raw_partition},
    client::{EMPTY_POLLS, LoggingContext, Names, invalid, reading, to_log_error},
    login::{FailedLogins, is_login},
    message::delivered,
    reader::RecordQueue,
};
use crate::{LogError, Offset, TopicPartition};

/// Poll interval of a thread without commands.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which a thread waits for a full reader before it pauses the partition.
const PATIENCE: Duration = Duration::from_millis(50);
/// Idle time after which a client is closed, except the first.
const IDLE: Duration = Duration::from_secs(60);
/// Interval of checks whether a position beyond the end has entered the log.
const LOOK_AGAIN_EVERY: Duration = Duration::from_millis(200);
/// Maximum time for which a position may be beyond the end that its leader reports.
const LEADER_CATCHES_UP_WITHIN: Duration = Duration::from_secs(30);

/// Command to a thread.
pub(super) enum Command {
    /// Check the queue: records may have arrived, or a reader has room again.
    Look,
    /// Read `tp`, starting at `from`.
    Open { tp: TopicPartition, name: Arc<str>, from: Offset, feed: Arc<RecordQueue> },
    /// The reader of this partition was dropped.
    Close { partition: i32 },
}

/// A reader's slot in a consumer; dropping it releases the slot.
pub(super) struct ReaderSlot {
    member: Arc<SharedConsumer>,
    partition: i32,
}

impl ReaderSlot {
    pub(super) fn send(&self, command: Command) {
        // A thread ends only after its member left the pool without taken slots.
        let _ = self.member.commands.send(command);
    }
}

impl Drop for ReaderSlot {
    fn drop(&mut self) {
        self.send(Command::Close { partition: self.partition });
    }
}

struct SharedConsumer {
    commands: Sender<Command>,
    /// Partition numbers that are read or about to be. One reader per number, whatever its topic: the end-of-partition
    /// event has only the number.
    taken: Mutex<HashSet<i32>>,
}

impl SharedConsumer {
    fn taken(&self) -> std::sync::MutexGuard<'_, HashSet<i32>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Members = Mutex<Vec<Arc<SharedConsumer>>>;

/// The consumers of a log's readers.
pub(super) struct ReaderPool {
    config: ClientConfig,
    /// Approximate limit of the bytes buffered per reader.
    feed_bytes: usize,
    timeout: Duration,
    patience: Duration,
    members: Arc<Members>,
}

impl ReaderPool {
    pub(super) fn new(config: &KafkaConfig) -> Self {
        let mut client = reading(config);
        // librdkafka requires a group for any assignment. This group is never joined and has no commits.
        client
            .set("group.id", Names::new(&config.prefix).group("readers"))
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "50");
        let feed_bytes = config.fetch_bytes / 4;
        let (timeout, patience) = (config.request_timeout, config.patience);
        Self { config: client, feed_bytes, timeout, patience, members: Arc::default() }
    }

    /// Returns a slot in the first consumer that reads no partition with this number.
    pub(super) fn seat(&self, partition: u32) -> Result<ReaderSlot, LogError> {
        let partition = raw_partition(partition);
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        for member in &*members {
            if member.taken().insert(partition) {
                return Ok(ReaderSlot { member: member.clone(), partition });
            }
        }
        let (thread, member) = self.thread(Arc::downgrade(&self.members))?;
        std::thread::Builder::new()
            .name("kafka-readers".to_owned())
            .spawn(move || thread.run())
            .map_err(|source| LogError::Io { path: "starting the thread kafka-readers".to_owned(), source })?;
        member.taken().insert(partition);
        members.push(member.clone());
        Ok(ReaderSlot { member, partition })
    }

    fn thread(&self, members: Weak<Members>) -> Result<(Thread, Arc<SharedConsumer>), LogError> {
        let mut client = BaseConsumer::from_config_and_context(&self.config, LoggingContext::default())
            .map_err(|error| invalid("a Kafka client of readers", &error))?;
        let (commands, received) = channel();
        // One wake-up suffices until the thread has polled.
        let woken = Arc::new(AtomicBool::new(false));
        let (wake, is_woken) = (commands.clone(), woken.clone());
        client.set_nonempty_callback(move || {
            if !is_woken.swap(true, Ordering::AcqRel) {
                let _ = wake.send(Command::Look);
            }
        });
        let member = Arc::new(SharedConsumer { commands, taken: Mutex::default() });
        let thread = Thread {
            client,
            commands: received,
            woken,
            member: Arc::downgrade(&member),
            members,
            open: HashMap::new(),
            feed_bytes: self.feed_bytes,
            timeout: self.timeout,
            patience: self.patience,
            failed_logins: FailedLogins::default(),
            deferred: VecDeque::new(),
            out_of_range: false,
            look_again_at: Instant::now(),
        };
        Ok((thread, member))
    }
}

/// A partition being read.
struct Open {
    tp: TopicPartition,
    name: Arc<str>,
    /// Lowest offset to pass on.
    next: Offset,
    feed: Arc<RecordQueue>,
    paused: bool,
    /// Since when `next` has been beyond the end that the leader reports.
    beyond_since: Option<Instant>,
}

struct Thread {
    client: BaseConsumer<LoggingContext>,
    commands: Receiver<Command>,
    woken: Arc<AtomicBool>,
    member: Weak<SharedConsumer>,
    members: Weak<Members>,
    open: HashMap<i32, Open>,
    feed_bytes: usize,
    timeout: Duration,
    patience: Duration,
    failed_logins: FailedLogins,
    /// Commands received while waiting for a reader.
    deferred: VecDeque<Command>,
    /// Whether some position is not in the log.
    out_of_range: bool,
    /// When to check again whether positions beyond the end have entered the log.
    look_again_at: Instant,
}

impl Thread {
    fn run(mut self) {
        let mut used = Instant::now();
        while self.step() {
            if !self.open.is_empty() {
                used = Instant::now();
            } else if used.elapsed() >= IDLE && self.leave() || self.members.strong_count() == 0 {
                return;
            }
        }
    }

    /// Waits for a command or for records, and handles them. Returns `false` if there are no more commands.
    fn step(&mut self) -> bool {
        match self.commands.recv_timeout(CHECK_INTERVAL) {
            Ok(command) => self.handle(command),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return false,
        }
        self.receive_commands();
        self.resume();
        self.hand_out(true);
        self.find_out_of_range();
        true
    }

    /// Removes this consumer from the pool if it is unused. The first one stays.
    fn leave(&self) -> bool {
        let (Some(members), Some(member)) = (self.members.upgrade(), self.member.upgrade()) else { return true };
        let mut members = members.lock().unwrap_or_else(PoisonError::into_inner);
        let here = members.iter().position(|other| Arc::ptr_eq(other, &member));
        let unused = here.filter(|index| *index > 0 && member.taken().is_empty());
        unused.map(|index| members.remove(index)).is_some()
    }

    /// Executes all pending commands.
    fn receive_commands(&mut self) {
        while let Some(command) = self.deferred.pop_front().or_else(|| self.commands.try_recv().ok()) {
            self.handle(command);
        }
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Look => {}
            Command::Open { tp, name, from, feed } => {
                let partition = raw_partition(tp.partition);
                self.unassign(partition);
                let open = Open { tp, name, next: from, feed, paused: false, beyond_since: None };
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
            open.feed.fail(to_log_error(format_args!("reading {}", open.tp), &error));
        }
    }

    fn unassign(&mut self, partition: i32) {
        let Some(open) = self.open.remove(&partition) else { return };
        if let Err(error) = self.end(&open) {
            tracing::warn!(topic_partition = %open.tp, %error, "a reader could not be closed");
        }
        // From here on librdkafka drops records of this partition in flight, but those already in the queue must be
        // removed before another partition with this number is assigned.
        self.hand_out(false);
    }

    /// Stops reading. librdkafka keeps a pause beyond the assignment, so the partition is resumed first: its next
    /// reader would receive nothing.
    fn end(&self, open: &Open) -> Result<(), KafkaError> {
        if open.paused {
            self.client.resume(&list_of(open))?;
        }
        self.client.incremental_unassign(&list_of(open))
    }

    /// Passes received records to the readers. With `patiently` it waits briefly for a full one.
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
                    open.feed.push(delivered(open.tp, &message)) > self.feed_bytes
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

    /// Handles a full reader: one that keeps reading soon makes room; the partitions of the others are paused.
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
                // May concern the reader that is full.
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

    /// Resumes partitions whose readers have room again.
    fn resume(&mut self) {
        for open in self.open.values_mut().filter(|open| open.paused) {
            if open.feed.has_room(self.feed_bytes / 4) {
                open.paused = self.client.resume(&list_of(open)).is_err();
            }
        }
    }

    fn erred(&mut self, error: &KafkaError) {
        if let KafkaError::PartitionEOF(partition) = error {
            let end = self.client.context().take_end();
            if let (Some(open), Some(end)) = (self.open.get_mut(partition), end) {
                // Only gaps are between the last record and this end. It may differ from the end that another leader
                // reported; the reader waits until that one is reached.
                open.next = open.next.max(end);
                open.feed.advance_to(end);
            }
            return;
        }
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => self.out_of_range = true,
            Some(code) if super::client::is_transient(code) => {}
            Some(code) if is_login(code) && self.failed_logins.is_transient(Instant::now(), self.patience) => {}
            _ => {
                for open in self.open.values() {
                    open.feed.fail(LogError::Fatal(format!("reading {}: {error}", open.tp)));
                }
            }
        }
    }

    /// Finds the positions that are not in the log; librdkafka does not name them.
    fn find_out_of_range(&mut self) {
        let (all, now) = (self.out_of_range, Instant::now());
        if !all && now < self.look_again_at {
            return;
        }
        self.look_again_at = now + LOOK_AGAIN_EVERY;
        let meant = self.open.values().filter(|open| all || open.beyond_since.is_some());
        let tps: Vec<_> = meant.map(|open| (open.tp, open.name.clone())).collect();
        if tps.is_empty() {
            self.out_of_range = false;
            return;
        }
        let found = match bounds(&self.client, &tps, self.timeout) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "a position is not in the log; log bounds unavailable, retrying");
                return;
            }
        };
        self.out_of_range = false;
        for ((tp, _), bounds) in tps.into_iter().zip(found) {
            let partition = raw_partition(tp.partition);
            let Some(mut open) = self.open.remove(&partition) else { continue };
            // Fetching has stopped for the affected one; which one is unknown, so all are restarted.
            let _ = self.end(&open);
            let offset = open.next;
            if let Err(error) = bounds.check(tp, offset) {
                // A new leader may not yet know how far its predecessor had come.
                let may_come =
                    offset > bounds.end && open.beyond_since.get_or_insert(now).elapsed() < LEADER_CATCHES_UP_WITHIN;
                if !may_come {
                    open.feed.fail(error);
                    continue;
                }
            } else {
                (open.paused, open.beyond_since) = (false, None);
                self.assign(partition, &open);
            }
            self.open.insert(partition, open);
        }
    }
}

fn list_of(open: &Open) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(1);
    list.add_partition(&open.name, raw_partition(open.tp.partition));
    list
}

#[cfg(test)]
mod tests;
