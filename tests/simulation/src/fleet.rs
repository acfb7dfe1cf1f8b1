//! All processes: starts them, applies faults to them, and restarts them.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use orbweaver_log::MemoryLog;
use orbweaver_messages::{CLOCK_MARGIN_MS, SEND_WINDOW_MS};
use orbweaver_stage::{Clock, StageError};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    broken::{Broken, Rule},
    faults::{Back, Fault, Machine, skew},
    gate::{Gate, Gated},
    groups::Groups,
    network::{Line, ProcessLog, Weather},
    process::{Outside, Parts, run},
    random::Random,
    settings::Service,
    time::{MachineClock, Time},
};

/// A running process.
struct Running {
    number: usize,
    gate: Arc<Gate>,
    log: ProcessLog,
    clock: MachineClock,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), StageError>>,
    /// Pending repairs of faults, with their times.
    recoveries: Vec<(Instant, Recovery)>,
    /// Restart after the end of the process.
    back: Back,
}

/// Time after which a process stops when its machine's clock was set and stays so, as in `orbweaver_process`.
const CLOCK_FOLLOWED_AFTER: Duration = Duration::from_secs(30);

impl Running {
    fn set_clock(&mut self, by_ms: i64, now: Instant) {
        self.clock.set(by_ms);
        self.recoveries.push((now + CLOCK_FOLLOWED_AFTER, Recovery::FollowClock));
    }
}

#[derive(Debug, Clone, Copy)]
enum Recovery {
    Thaw,
    Reach,
    Commit,
    /// Graceful stop, to restart with the machine's clock, unless that was set back.
    FollowClock,
}

/// A machine: it runs a process, or will.
struct Place {
    service: Service,
    running: Option<Running>,
    /// Time of the next start; `None` while a process runs.
    starts_at: Option<Instant>,
    index_dir: PathBuf,
    indexes: u64,
    /// Change of this machine's clock alone, in milliseconds.
    clock_set_ms: i64,
    /// Times at which this machine's clock is set again, and by how many milliseconds.
    clock_resets: Vec<(Instant, i64)>,
}

impl Place {
    fn set_clock(&mut self, by_ms: i64, now: Instant) {
        self.clock_set_ms += by_ms;
        if let Some(running) = &mut self.running {
            running.set_clock(by_ms, now);
        }
    }

    /// Sets the clock again where that is due.
    fn reset_clock(&mut self, now: Instant) {
        let resets = std::mem::take(&mut self.clock_resets);
        let (due, later): (Vec<_>, Vec<_>) = resets.into_iter().partition(|(at, _)| *at <= now);
        self.clock_resets = later;
        for (_, by_ms) in due {
            self.set_clock(by_ms, now);
        }
    }
}

/// The end of a process.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    /// Number of the process.
    pub(crate) process: usize,
    /// Time of the end.
    pub(crate) at: Instant,
    /// The error or panic, if the process ended with one.
    pub(crate) error: Option<String>,
    /// Whether the end is a fault of the service: a halt, a stall, a panic, or an exit without a stop.
    pub(crate) is_fault: bool,
}

/// All processes.
pub(crate) struct Fleet {
    tps: Vec<Place>,
    log: MemoryLog,
    groups: Groups,
    outside: Outside,
    time: Time,
    broken: Broken,
    weather: Weather,
    readers_lag: Duration,
    random: Random,
    dir: PathBuf,
    /// Total change of the clocks of all machines, in milliseconds.
    clocks_set_ms: i64,
    started: usize,
    /// Times at which the log, and the store, become available again.
    log_back_at: Option<Instant>,
    store_back_at: Option<Instant>,
    pub(crate) ended: Vec<Ended>,
    pub(crate) happened: BTreeMap<&'static str, u64>,
}

/// The environment of a fleet.
pub(crate) struct Ground {
    pub(crate) log: MemoryLog,
    pub(crate) groups: Groups,
    pub(crate) outside: Outside,
    pub(crate) time: Time,
    pub(crate) broken: Broken,
    pub(crate) weather: Weather,
    pub(crate) readers_lag: Duration,
    pub(crate) dir: PathBuf,
}

impl Fleet {
    pub(crate) fn start(ground: Ground, random: Random) -> Self {
        let Ground { log, groups, outside, time, broken, weather, readers_lag, dir } = ground;
        let processes = outside.settings.processes;
        let mut fleet = Self {
            tps: vec![],
            log,
            groups,
            outside,
            time,
            broken,
            weather,
            readers_lag,
            random,
            dir,
            clocks_set_ms: 0,
            started: 0,
            log_back_at: None,
            store_back_at: None,
            ended: vec![],
            happened: BTreeMap::new(),
        };
        for (service, count) in Service::ALL.into_iter().zip(processes) {
            for _ in 0..count {
                fleet.add(service);
            }
        }
        fleet
    }

    fn add(&mut self, service: Service) {
        let delay = Duration::from_millis(self.random.below(2_000));
        let index_dir = self.dir.join(format!("machine{}", self.tps.len()));
        let starts_at = Some(Instant::now() + delay);
        self.tps.push(Place {
            service,
            running: None,
            starts_at,
            index_dir,
            indexes: 0,
            clock_set_ms: 0,
            clock_resets: vec![],
        });
    }

    fn find(&mut self, machine: Machine) -> Option<&mut Place> {
        let mut tps: Vec<&mut Place> =
            self.tps.iter_mut().filter(|tp| tp.service == machine.service && tp.running.is_some()).collect();
        if tps.is_empty() {
            return None;
        }
        let index = usize::try_from(machine.number).unwrap_or(0) % tps.len();
        Some(tps.swap_remove(index))
    }

    /// Applies a fault and counts it; a fault without a target process has no effect.
    pub(crate) fn happens(&mut self, fault: Fault) {
        let kind = fault.kind();
        tracing::debug!(?fault, "happens");
        if self.strike(fault).is_some() {
            *self.happened.entry(kind).or_default() += 1;
        }
    }

    fn strike(&mut self, fault: Fault) -> Option<()> {
        let now = Instant::now();
        let ms = Duration::from_millis;
        match fault {
            Fault::Kill(machine, back) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.back = back;
                running.gate.kill();
            }
            Fault::KillAtAppend(machine, back, after) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.back = back;
                let number = running.log.appends() + after;
                running.log.script(|script| script.kill_at_append = Some(number));
            }
            Fault::KillAtLanding(machine, back, after) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.back = back;
                let number = running.log.appends() + after;
                running.log.script(|script| script.kill_at_landing = Some(number));
            }
            Fault::FailAppend(machine, after) => {
                let running = self.find(machine)?.running.as_mut()?;
                let number = running.log.appends() + after;
                running.log.script(|script| script.fail_append = Some(number));
            }
            Fault::Freeze(machine, for_ms) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.gate.freeze(true);
                running.recoveries.push((now + ms(for_ms), Recovery::Thaw));
            }
            Fault::FreezeUnnoticed(machine, for_ms) => {
                self.find(machine)?.running.as_mut()?.gate.freeze_for(ms(for_ms));
            }
            Fault::FreezeAtTombstone(machine, for_ms) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.log.script(|script| script.freeze_at_tombstone = Some(for_ms));
            }
            Fault::FreezeAtSite(machine, for_ms) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.log.script(|script| script.freeze_at_site = Some(for_ms));
            }
            Fault::CutOff(machine, for_ms) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.gate.cut_off(true);
                running.recoveries.push((now + ms(for_ms), Recovery::Reach));
            }
            Fault::RefuseCommits(machine, for_ms) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.log.script(|script| script.refuse_commits = true);
                running.recoveries.push((now + ms(for_ms), Recovery::Commit));
            }
            Fault::LoseCommitAnswers(machine, every) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.log.script(|script| script.lose_answer_every = every);
            }
            Fault::SetClocks(by_ms) => {
                self.clocks_set_ms += by_ms;
                for running in self.tps.iter_mut().filter_map(|tp| tp.running.as_mut()) {
                    running.set_clock(by_ms, now);
                }
            }
            Fault::SetClock(machine, by_ms, for_ms) => {
                let tp = self.find(machine)?;
                tp.clock_resets.push((now + ms(for_ms), -by_ms));
                tp.set_clock(by_ms, now);
            }
            Fault::Stop(machine, for_ms) => {
                let running = self.find(machine)?.running.as_mut()?;
                running.back = Back { after_ms: for_ms, loses_index: false };
                running.shutdown.cancel();
            }
            Fault::Add(service) => self.add(service),
            Fault::Move(service) => self.groups.churn(service.name(), &mut self.random),
            Fault::MoveApart(service, for_ms) => {
                self.groups.hold_last_topic(service.name(), ms(for_ms));
                self.groups.churn(service.name(), &mut self.random);
            }
            Fault::AllAway(service, for_ms) => {
                for tp in self.tps.iter_mut().filter(|tp| tp.service == service) {
                    tp.starts_at = tp.starts_at.map(|at| at.max(now + ms(for_ms)));
                    if let Some(running) = &mut tp.running {
                        running.back = Back { after_ms: for_ms, loses_index: false };
                        running.gate.kill();
                    }
                }
            }
            Fault::LogUnavailable(for_ms) => {
                self.log_back_at = self.log_back_at.max(Some(now + ms(for_ms)));
                self.groups.hold_sessions(true);
                self.reach_the_log(false);
            }
            Fault::StoreAway(for_ms) => {
                self.store_back_at = self.store_back_at.max(Some(now + ms(for_ms)));
                self.outside.store.away.store(true, Ordering::Relaxed);
            }
        }
        Some(())
    }

    fn reach_the_log(&mut self, reached: bool) {
        for running in self.tps.iter().filter_map(|tp| tp.running.as_ref()) {
            running.gate.lose_log(!reached);
        }
    }

    /// Returns `true` if every machine runs a process and no fault is in effect.
    pub(crate) fn is_well(&self) -> bool {
        self.log_back_at.is_none()
            && self.store_back_at.is_none()
            && self.tps.iter().all(|tp| {
                let is_well = |running: &Running| running.recoveries.is_empty() && running.gate.is_well();
                tp.clock_resets.is_empty() && tp.running.as_ref().is_some_and(is_well)
            })
    }

    /// Repairs expired faults, records ended processes and starts those that are due.
    pub(crate) async fn step(&mut self) {
        let now = Instant::now();
        if self.log_back_at.is_some_and(|at| at <= now) {
            self.log_back_at = None;
            self.reach_the_log(true);
            self.groups.hold_sessions(false);
        }
        if self.store_back_at.is_some_and(|at| at <= now) {
            self.store_back_at = None;
            self.outside.store.away.store(false, Ordering::Relaxed);
        }
        for index in 0..self.tps.len() {
            self.tps[index].reset_clock(now);
            self.recover(index, now);
            self.bury(index, now).await;
            if self.tps[index].starts_at.is_some_and(|at| at <= now) && self.may_join(index) {
                self.launch(index);
            }
        }
    }

    /// Returns `false` while only the clock of this process's machine is set and others are working, as in
    /// `orbweaver_process` (docs/protocol.md#dispatch-expiry). After `Fault::SetClocks` processes that use the former
    /// time and the new one always work together: the harder case.
    fn may_join(&self, index: usize) -> bool {
        let agrees = self.tps[index].clock_set_ms.abs() <= SEND_WINDOW_MS;
        let others_work = self.tps.iter().any(|tp| tp.running.is_some());
        agrees || !others_work || self.broken.is_off(Rule::ClockDifference)
    }

    fn recover(&mut self, index: usize, now: Instant) {
        let Some(running) = &mut self.tps[index].running else { return };
        let (gate, log, shutdown) = (running.gate.clone(), running.log.clone(), running.shutdown.clone());
        let stays_set = running.clock.step_ms().abs() > CLOCK_MARGIN_MS;
        running.recoveries.retain(|(at, recover)| {
            if *at > now {
                return true;
            }
            match recover {
                Recovery::Thaw => gate.freeze(false),
                Recovery::Reach => gate.cut_off(false),
                Recovery::Commit => log.script(|script| script.refuse_commits = false),
                Recovery::FollowClock if stays_set => shutdown.cancel(),
                Recovery::FollowClock => {}
            }
            false
        });
    }

    async fn bury(&mut self, index: usize, now: Instant) {
        let tp = &mut self.tps[index];
        let Some(running) = tp.running.as_mut().filter(|running| running.gate.is_dead() || running.task.is_finished())
        else {
            return;
        };
        let mut ended = Ended { process: running.number, at: now, error: None, is_fault: false };
        let stopped = running.shutdown.is_cancelled();
        if running.task.is_finished() {
            match (&mut running.task).await {
                Ok(Ok(())) => ended.is_fault = !stopped,
                Ok(Err(error)) => {
                    let text = error.to_string();
                    // A frozen process whose commits are refused does not learn what it owns before it is shut down.
                    let gave_up = stopped && text.ends_with("could verify its ownership");
                    ended.is_fault = !gave_up
                        && matches!(
                            error,
                            StageError::Halted { .. } | StageError::Stalled { .. } | StageError::Panicked { .. }
                        );
                    ended.error = Some(text);
                }
                Err(panicked) => {
                    ended.is_fault = true;
                    ended.error = Some(panicked.to_string());
                }
            }
        } else {
            running.task.abort();
            let _ = (&mut running.task).await;
        }
        running.gate.kill();
        let back = running.back;
        tp.running = None;
        tp.starts_at = Some(now + Duration::from_millis(back.after_ms));
        if back.loses_index {
            // Another machine: an empty index directory.
            tp.indexes += 1;
        }
        tracing::debug!(process = ended.process, error = ended.error, "ended");
        self.ended.push(ended);
    }

    fn launch(&mut self, index: usize) {
        let number = self.started;
        self.started += 1;
        let random = self.random.split(&format!("process {number}"));
        let gate = Arc::new(Gate::default());
        gate.lose_log(self.log_back_at.is_some());
        let set_ms = self.clocks_set_ms + self.tps[index].clock_set_ms;
        let clock = MachineClock::new(self.time, set_ms + skew(&mut self.random)).without(&self.broken);
        let line = Line {
            process: number,
            gate: gate.clone(),
            groups: self.groups.clone(),
            broken: self.broken.clone(),
            weather: self.weather,
            readers_lag: self.readers_lag,
        };
        let log = ProcessLog::new(self.log.clone(), line, random.split("log"));
        let shutdown = CancellationToken::new();
        let tp = &mut self.tps[index];
        tracing::debug!(process = number, service = tp.service.name(), "started");
        let parts = Parts {
            service: tp.service,
            number,
            log: log.clone(),
            gate: gate.clone(),
            clock: clock.clone(),
            time: self.time,
            random,
            index_dir: tp.index_dir.join(tp.indexes.to_string()),
            shutdown: shutdown.clone(),
            outside: self.outside.clone(),
        };
        let task = tokio::spawn(Gated::new(run(parts), gate.clone()));
        let back = Back { after_ms: 1_000, loses_index: false };
        tp.starts_at = None;
        tp.running = Some(Running { number, gate, log, clock, shutdown, task, recoveries: vec![], back });
    }
}
