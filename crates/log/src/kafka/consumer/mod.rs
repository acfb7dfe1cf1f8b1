//! A member of a consumer group.
//!
//! A member owns one librdkafka client with one queue, drained whenever the caller polls. Rebalances and records go to
//! [`MemberPartitions`], which decides on deliveries. Nothing here waits for the brokers on the caller's thread: seeks,
//! commits and shutdown run on the blocking pool (`blocking`).

mod blocking;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::future::{BoxFuture, FutureExt};
use orbweaver_messages::Topic;
use rdkafka::{
    ClientConfig, Message, TopicPartitionList, consumer::Consumer as _, error::KafkaError,
    types::RDKafkaErrorCode as Code,
};
use tokio::{
    sync::{Mutex, Notify},
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{
    KafkaConfig,
    blocking_ops::{
        BlockingTask, Client, PendingAssignment, RejectedPosition, broken, commit, end, member, membership,
    },
    client::{EMPTY_POLLS, is_transient},
    login::{FailedLogins, is_login},
    member_partitions::MemberPartitions,
    message::delivered,
    rebalance::{RebalanceSignal, release_partitions},
    subscription::Subscription,
};
use crate::{Commit, Consumer, ConsumerRecord, Event, LogError, Offset, TopicPartition};

/// Limits of one poll.
const BATCH_RECORDS: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;
/// Interval of checks of the queue, for retries and in case its signal that it is no longer empty was missed.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Delay between attempts to join with an instance ID that is in use.
const REJOIN_PAUSE: Duration = Duration::from_secs(1);
/// Delay before a rejected position is probed, since its partition may turn out to be lost. A suspended member may find
/// that others deleted the records it was about to read before it learns that it was expelled, or after it was assigned
/// partitions again. The brokers expect a heartbeat every five seconds, and report the loss in response.
const LOSS_REPORTED_WITHIN: Duration = Duration::from_secs(8);

pub(super) struct KafkaConsumer {
    /// `None` once closed.
    client: Option<Arc<Client>>,
    properties: ClientConfig,
    /// When to rejoin with an instance ID that is still in use: a killed member holds it until its session ends.
    rejoin_at: Option<Instant>,
    rejoin_until: Option<Instant>,
    failed_logins: FailedLogins,
    patience: Duration,
    group: String,
    topics: Subscription,
    held: MemberPartitions,
    events: VecDeque<Event>,
    /// Rebalances not yet handled: they may concern partitions that are being accepted.
    signals: VecDeque<RebalanceSignal>,
    given: PendingAssignment,
    work: Option<BlockingTask>,
    /// Locked by the commit in progress: its caller may have dropped it, but the next commit waits for it.
    committing: Arc<Mutex<()>>,
    refused: Option<RejectedPosition>,
    /// Earliest time of the next operation, after one that must be retried.
    work_after: Option<Instant>,
    ready: Arc<Notify>,
    waiting_bytes: usize,
    timeout: Duration,
}

impl KafkaConsumer {
    pub(super) fn join(config: &KafkaConfig, group: &str, topics: Vec<(Topic, Arc<str>)>) -> Result<Self, LogError> {
        let properties = membership(config, group);
        let ready = Arc::new(Notify::new());
        let topics = Subscription(topics);
        let client = member(&properties, group, &topics.0, &ready)?;
        Ok(Self {
            client: Some(client),
            properties,
            rejoin_at: None,
            rejoin_until: None,
            failed_logins: FailedLogins::default(),
            patience: config.patience,
            group: group.to_owned(),
            topics,
            held: MemberPartitions::default(),
            events: VecDeque::new(),
            signals: VecDeque::new(),
            given: PendingAssignment::default(),
            work: None,
            committing: Arc::default(),
            refused: None,
            work_after: None,
            ready,
            waiting_bytes: config.fetch_bytes,
            timeout: config.request_timeout,
        })
    }

    /// Rejoins the group when due.
    fn rejoin_when_due(&mut self) -> Result<(), LogError> {
        if self.rejoin_at.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        self.rejoin_at = None;
        let fresh = member(&self.properties, &self.group, &self.topics.0, &self.ready)?;
        if let Some(stale) = self.client.replace(fresh) {
            std::thread::spawn(move || end(stale, &TopicPartitionList::new(), &PendingAssignment::default()));
        }
        Ok(())
    }

    fn client(&self) -> Result<&Arc<Client>, LogError> {
        self.client.as_ref().ok_or_else(|| LogError::Fatal(format!("this member has left the group `{}`", self.group)))
    }

    fn next_event(&mut self) -> Result<Option<Event>, LogError> {
        self.take_signals()?;
        if let Some(event) = self.events.pop_front() {
            return Ok(Some(event));
        }
        self.check_for_loss()?;
        let mut batch = self.held.resumed(BATCH_RECORDS);
        self.drain(&mut batch)?;
        // Now, not at the next poll: a commit before that must know about lost partitions.
        self.take_signals()?;
        let to_stop = self.held.stops(self.waiting_bytes);
        self.set_fetching(&to_stop, false);
        let to_run = self.held.runs();
        self.set_fetching(&to_run, true);
        if !batch.is_empty() {
            return Ok(Some(Event::Records(batch)));
        }
        Ok(self.events.pop_front())
    }

    /// Drains the queue until the batch is full or a rebalance was signalled.
    fn drain(&mut self, batch: &mut Vec<ConsumerRecord>) -> Result<(), LogError> {
        let client = self.client()?.clone();
        let (mut records, mut bytes, mut empty) =
            (batch.len(), batch.iter().map(ConsumerRecord::bytes).sum::<usize>(), 0);
        while empty < EMPTY_POLLS {
            if records >= BATCH_RECORDS || bytes >= BATCH_BYTES {
                // The queue does not signal again until it is empty, and all records taken may be paused.
                self.ready.notify_one();
                break;
            }
            match client.poll(Duration::ZERO) {
                None if client.context().is_signalled() => break,
                None => empty += 1,
                Some(Ok(message)) => {
                    (records, empty) = (records + 1, 0);
                    let Some(tp) = self.topics.tp(message.topic(), message.partition()) else { continue };
                    let record = delivered(tp, &message);
                    bytes += record.bytes();
                    batch.extend(self.held.offer(record));
                }
                Some(Err(error)) => self.erred(&client, &error)?,
            }
        }
        Ok(())
    }

    fn erred(&mut self, client: &Client, error: &KafkaError) -> Result<(), LogError> {
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => self.position_refused(true),
            Some(code) if is_transient(code) => {}
            // The reason has been logged by the context.
            Some(code)
                if is_login(code) && self.failed_logins.is_transient(Instant::now().into_std(), self.patience) => {}
            // Not every broker knows a topic that was just created; one that was deleted stays deleted, and is reported
            // by appends and bounds.
            Some(Code::UnknownTopicOrPartition | Code::UnknownPartition | Code::UnknownTopic) => {}
            _ => {
                let reason = match client.client().fatal_error() {
                    Some((Code::UnreleasedInstanceId, _)) if self.may_rejoin() => return Ok(()),
                    Some((code, reason)) => format!("{code}: {reason}"),
                    None => error.to_string(),
                };
                return Err(LogError::Fatal(format!("the group `{}`: {reason}", self.group)));
            }
        }
        Ok(())
    }

    /// Returns whether to retry an instance ID that is in use.
    fn may_rejoin(&mut self) -> bool {
        let now = Instant::now();
        let until = *self.rejoin_until.get_or_insert(now + self.patience);
        if now >= until || !self.held.is_empty() {
            return false;
        }
        if self.rejoin_at.is_none() {
            tracing::info!(group = self.group, "the instance id is in use by another member; retrying");
            self.rejoin_at = Some(now + REJOIN_PAUSE);
        }
        true
    }

    fn take_signals(&mut self) -> Result<(), LogError> {
        let signals = self.client()?.context().signals();
        self.signals.extend(signals);
        // Signals that arrive while partitions are being accepted may concern them.
        while self.given.tps.is_empty()
            && let Some(signal) = self.signals.pop_front()
        {
            match signal {
                RebalanceSignal::Assigned(raw, losses) => {
                    self.rejoin_until = None;
                    self.given = PendingAssignment { tps: self.topics.named(&self.topics.tps(&raw)), losses };
                }
                RebalanceSignal::Revoked(raw) => {
                    let revoked = self.held.revoked(&self.topics.tps(&raw));
                    self.set_fetching(&revoked, false);
                    if !revoked.is_empty() {
                        self.events.push_back(Event::Revoked(revoked));
                    }
                }
                RebalanceSignal::Lost(raw) => self.tell_loss(&self.topics.tps(&raw)),
                RebalanceSignal::Failed(error) => {
                    tracing::warn!(group = self.group, %error, "a response to a rebalance was rejected");
                }
            }
        }
        Ok(())
    }

    fn tell_loss(&mut self, tps: &[TopicPartition]) {
        let lost = self.held.lost(tps);
        if !lost.is_empty() {
            self.events.push_back(Event::Lost(lost));
        }
        if self.held.is_empty() {
            // A rejected position no longer matters once its partition is lost.
            self.refused = None;
            self.work.take_if(|work| matches!(work, BlockingTask::Probe(..)));
        }
    }

    /// While revoked partitions drain, librdkafka reports their loss only by a flag.
    fn check_for_loss(&mut self) -> Result<(), LogError> {
        let going = self.held.going();
        if !going.is_empty() && self.client()?.assignment_lost() {
            self.release_partitions(&going)?;
            self.tell_loss(&going);
        }
        Ok(())
    }

    fn release_partitions(&self, tps: &[TopicPartition]) -> Result<(), LogError> {
        if let Err(error) = release_partitions(self.client()?, &self.topics.list(tps)) {
            // The partitions are already gone.
            tracing::warn!(group = self.group, %error, "partitions could not be released");
        }
        Ok(())
    }

    fn set_fetching(&self, tps: &[TopicPartition], fetch: bool) {
        if tps.is_empty() {
            return;
        }
        let Ok(client) = self.client() else { return };
        let list = self.topics.list(tps);
        let set = if fetch { client.resume(&list) } else { client.pause(&list) };
        if let Err(error) = set {
            // Fails only for partitions that were just lost.
            tracing::debug!(group = self.group, %error, fetch, "partitions could not be paused or resumed");
        }
    }

    /// Checks that this member may make the commits. Returns its client, and the number of losses so far.
    fn check_commits(&mut self, commits: &[(TopicPartition, Commit)]) -> Result<(Arc<Client>, u64), LogError> {
        self.take_signals()?;
        let lost = self.client()?.assignment_lost();
        for (tp, commit) in commits {
            self.held.check(*tp)?;
            if lost || self.is_loss_signalled(*tp) {
                return Err(LogError::NotAssigned(*tp));
            }
            commit.check_size(*tp)?;
        }
        let client = self.client()?.clone();
        let losses = client.context().count_losses();
        Ok((client, losses))
    }

    /// Returns `true` if `tp` was lost, and the signal waits behind partitions that are being accepted.
    fn is_loss_signalled(&self, tp: TopicPartition) -> bool {
        self.signals.iter().any(|signal| match signal {
            RebalanceSignal::Lost(raw) => self.topics.tps(raw).contains(&tp),
            _ => false,
        })
    }

    /// Shuts the client down, off the runtime's threads: leaving involves the brokers.
    async fn leave(&mut self) -> Result<(), LogError> {
        // The commit in progress, if any, ends first.
        drop(self.committing.lock().await);
        match &mut self.work {
            None => {}
            Some(BlockingTask::Take(take)) => {
                let taken = take.await;
                self.on_assigned(taken)?;
            }
            Some(BlockingTask::Seeks(work)) => drop(work.await),
            Some(BlockingTask::Probe(work, _)) => drop(work.await),
        }
        let Some(client) = self.client.take() else { return Ok(()) };
        let (going, given) = (self.topics.list(&self.held.going()), std::mem::take(&mut self.given));
        spawn_blocking(move || end(client, &going, &given)).await.map_err(|error| broken(&error))
    }
}

impl Consumer for KafkaConsumer {
    fn poll(&mut self, max_wait: Duration) -> BoxFuture<'_, Result<Option<Event>, LogError>> {
        async move {
            let deadline = Instant::now() + max_wait;
            loop {
                self.finish_blocking_task()?;
                self.rejoin_when_due()?;
                if let Some(event) = self.next_event()? {
                    return Ok(Some(event));
                }
                self.start_blocking_task()?;
                let now = Instant::now();
                if now >= deadline {
                    return Ok(None);
                }
                let _ = timeout_at(deadline.min(now + CHECK_INTERVAL), self.ready.notified()).await;
            }
        }
        .boxed()
    }

    fn start(&mut self, tp: TopicPartition, from: Offset) -> Result<(), LogError> {
        if self.held.start(tp, from)? {
            // A stopped partition delivers nothing, so everything after the seek is from the new position.
            self.set_fetching(&[tp], false);
        }
        self.ready.notify_one();
        Ok(())
    }

    fn pause(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        // librdkafka keeps fetching until too much is queued here: pausing it discards prefetched records.
        self.held.set_paused(tps, true)
    }

    fn resume(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        self.held.set_paused(tps, false)?;
        let to_run = self.held.runs();
        self.set_fetching(&to_run, true);
        if self.held.has_resumed() {
            self.ready.notify_one();
        }
        Ok(())
    }

    fn commit(&mut self, commits: Vec<(TopicPartition, Commit)>) -> BoxFuture<'static, Result<(), LogError>> {
        let checked = self.check_commits(&commits);
        let named: Vec<_> = commits
            .into_iter()
            .filter_map(|(tp, commit)| Some((tp, self.topics.name(tp.topic)?.clone(), commit)))
            .collect();
        let (group, timeout, committing) = (self.group.clone(), self.timeout, self.committing.clone());
        async move {
            let (client, losses) = checked?;
            let turn = committing.lock_owned().await;
            if client.context().count_losses() != losses {
                let reason = format!("partitions of the group `{group}` were lost while a commit waited for another");
                return Err(LogError::Unavailable(reason));
            }
            let committed = spawn_blocking(move || {
                let result = commit(&client, &group, &named, timeout);
                drop(turn);
                result
            });
            committed.await.unwrap_or_else(|error| Err(LogError::Fatal(error.to_string())))
        }
        .boxed()
    }

    fn release(&mut self, tps: &[TopicPartition]) -> Result<(), LogError> {
        let released = self.held.release(tps);
        if released.is_empty() { Ok(()) } else { self.release_partitions(&released) }
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, Result<(), LogError>> {
        async move { self.leave().await }.boxed()
    }
}

impl Drop for KafkaConsumer {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let (going, given) = (self.topics.list(&self.held.going()), std::mem::take(&mut self.given));
            std::thread::spawn(move || end(client, &going, &given));
        }
    }
}
