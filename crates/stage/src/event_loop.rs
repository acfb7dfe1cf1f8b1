//! The event loop: one task, one await; everything that is ready in one iteration is handled together.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use orbweaver_log::{Consumer, ConsumerRecord, Event, Log, LogError, Offset, Partition, TopicPartition};
use orbweaver_messages::{Millis, Topic};
use tokio::{
    sync::{
        Semaphore,
        mpsc::{Receiver, Sender, UnboundedReceiver, UnboundedSender, channel, unbounded_channel},
    },
    task::JoinHandle,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Actions, Clock, Origin, Plan, Runner, RunnerConfig, RunnerStatus, Stage, StageError, Worker,
    assignment::Assignment,
    claim::is_claim,
    commit_metadata::{Crasher, Start},
    metrics::ServiceMetrics,
    open_partitions::{Completion, Delivery, OpenPartitions},
    panics::Caught,
    plan_batch::{Effects, RoundResult},
    quarantine::Quarantine,
    restore::RestoreMessage,
    sample::Samples,
    tail::LogTails,
    tails::{Waiter, all_places},
    trials::{Activity, Trial},
    watchdog::Watchdog,
};

/// Maximum number of job results handled per loop iteration.
const RESULTS_PER_TURN: usize = 1024;
/// Maximum number of finished rounds handled per loop iteration, after the first.
const ROUNDS_PER_TURN: usize = 64;
/// Number of loop iterations without a poll after which the consumer is polled without waiting: an unpolled consumer
/// loses its membership, and a restore of millions of records keeps its arm ready for minutes.
const TURNS_WITHOUT_POLL: u32 = 8;
/// Maximum wait per poll. A tick ends it earlier.
const POLL_WAIT: Duration = Duration::from_secs(1);
/// Minimum time between two ticks, whatever the stage requests, so that the first arms cannot starve the last.
const TICK_GAP: Duration = Duration::from_millis(1);
/// Capacity of the channel for messages of running restores: openings and restored batches.
const OPENINGS_WAITING: usize = 8;

/// A partition that is being drained.
#[derive(Debug)]
pub(crate) struct Draining {
    pub(crate) deadline: Instant,
    /// Plan batches with a lower number started before the drain; the drain waits for them.
    pub(crate) batches_below: u64,
}

type InFlightPlan<E> = BoxFuture<'static, Result<RoundResult<E>, StageError>>;

/// Event that ended the wait.
enum Wakeup<S: Stage> {
    Shutdown,
    Tick,
    Opening(RestoreMessage),
    Followed,
    Panicked,
    Landed(Result<RoundResult<S::Effect>, StageError>),
    Done,
    Event(Option<Event>),
}

/// A running stage.
pub(crate) struct EventLoop<S: Stage> {
    pub(crate) stage: S,
    pub(crate) service: &'static str,
    pub(crate) topics: &'static [Topic],
    pub(crate) partitions: Partition,
    pub(crate) group: Arc<str>,
    pub(crate) config: RunnerConfig,
    pub(crate) log: Arc<dyn Log>,
    worker: Arc<dyn Worker<S::Job, S::Done>>,
    pub(crate) effects: Effects<S::Effect>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: ServiceMetrics,
    pub(crate) pulse: Arc<RunnerStatus>,
    pub(crate) consumer: Box<dyn Consumer>,

    pub(crate) assignment: Assignment,
    pub(crate) served: OpenPartitions,
    pub(crate) draining: BTreeMap<Partition, Draining>,
    pub(crate) paused: BTreeSet<TopicPartition>,
    pub(crate) starts: HashMap<TopicPartition, (Start, Offset)>,
    pub(crate) alone: BTreeMap<TopicPartition, Quarantine>,
    pub(crate) trial: Trial,
    /// Cancelled by the request to shut down.
    pub(crate) shutdown: CancellationToken,

    /// Running restores by partition, with their start times.
    pub(crate) restores: HashMap<Partition, (JoinHandle<()>, Instant)>,
    /// Openings that wait for the end of a trial, with their assignment epochs.
    pub(crate) deferred: BTreeMap<Partition, u32>,
    pub(crate) opening_permits: Arc<Semaphore>,
    pub(crate) openings: (Sender<RestoreMessage>, Receiver<RestoreMessage>),
    pub(crate) followers: LogTails,

    results: (UnboundedSender<S::Done>, UnboundedReceiver<S::Done>),
    done: Vec<S::Done>,
    pub(crate) flights: FuturesUnordered<InFlightPlan<S::Effect>>,
    /// Numbers of the plan batches in flight.
    pub(crate) in_flight: BTreeSet<u64>,
    pub(crate) flown: u64,
    /// Plans and rejects of this loop iteration.
    pub(crate) plans: Vec<Plan<S::Effect>>,
    pub(crate) rejects: Vec<(Origin, String)>,
    pub(crate) actions: Actions<S::Job, S::Effect>,

    /// Time passed to the stage: read in each loop iteration, and after everything that may have waited.
    pub(crate) now: Millis,
    /// Time of the last check whether the process was suspended.
    pub(crate) checked_ms: Millis,
    pub(crate) watchdog: Watchdog,
    pub(crate) samples: Samples,
    pub(crate) ends_by: Option<Instant>,
    pub(crate) committed_at: Instant,
    /// Time at which a commit was last sent, accepted or not.
    pub(crate) sent_at: Instant,
    /// Time since which commits are refused.
    pub(crate) refused_since: Option<Instant>,
    /// Time since which there are completed offsets that are not committed.
    pub(crate) uncommitted_since: Option<Instant>,
    ticked_at: Instant,
    turns_without_poll: u32,
    completed: u64,
    /// Whether the budget was full in the last loop iteration, and whether a quarantine or a trial held records back.
    pub(crate) pressure: (bool, bool),
    /// Topic-partition of the last record delivered from quarantine.
    pub(crate) fed: Option<TopicPartition>,
    /// Record that is restored or tailed in the current call, and the partition under which a crash is recorded.
    pub(crate) in_call: Option<(Partition, TopicPartition, Offset)>,
    /// Poison records, by the partition under which they are recorded.
    pub(crate) crashers: BTreeMap<Partition, Vec<Crasher>>,
}

impl<S: Stage> EventLoop<S> {
    /// Joins the group.
    pub(crate) fn join(runner: Runner<S>) -> Result<Self, StageError> {
        let Runner { stage, log, worker, perform, config, clock, metrics, pulse, trials } = runner;
        let (service, topics) = (stage.service(), stage.topics());
        let group: Arc<str> = config.group.as_deref().unwrap_or(service).into();
        let lags = topics.iter().map(|&topic| (topic, metrics.lag(&group, topic.0))).collect();
        let metrics = metrics.service(service);
        let consumer = log.consumer(&group, topics)?;
        let (now, now_ms) = (Instant::now(), clock.now());
        Ok(Self {
            service,
            topics,
            partitions: log.partitions(topics[0])?,
            group,
            worker,
            effects: Effects { log: log.clone(), perform, metrics: metrics.clone() },
            now: now_ms,
            checked_ms: now_ms,
            clock,
            metrics,
            pulse,
            consumer,
            assignment: Assignment::new(topics.len()),
            served: OpenPartitions::new(topics, config.limits),
            draining: BTreeMap::new(),
            paused: BTreeSet::new(),
            starts: HashMap::new(),
            alone: BTreeMap::new(),
            trial: Trial::new(&trials),
            shutdown: CancellationToken::new(),
            restores: HashMap::new(),
            deferred: BTreeMap::new(),
            opening_permits: Arc::new(Semaphore::new(config.restores_at_once)),
            openings: channel(OPENINGS_WAITING),
            followers: LogTails::new(log.clone(), all_places(&*log, stage.tails())?),
            results: unbounded_channel(),
            done: vec![],
            flights: FuturesUnordered::new(),
            in_flight: BTreeSet::new(),
            flown: 0,
            plans: vec![],
            rejects: vec![],
            actions: Actions::default(),
            watchdog: Watchdog::new(config.stall_after, now),
            samples: Samples::new(lags),
            ends_by: None,
            committed_at: now,
            sent_at: now,
            refused_since: None,
            uncommitted_since: None,
            ticked_at: now,
            turns_without_poll: 0,
            completed: 0,
            pressure: (false, false),
            fed: None,
            in_call: None,
            crashers: BTreeMap::new(),
            stage,
            config,
            log,
        })
    }

    /// Runs the loop until shutdown has completed, then leaves the group.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), StageError> {
        tracing::info!(service = self.service, group = &*self.group, topics = ?self.topics, "joined");
        self.shutdown = shutdown.clone();
        let _ = shutdown.run_until_cancelled(self.load_crashers()).await;
        let result = Caught::new(self.serve(&shutdown)).await;
        let result = result.unwrap_or_else(|thrown| Err(StageError::panicked(self.service, &thrown)));
        match &result {
            Err(StageError::Panicked { .. }) => self.note_crash().await,
            Err(_) => self.withdraw_trials().await,
            Ok(()) => {}
        }
        for (_, (opener, _)) in self.restores.drain() {
            opener.abort();
        }
        if let Err(error) = result {
            tracing::error!(service = self.service, %error, "the stage failed; a restart repeats work in flight");
            return Err(error);
        }
        let Ok(closed) = timeout(self.config.commit_timeout, self.consumer.close()).await else {
            let reason = format!("leaving the group took longer than {:?}", self.config.commit_timeout);
            return Err(LogError::Fatal(reason).into());
        };
        closed?;
        tracing::info!(service = self.service, "left");
        Ok(())
    }

    async fn serve(&mut self, shutdown: &CancellationToken) -> Result<(), StageError> {
        self.followers.refresh(None);
        let mut cancelled = pin!(shutdown.cancelled());
        let panicked = self.trial.panicked();
        let mut panicked = pin!(panicked.cancelled());
        let mut timer = pin!(sleep_until(Instant::now()));
        loop {
            let wake_at = self.wake_at();
            if timer.deadline() != wake_at {
                timer.as_mut().reset(wake_at);
            }
            self.turns_without_poll += 1;
            let follows = self.can_note() && !self.followers.is_waiting();
            let Self { consumer, openings, followers, flights, results, done, .. } = self;
            // The order is fixed, each arm is handled in bounded portions, and no arm starves another: ready
            // items of 3 and 4 are taken in every iteration.
            // 1. shutdown, and panics outside of the loop: must be handled regardless of the load;
            // 2. tick: leases, deadlines and the watchdog depend on time, and late ticks are wrong ticks;
            // 3. rebalance: a partition that opens late is processed late, and no other member processes it meanwhile;
            // 4. completions: they free the budget that polls use up;
            // 5. poll: never disabled, since an unpolled consumer loses its membership; a full budget pauses instead.
            let woken: Wakeup<S> = if self.turns_without_poll > TURNS_WITHOUT_POLL {
                Wakeup::Event(consumer.poll(Duration::ZERO).await?)
            } else {
                tokio::select! {
                    biased;
                    () = &mut panicked => Wakeup::Panicked,
                    () = &mut cancelled, if self.ends_by.is_none() => Wakeup::Shutdown,
                    () = &mut timer => Wakeup::Tick,
                    Some(message) = openings.1.recv() => Wakeup::Opening(message),
                    () = followers.arrive(), if follows => Wakeup::Followed,
                    Some(round_finished) = flights.next(), if !flights.is_empty() => Wakeup::Landed(round_finished),
                    _ = results.1.recv_many(done, RESULTS_PER_TURN) => Wakeup::Done,
                    event = consumer.poll(POLL_WAIT) => Wakeup::Event(event?),
                }
            };
            self.read_clock().await?;
            self.handle(woken).await?;
            self.take_messages().await?;
            // Both may have waited for a commit.
            self.read_clock().await?;
            self.take_completions()?;
            self.end_turn().await?;
            if self.is_over() {
                return Ok(());
            }
        }
    }

    async fn handle(&mut self, woken: Wakeup<S>) -> Result<(), StageError> {
        match woken {
            Wakeup::Shutdown => self.shut_down().await,
            Wakeup::Tick => self.tick(),
            Wakeup::Opening(message) => self.opening(message).await,
            Wakeup::Followed => self.pass_on(),
            Wakeup::Panicked => Err(StageError::panicked_elsewhere(self.service)),
            Wakeup::Landed(round_finished) => self.round_finished(round_finished?),
            Wakeup::Done => self.finished(),
            Wakeup::Event(event) => {
                self.turns_without_poll = 0;
                match event {
                    Some(Event::Records(records)) => self.records(records),
                    Some(event) => self.rebalanced(event).await,
                    None => Ok(()),
                }
            }
        }
    }

    /// Takes one message of the openings and one of the tailed logs, whatever woke the loop: the arm of a restore is
    /// ready for minutes. Openings that waited for a trial start.
    async fn take_messages(&mut self) -> Result<(), StageError> {
        if let Ok(message) = self.openings.1.try_recv() {
            self.opening(message).await?;
        }
        self.begin_deferred();
        self.pass_on()
    }

    /// Collects completions that are already available, so that the plans they cause join this iteration's batch.
    fn take_completions(&mut self) -> Result<(), StageError> {
        for _ in 0..ROUNDS_PER_TURN {
            let Some(Some(round_finished)) = self.flights.next().now_or_never() else { break };
            self.round_finished(round_finished?)?;
        }
        while self.done.len() < RESULTS_PER_TURN {
            let Ok(done) = self.results.1.try_recv() else { break };
            self.done.push(done);
        }
        self.finished()
    }

    async fn end_turn(&mut self) -> Result<(), StageError> {
        self.feed_quarantined().await?;
        self.submit_plans();
        self.settle();
        if self.completed > 0 {
            self.metrics.completed.inc_by(std::mem::take(&mut self.completed));
            self.watchdog.moved(Instant::now());
        }
        self.apply_backpressure()?;
        self.finish_drains().await?;
        self.commit_when_due().await
    }

    /// Reports the records in flight to the other stages of the process.
    fn settle(&mut self) {
        let activity = match () {
            () if !self.restores.is_empty() => Activity::Opening,
            () if self.is_idle() => Activity::Quiet,
            () => Activity::Working,
        };
        let waits = !self.deferred.is_empty() || (self.can_note() && self.followers.is_waiting());
        self.trial.settle(activity, waits);
    }

    /// Returns `true` if nothing is in flight and no partition is being opened. Parked records do not count.
    pub(crate) fn is_idle(&self) -> bool {
        let has_plans = !self.plans.is_empty() || !self.rejects.is_empty() || !self.in_flight.is_empty();
        !has_plans && self.served.charged() == 0 && self.restores.is_empty()
    }

    fn tick(&mut self) -> Result<(), StageError> {
        let now = Instant::now();
        self.ticked_at = now;
        self.call(|stage, now, actions| stage.tick(now, actions))?;
        let due = self.stage.due(self.now);
        if let Some(still) = self.watchdog.stalled(due, now) {
            return Err(StageError::Stalled { service: self.service, seconds: still.as_secs() });
        }
        self.sample(due, now);
        self.check_tails()
    }

    pub(crate) fn records(&mut self, records: Vec<ConsumerRecord>) -> Result<(), StageError> {
        let mut batch = Vec::with_capacity(records.len());
        let mut stray = BTreeSet::new();
        for record in records {
            if !self.alone.is_empty()
                && let Some(alone) = self.alone.get_mut(&record.tp)
            {
                alone.waiting.push_back(record);
                continue;
            }
            match self.served.deliver(&record) {
                Delivery::Accepted(origin) if is_claim(&record) => self.complete(origin),
                Delivery::Accepted(origin) => batch.push((origin, record)),
                Delivery::Duplicate => {}
                Delivery::NotOpen => drop(stray.insert(record.tp)),
            }
        }
        // Partitions that stay assigned while the same partition of another topic is not: they restart once both are
        // held.
        for tp in stray {
            if self.consumer.pause(&[tp]).is_ok() {
                self.paused.insert(tp);
            }
        }
        self.receive(batch)
    }

    pub(crate) fn receive(&mut self, mut batch: Vec<(Origin, ConsumerRecord)>) -> Result<(), StageError> {
        self.metrics.records_in.inc_by(batch.len() as u64);
        let rejects = &mut self.rejects;
        batch.retain(|(origin, record)| match record.unreadable() {
            None => true,
            Some(reason) => {
                rejects.push((*origin, format!("{reason}: upgrade, then replay")));
                false
            }
        });
        if batch.is_empty() {
            return Ok(());
        }
        self.call(|stage, now, actions| stage.receive(batch, now, actions))
    }

    /// Halts at a restored or tailed record that this release cannot read: without it the state would be wrong.
    pub(crate) fn check_readable(&self, record: &ConsumerRecord) -> Result<(), StageError> {
        let Some(reason) = record.unreadable() else { return Ok(()) };
        let reason = format!("{}@{}: {reason}: upgrade this service", record.tp, record.offset);
        Err(StageError::Halted { service: self.service, reason })
    }

    fn finished(&mut self) -> Result<(), StageError> {
        if self.done.is_empty() {
            return Ok(());
        }
        self.watchdog.moved(Instant::now());
        let mut done = std::mem::take(&mut self.done);
        for done in done.drain(..) {
            self.call(|stage, now, actions| stage.job_done(done, now, actions))?;
        }
        self.done = done;
        Ok(())
    }

    /// Calls the stage and executes its actions; its plans wait for the end of the loop iteration.
    pub(crate) fn call(
        &mut self,
        call: impl FnOnce(&mut S, Millis, &mut Actions<S::Job, S::Effect>) -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        let mut actions = std::mem::take(&mut self.actions);
        call(&mut self.stage, self.now, &mut actions)?;
        for origin in actions.completes.drain(..) {
            self.complete(origin);
        }
        for origin in actions.parked.drain(..) {
            self.served.park(origin);
            self.quarantined_done(origin);
        }
        if !actions.refreshes.is_empty() {
            self.trial.needs_tails();
        }
        actions.refreshes.drain(..).for_each(|token| self.followers.refresh(Some(Waiter::Stage(token))));
        for job in actions.jobs.drain(..) {
            self.worker.start(job, &self.results.0);
        }
        self.plans.append(&mut actions.plans);
        self.rejects.append(&mut actions.rejects);
        self.actions = actions;
        Ok(())
    }

    pub(crate) fn complete(&mut self, origin: Origin) {
        match self.served.complete(origin) {
            Completion::Completed => {
                self.completed += 1;
                self.quarantined_done(origin);
            }
            Completion::Late => self.metrics.late.inc(),
            Completion::Twice => {
                self.metrics.repeated.inc();
                tracing::error!(service = self.service, ?origin, "a record was completed twice, or never delivered");
            }
        }
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let mut wake_at = self.ticked_at + self.config.tick_interval;
        if let Some(tick) = self.stage.next_tick() {
            let wait = u64::try_from(tick.saturating_sub(self.clock.now())).unwrap_or(0);
            wake_at = wake_at.min((now + Duration::from_millis(wait)).max(self.ticked_at + TICK_GAP));
        }
        let commit_at = self.commit_at();
        let deadlines = self.draining.values().map(|draining| draining.deadline);
        deadlines.chain(commit_at).fold(wake_at, Instant::min)
    }
}
