//! The event loop: one task, one await; everything that is ready in one iteration is handled together.
//!
//! Each part of its state is in a module of its own and decides by itself; the loop carries the decisions to the others.

mod commits;
mod crash;
mod partitions;
mod trial;

use std::{collections::BTreeSet, pin::Pin, sync::Arc};

use orbweaver_log::{ConsumerRecord, Event, LogError, topic_partitions};
use orbweaver_messages::Millis;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use self::commits::{COMMIT_TIMEOUT, Then};
use crate::{
    Actions, Origin, Runner, Stage, StageError,
    assignment::Assignment,
    claim::is_claim,
    commits::Commits,
    in_flight::InFlight,
    jobs::Jobs,
    loop_context::LoopContext,
    loop_time::LoopTime,
    open_partitions::{Completion, Delivery, OpenPartitions},
    panics::caught,
    patience::Patience,
    pending_commits::PendingCommits,
    plan_batch::{DurablePlan, Effects, RoundResult},
    poison::PoisonRecords,
    polling::{Polling, Pressure},
    quarantine::Quarantine,
    restore::RestoreMessage,
    restores::Restores,
    sample::Samples,
    tail::LogTails,
    tails::Waiter,
    trials::{Activity, Work},
};

/// Maximum number of finished rounds handled per loop iteration, after the first.
const ROUNDS_PER_ITERATION: usize = 64;

/// Event that ended the wait.
enum Wakeup<S: Stage> {
    Shutdown,
    Tick,
    Committed,
    Restore(RestoreMessage),
    Tailed,
    Panicked,
    Round(Result<RoundResult<S::Effect>, StageError>),
    JobsDone,
    Event(Option<Event>),
}

/// Signals that wake the loop from outside.
struct Signals {
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
    panicked: Pin<Box<WaitForCancellationFutureOwned>>,
    timer: Pin<Box<Sleep>>,
}

/// A running stage.
pub(crate) struct EventLoop<S: Stage> {
    stage: S,
    context: Arc<LoopContext>,
    time: LoopTime,
    polling: Polling,
    assignment: Assignment,
    restores: Restores,
    open: OpenPartitions,
    in_flight: InFlight<S::Job, S::Effect>,
    jobs: Jobs<S::Job, S::Done>,
    tails: LogTails,
    commits: Commits,
    pending: PendingCommits<Then>,
    quarantine: Quarantine,
    poison: PoisonRecords,
    /// Progress of work that is due: not of parked work, and whatever the lag.
    watchdog: Patience,
    samples: Samples,
}

impl<S: Stage> EventLoop<S> {
    /// Joins the group.
    pub(crate) fn join(runner: Runner<S>, shutdown: CancellationToken) -> Result<Self, StageError> {
        let Runner { stage, log, worker, perform, config, clock, metrics, pulse, trials } = runner;
        let (service, topics) = (stage.service(), stage.topics());
        let group: Arc<str> = config.group.as_deref().unwrap_or(service).into();
        let lags = topics.iter().map(|&topic| (topic, metrics.lag(&group, topic.0))).collect();
        let metrics = metrics.service(service);
        let consumer = log.consumer(&group, topics)?;
        let effects = Effects { log: log.clone(), perform, metrics: metrics.clone() };
        let (partitions, now) = (log.partitions(topics[0])?, Instant::now());
        let context = LoopContext { service, topics, partitions, group, config, log, clock, metrics, pulse, shutdown };
        Ok(Self {
            time: LoopTime::new(context.clock.clone(), now),
            polling: Polling::new(consumer),
            assignment: Assignment::new(topics),
            restores: Restores::new(context.config.restores_at_once),
            open: OpenPartitions::new(topics, context.config.limits),
            in_flight: InFlight::new(service, effects),
            jobs: Jobs::new(worker),
            tails: LogTails::new(context.log.clone(), topic_partitions(&*context.log, stage.tails())?),
            commits: Commits::new(&context.config, now),
            pending: PendingCommits::new(),
            quarantine: Quarantine::new(context.config.quarantine_records, &trials),
            poison: PoisonRecords::default(),
            watchdog: Patience::new(now),
            samples: Samples::new(lags),
            context: Arc::new(context),
            stage,
        })
    }

    /// Runs the loop until shutdown has completed, then leaves the group.
    pub(crate) async fn run(mut self) -> Result<(), StageError> {
        let service = self.context.service;
        tracing::info!(service, group = &*self.context.group, topics = ?self.context.topics, "joined");
        let _ = self.context.shutdown.clone().run_until_cancelled(self.load_poison_records()).await;
        let result = caught(self.serve()).await;
        let result = result.unwrap_or_else(|thrown| Err(StageError::panicked(service, &thrown)));
        match &result {
            Err(StageError::Panicked { .. }) => self.note_crash().await,
            Err(_) => self.withdraw_trials().await,
            Ok(()) => {}
        }
        self.restores.cancel_all();
        if let Err(error) = result {
            tracing::error!(service, %error, "the stage failed; a restart repeats work in flight");
            return Err(error);
        }
        let Ok(closed) = timeout(COMMIT_TIMEOUT, self.polling.close()).await else {
            return Err(LogError::Fatal(format!("leaving the group took longer than {COMMIT_TIMEOUT:?}")).into());
        };
        closed?;
        tracing::info!(service, "left");
        Ok(())
    }

    async fn serve(&mut self) -> Result<(), StageError> {
        self.tails.refresh(None);
        let mut signals = Signals {
            shutdown: Box::pin(self.context.shutdown.clone().cancelled_owned()),
            panicked: Box::pin(self.quarantine.trial.panicked().cancelled_owned()),
            timer: Box::pin(sleep_until(Instant::now())),
        };
        while !self.is_over() {
            let wakeup = self.wait(&mut signals).await?;
            self.check_for_suspension().await?;
            self.handle(wakeup)?;
            self.take_messages()?;
            self.take_completions()?;
            self.feed_quarantined()?;
            self.submit_plans();
            self.settle();
            self.apply_backpressure()?;
            self.finish_drains()?;
            self.send_commits()?;
            self.release_partitions()?;
        }
        Ok(())
    }

    /// Waits for the next event.
    ///
    /// The order of the arms is fixed, each is handled in bounded portions, and none starves another: ready items of 4
    /// and 5 are taken in every iteration, and an overdue poll precedes all arms.
    /// 1. shutdown, and panics outside of the loop: must be handled regardless of the load;
    /// 2. tick: leases, deadlines and the watchdog depend on time, and late ticks are wrong ticks;
    /// 3. the answer to a commit, for which partitions may wait; there is one at a time;
    /// 4. restores and tailed logs: a partition that opens late is processed late, and no other member processes it
    ///    meanwhile;
    /// 5. completions: they free the budget that polls use up;
    /// 6. poll, for records and rebalances: never disabled, since an unpolled consumer loses its membership; a full
    ///    budget pauses instead.
    async fn wait(&mut self, signals: &mut Signals) -> Result<Wakeup<S>, StageError> {
        let wake_at = self.wake_at();
        if signals.timer.deadline() != wake_at {
            signals.timer.as_mut().reset(wake_at);
        }
        if self.polling.is_overdue() {
            return Ok(Wakeup::Event(self.polling.poll().await?));
        }
        let (is_ending, takes_tailed) = (self.assignment.is_ending(), self.can_note() && !self.tails.is_waiting());
        let Self { polling, pending, restores, tails, in_flight, jobs, .. } = self;
        Ok(tokio::select! {
            biased;
            () = &mut signals.panicked => Wakeup::Panicked,
            () = &mut signals.shutdown, if !is_ending => Wakeup::Shutdown,
            () = &mut signals.timer => Wakeup::Tick,
            () = pending.arrive() => Wakeup::Committed,
            Some(message) = restores.next() => Wakeup::Restore(message),
            () = tails.arrive(), if takes_tailed => Wakeup::Tailed,
            Some(round) = in_flight.next() => Wakeup::Round(round),
            () = jobs.arrive() => Wakeup::JobsDone,
            event = polling.poll() => Wakeup::Event(event?),
        })
    }

    fn handle(&mut self, wakeup: Wakeup<S>) -> Result<(), StageError> {
        match wakeup {
            Wakeup::Shutdown => self.shut_down(),
            Wakeup::Tick => self.tick(),
            Wakeup::Committed => self.commit_answered(),
            Wakeup::Restore(message) => self.restoring(message),
            Wakeup::Tailed => self.take_tailed(),
            Wakeup::Panicked => Err(StageError::panicked_elsewhere(self.context.service)),
            Wakeup::Round(round) => self.round_finished(round?),
            Wakeup::JobsDone => self.jobs_done(),
            Wakeup::Event(Some(Event::Records(records))) => self.deliver(records),
            Wakeup::Event(Some(event)) => self.rebalanced(event),
            Wakeup::Event(None) => Ok(()),
        }
    }

    /// Takes one message of the restores and one of the tailed logs, whatever woke the loop: the arm of a restore is
    /// ready for minutes. Openings that waited for a trial start.
    fn take_messages(&mut self) -> Result<(), StageError> {
        if let Some(message) = self.restores.try_next() {
            self.restoring(message)?;
        }
        self.begin_deferred();
        self.take_tailed()
    }

    /// Collects completions that are already available, so that the plans they cause join this iteration's batch.
    fn take_completions(&mut self) -> Result<(), StageError> {
        for _ in 0..ROUNDS_PER_ITERATION {
            let Some(round) = self.in_flight.try_next() else { break };
            self.round_finished(round?)?;
        }
        self.jobs_done()
    }

    /// Submits the plans and rejects of this loop iteration.
    fn submit_plans(&mut self) {
        let bytes = self.in_flight.submit(self.time.now(), S::ends_of_rejected);
        self.open.budget().plan(bytes);
    }

    /// Reports the records in flight to the other stages of the process, and progress to the watchdog.
    fn settle(&mut self) {
        let activity = match () {
            () if !self.restores.is_empty() => Activity::Opening,
            () if self.is_idle() => Activity::Quiet,
            () => Activity::Working,
        };
        let waits = self.restores.has_deferred(|_| true) || (self.can_note() && self.tails.is_waiting());
        self.quarantine.trial.settle(activity, waits);
        let completed = self.open.take_completed();
        if completed > 0 {
            self.context.metrics.completed.inc_by(completed);
            self.watchdog.moved(Instant::now());
        }
    }

    /// Returns `true` if nothing is in flight and no partition is being opened. Parked records do not count.
    fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.open.charged() == 0 && self.restores.is_empty()
    }

    /// Pauses and resumes open topic-partitions.
    fn apply_backpressure(&mut self) -> Result<(), StageError> {
        let is_held = self.quarantine.holds_others(Instant::now());
        let pressure = Pressure { is_full: self.open.budget().paused(), is_held };
        if self.polling.press(pressure) {
            self.context.metrics.paused.set(f64::from(u8::from(pressure.is_full)));
            for tp in self.open.tps() {
                self.polling.adjust(tp, self.quarantine.occupied(tp))?;
            }
        } else {
            for tp in self.quarantine.tps() {
                self.polling.adjust(tp, self.quarantine.occupied(tp))?;
            }
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), StageError> {
        let now = Instant::now();
        self.time.ticked(now);
        self.call(|stage, now, actions| stage.tick(now, actions))?;
        let due = self.stage.due(self.time.now());
        if due == 0 {
            self.watchdog.moved(now);
        }
        let stalled_for = self.watchdog.waited(now);
        if stalled_for >= self.context.config.stall_after {
            return Err(StageError::Stalled { service: self.context.service, seconds: stalled_for.as_secs() });
        }
        let (metrics, restoring) = (&self.context.metrics, self.assignment.restoring());
        let seconds = |since: Option<Instant>| since.map_or(0.0, |since| now.duration_since(since).as_secs_f64());
        metrics.due.set(due as f64);
        metrics.still.set(stalled_for.as_secs_f64());
        metrics.restoring.set(restoring as f64);
        metrics.restoring_seconds.set(seconds(self.restores.oldest()));
        metrics.commit_age.set(seconds(self.commits.uncommitted_since()));
        self.context.pulse.beat(now, self.open.partitions(), restoring);
        self.samples.take(&self.context, &mut self.open, now);
        let overdue = self.tails.overdue(self.context.config.restore_patience);
        overdue.map_or(Ok(()), |reason| Err(self.context.halted(reason)))
    }

    /// Handles polled records.
    fn deliver(&mut self, records: Vec<ConsumerRecord>) -> Result<(), StageError> {
        let mut batch = Vec::with_capacity(records.len());
        let mut stray = BTreeSet::new();
        for record in records {
            let Some(record) = self.quarantine.keep(record) else { continue };
            match self.open.deliver(&record) {
                Delivery::Accepted(origin) if is_claim(&record) => {
                    self.stage.passed_over(origin);
                    self.complete(origin);
                }
                Delivery::Accepted(origin) => batch.push((origin, record)),
                Delivery::Duplicate => {}
                Delivery::NotOpen => drop(stray.insert(record.tp)),
            }
        }
        // Partitions that stay assigned while the same partition of another topic is not: they restart once both are
        // held.
        for tp in stray {
            let _ = self.polling.pause(tp);
        }
        self.receive(batch)
    }

    /// Passes records to the stage.
    fn receive(&mut self, mut batch: Vec<(Origin, ConsumerRecord)>) -> Result<(), StageError> {
        self.context.metrics.records_in.inc_by(batch.len() as u64);
        if self.stage.needs_known_schemas() {
            batch.iter().try_for_each(|(_, record)| record.check_readable())?;
        }
        let Self { in_flight, stage, .. } = self;
        batch.retain(|(origin, record)| match record.unreadable() {
            None => true,
            Some(reason) => {
                stage.passed_over(*origin);
                in_flight.reject(*origin, reason);
                false
            }
        });
        if batch.is_empty() {
            return Ok(());
        }
        self.call(|stage, now, actions| stage.receive(batch, now, actions))
    }

    /// Handles the end of a round.
    fn round_finished(&mut self, round: RoundResult<S::Effect>) -> Result<(), StageError> {
        for DurablePlan { completes, token, offsets, refused, bytes } in self.in_flight.advance(round) {
            self.open.budget().durable(bytes);
            match &refused {
                Some(reason) => self.refuse(completes, reason),
                None => completes.into_iter().for_each(|origin| self.complete(origin)),
            }
            if let Some(token) = token {
                self.watchdog.moved(Instant::now());
                self.call(|stage, now, actions| match &refused {
                    Some(reason) => stage.refused(token, reason, now, actions),
                    None => stage.plan_durable(token, &offsets, now, actions),
                })?;
            }
        }
        Ok(())
    }

    /// Rejects the origins of a record that the log refused.
    fn refuse(&mut self, origins: Vec<Origin>, reason: &str) {
        tracing::error!(
            service = self.context.service,
            reason,
            origins = origins.len(),
            "the log refused a record of a plan; the plan ends, and its origins go to the dead letters"
        );
        origins.into_iter().for_each(|origin| self.in_flight.reject(origin, reason.to_owned()));
    }

    fn jobs_done(&mut self) -> Result<(), StageError> {
        let mut done = self.jobs.take();
        if !done.is_empty() {
            self.watchdog.moved(Instant::now());
        }
        for done in done.drain(..) {
            self.call(|stage, now, actions| stage.job_done(done, now, actions))?;
        }
        self.jobs.reuse(done);
        Ok(())
    }

    /// Handles the next message from a tailed log, unless a trial holds it back.
    fn take_tailed(&mut self) -> Result<(), StageError> {
        if !self.can_note() || !self.tails.has_next() || !self.quarantine.trial.enter(Work::Records) {
            return Ok(());
        }
        for record in self.tails.take()? {
            // Without it the state would be wrong.
            record.check_readable()?;
            if self.poison.enter_tailed(&record, self.open.partitions(), self.restores.partitions()) {
                self.call(|stage, now, actions| stage.receive_tailed(&record, now, actions))?;
            }
        }
        self.poison.leave();
        for waiter in self.tails.refreshed() {
            match waiter {
                // A cancelled opening no longer waits.
                Waiter::Opening(opening) => drop(opening.send(())),
                Waiter::Stage(token) => self.call(|stage, now, actions| stage.refreshed(token, now, actions))?,
            }
        }
        Ok(())
    }

    /// Returns `true` if a partition is open or being opened. Without one, tailed records wait: a crash in their call
    /// could be recorded nowhere, and would be repeated at every start.
    fn can_note(&self) -> bool {
        !self.restores.is_empty() || self.open.partitions().next().is_some()
    }

    /// Calls the stage and executes its actions; its plans wait for the end of the loop iteration.
    fn call(
        &mut self,
        call: impl FnOnce(&mut S, Millis, &mut Actions<S::Job, S::Effect>) -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        let mut actions = self.in_flight.actions();
        call(&mut self.stage, self.time.now(), &mut actions)?;
        for origin in actions.completes.drain(..) {
            self.complete(origin);
        }
        for origin in actions.parked.drain(..) {
            self.open.park(origin);
            self.quarantine.done(origin);
        }
        if !actions.refreshes.is_empty() {
            self.quarantine.trial.needs_tails();
        }
        actions.refreshes.drain(..).for_each(|token| self.tails.refresh(Some(Waiter::Stage(token))));
        actions.jobs.drain(..).for_each(|job| self.jobs.start(job));
        self.in_flight.gather(actions);
        Ok(())
    }

    fn complete(&mut self, origin: Origin) {
        match self.open.complete(origin) {
            Completion::Completed => self.quarantine.done(origin),
            Completion::Late => self.context.metrics.late.inc(),
            Completion::Twice => {
                self.context.metrics.repeated.inc();
                let service = self.context.service;
                tracing::error!(service, ?origin, "a record was completed twice, or never delivered");
            }
        }
    }

    /// Returns the time of the next tick, commit or drain deadline.
    fn wake_at(&self) -> Instant {
        let tick_at = self.time.next_tick(self.stage.next_tick(), self.context.config.tick_interval);
        let others = self.assignment.next_deadline().into_iter().chain(self.commit_at());
        others.fold(tick_at, Instant::min)
    }
}
