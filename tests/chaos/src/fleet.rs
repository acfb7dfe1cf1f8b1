//! Processes of a run, and the execution of faults on them and on the servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Instance, Service};
use orbweaver_messages::Millis;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_testkit::{SESSION, Stack};
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, interval, sleep};

use crate::clock::FakedClock;
use crate::crawls::{control_second, delete_third};
use crate::fault::{Fault, Server, Slot};
use crate::journal::Journal;
use crate::proxy::Network;
use crate::scarcity::{NoMemory, SmallDisk};
use crate::schedule::CLOCK_TOLERATED_MS;
use crate::verdict::Exit;

/// Maximum wait for the end of a process; the verdict has its own limit.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Maximum time that an instance may still be busy with its last fault when the next one is due.
const BUSY_FOR: Duration = Duration::from_secs(60);
/// Time that a process may run without additional memory before it is killed (SIGKILL): an idle one needs none.
const STARVES_WITHIN: Duration = Duration::from_secs(20);
/// Time within which all processes follow a clock that was set.
const CLOCK_FOLLOWED_WITHIN: Duration = Duration::from_secs(35);
/// Amounts by which clocks are set back and ahead. Brokers refuse records that are more than an hour ahead
/// (`message.timestamp.after.max.ms`).
const SHIFTS: (&str, &str) = ("-3600s", "+3590s");
/// Polling interval.
const POLL: Duration = Duration::from_millis(300);
/// Start-up time of a server beyond which further faults are postponed: while most brokers are unavailable nothing
/// progresses, and faults have no effect.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
/// Time after its return during which a server still counts as unavailable, because clients reconnect gradually, in
/// milliseconds.
const BACK_MS: Millis = 10_000;

/// Returns the name of a server for `tests/stack`.
fn node(server: Server) -> String {
    match server {
        Server::Broker(node) => node.to_string(),
        Server::Cql => "cql".to_owned(),
    }
}

/// Record of faults and observations.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Number of faults by kind.
    pub(crate) faults: BTreeMap<&'static str, u32>,
    /// Number of fetchers that were killed or suspended, or that ended by themselves.
    pub(crate) fetchers_hurt: u64,
    /// Number of fetchers present at broker outages.
    pub(crate) fetchers_cut_off: u64,
    /// Exits of processes.
    pub(crate) exits: Vec<Exit>,
    /// Problems of the run itself.
    pub(crate) troubles: Vec<String>,
    /// Start and end of each fault, in milliseconds since the epoch.
    pub(crate) faults_ms: Vec<(Millis, Millis)>,
    /// Start and end of each time in which all instances restarted because their clocks were set, in milliseconds since
    /// the epoch.
    pub(crate) clocks_ms: Vec<(Millis, Millis)>,
    /// Start and end of each time during which the second crawl was certainly paused, in milliseconds since the epoch.
    pub(crate) paused_ms: Vec<(Millis, Millis)>,
    /// Start and end of each server outage, in milliseconds since the epoch.
    outages: Vec<(Millis, Millis)>,
}

/// Instances of all services, and their servers.
pub(crate) struct Fleet {
    /// Topics and keyspace.
    pub(crate) cluster: Cluster,
    /// The servers.
    pub(crate) stack: Stack,
    /// The network between servers and services.
    network: Network,
    /// Journal of the run.
    pub(crate) journal: Journal,
    dir: PathBuf,
    /// Disk with the instances' states, if one could be mounted.
    disk: Option<SmallDisk>,
    /// First URL of the web.
    start_url: String,
    /// Wall clock of the instances, if a library to set it was found.
    clock: Option<FakedClock>,
    /// Instances without an ongoing fault.
    running: Mutex<BTreeMap<Slot, Instance>>,
    tally: Mutex<Tally>,
    /// Held during an outage, so that only one server is unavailable at a time, however long its return takes.
    servers: Mutex<()>,
    /// Start time of the server that is currently starting.
    starts: std::sync::Mutex<Option<Instant>>,
    dirs: AtomicU64,
}

impl Fleet {
    /// Creates a fleet without instances; their directories are created in `dir`.
    pub(crate) fn new(cluster: Cluster, stack: Stack, network: Network, journal: Journal, dir: PathBuf) -> Self {
        let (disk, clock, start_url) = (None, None, String::new());
        let (running, tally, servers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (starts, dirs) = (std::sync::Mutex::default(), AtomicU64::new(1));
        Self { cluster, stack, network, journal, dir, disk, start_url, clock, running, tally, servers, starts, dirs }
    }

    /// Sets the URL with which crawls of the web begin.
    pub(crate) fn with_start(self, url: &str) -> Self {
        Self { start_url: url.to_owned(), ..self }
    }

    /// Puts the states of all instances on a small disk.
    pub(crate) fn with_disk(self, disk: Option<PathBuf>) -> Self {
        Self { disk: disk.map(SmallDisk::at), ..self }
    }

    /// Gives all instances a clock that can be set.
    pub(crate) fn with_clock(self, clock: Option<FakedClock>) -> Self {
        Self { clock, ..self }
    }

    /// Returns `true` if a server has been starting for longer than [`STARTS_WITHIN`].
    pub(crate) fn waits_for_server(&self) -> bool {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.is_some_and(|since| since.elapsed() > STARTS_WITHIN)
    }

    /// Returns the record of faults and observations.
    pub(crate) async fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().await
    }

    /// Returns the service and process id of each instance without an ongoing fault.
    pub(crate) async fn processes(&self) -> Vec<(Service, u32)> {
        let running = self.running.lock().await;
        running.iter().filter_map(|(slot, instance)| Some((slot.service, instance.id()?))).collect()
    }

    /// Starts an instance in a directory, by default a new one.
    pub(crate) async fn start(&self, slot: Slot, dir: Option<PathBuf>) -> Result<()> {
        let number = self.dirs.fetch_add(1, Ordering::Relaxed);
        let dir = dir.unwrap_or_else(|| self.dir.join(format!("{slot}.{number}")));
        if let Some(disk) = &self.disk {
            disk.take_in(&dir)?;
        }
        let instance = self.cluster.start_in(slot.service, dir).await?;
        self.journal.note("started", json!({ "slot": slot.to_string(), "pid": instance.id() }));
        self.running.lock().await.insert(slot, instance);
        Ok(())
    }

    /// Waits until all instances are ready, and restarts those that end in the meantime: even before the first fault,
    /// processes that create tables concurrently may conflict.
    pub(crate) async fn ready(&self, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        let mut ticks = interval(POLL);
        loop {
            ticks.tick().await;
            self.supervise().await?;
            let mut waiting = vec![];
            for (slot, instance) in &*self.running.lock().await {
                // An instance that is just ending does not respond.
                if !instance.ask("/readyz").await.is_ok_and(|answer| answer.status == 200) {
                    waiting.push(slot.to_string());
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < end, "not ready within {within:?}: {}", waiting.join(", "));
        }
    }

    /// Runs a fault to its end. Failures are recorded as trouble.
    pub(crate) async fn suffer(&self, fault: Fault) {
        let Some(fault) = self.possible(fault) else { return self.journal.note("left out", json!(fault.to_string())) };
        self.journal.note("fault", json!(fault.to_string()));
        let (since, mut kind) = (SystemClock.now(), Some(fault.kind()));
        let done = match fault {
            Fault::Kill { slot, back_after_ms, keeps_state } => self.kill(slot, back_after_ms, keeps_state).await,
            Fault::OutOfMemory { slot, back_after_ms } => self.starve(slot, back_after_ms).await.map(|how| kind = how),
            Fault::DiskFull { for_ms } => self.fill_disk(for_ms).await,
            Fault::Clock { ahead, for_ms, returns } => self.set_clocks(ahead, for_ms, returns).await,
            Fault::Freeze { slot, for_ms } => self.freeze(slot, for_ms).await,
            Fault::Drain { slot, back_after_ms } => self.drain(slot, Some(back_after_ms)).await,
            Fault::Remove { slot } => self.drain(slot, None).await,
            Fault::Add { slot } => self.start(slot, None).await,
            Fault::Broker { node, killed, away_ms } => self.take_away(Server::Broker(node), killed, away_ms).await,
            Fault::Cql { away_ms } => self.take_away(Server::Cql, true, away_ms).await,
            Fault::NoFetchers { away_ms } => self.no_fetchers(away_ms).await,
            Fault::Cut { server, for_ms } => self.cut(&[server], for_ms).await,
            Fault::CutOff { slot, for_ms } => self.cut_off(slot, for_ms).await,
            Fault::Slow { by_ms, for_ms } => {
                self.network.delay(Duration::from_millis(by_ms));
                sleep(Duration::from_millis(for_ms)).await;
                self.network.delay(Duration::ZERO);
                Ok(())
            }
            Fault::Pause { for_ms } => self.pause(for_ms).await,
            Fault::Delete => delete_third(self, &self.start_url).await,
            Fault::Outages { times, for_ms, pause_ms } => self.outages(times, for_ms, pause_ms).await,
        };
        let mut tally = self.tally().await;
        // A deletion lasts as long as everything else.
        if fault != Fault::Delete {
            tally.faults_ms.push((since, SystemClock.now()));
        }
        if let Some(kind) = kind {
            *tally.faults.entry(kind).or_default() += 1;
        }
        drop(tally);
        match done {
            Ok(()) => self.journal.note("over", json!(fault.to_string())),
            Err(error) => self.trouble(format!("{fault}: {error:#}")).await,
        }
    }

    /// Records a problem of the run.
    pub(crate) async fn trouble(&self, what: String) {
        self.journal.note("trouble", json!(what));
        self.tally().await.troubles.push(what);
    }

    /// Restarts instances that ended by themselves, as a supervisor does.
    pub(crate) async fn supervise(&self) -> Result<()> {
        let mut ended = vec![];
        {
            let mut running = self.running.lock().await;
            let gone: Vec<_> =
                running.iter_mut().filter_map(|(slot, one)| one.still_runs().is_err().then_some(*slot)).collect();
            ended.extend(gone.into_iter().filter_map(|slot| running.remove_entry(&slot)));
        }
        for (slot, mut instance) in ended {
            let code = instance.end(ENDS_WITHIN).await?.code();
            let said = instance.last_words();
            self.journal.note("ended", json!({ "slot": slot.to_string(), "code": code, "said": said }));
            let exit = Exit { who: slot.to_string(), code, took_ms: None, servers_away: false };
            self.hurt(slot).await;
            self.tally().await.exits.push(exit);
            self.start(slot, Some(instance.dir().to_owned())).await?;
        }
        Ok(())
    }

    /// Stops all instances with SIGTERM, at the same time.
    pub(crate) async fn end(&self) {
        let all = std::mem::take(&mut *self.running.lock().await);
        let services: BTreeSet<Service> = all.keys().map(|slot| slot.service).collect();
        self.journal.note("end", json!({ "instances": all.len(), "services": services.len() }));
        for instance in all.values() {
            // An instance that has ended already is handled by the wait below.
            let _ = instance.signal(Signal::TERM);
        }
        let begun = Instant::now();
        for (slot, instance) in all {
            if let Err(error) = self.ended(slot, instance, begun).await {
                self.trouble(format!("{slot}: {error:#}")).await;
            }
        }
    }

    /// Removes an instance from the fleet. Waits if its last fault is not over yet, as happens on slow machines.
    async fn take(&self, slot: Slot) -> Result<Instance> {
        let end = Instant::now() + BUSY_FOR;
        let mut ticks = interval(POLL);
        loop {
            ticks.tick().await;
            if let Some(instance) = self.running.lock().await.remove(&slot) {
                return Ok(instance);
            }
            ensure!(Instant::now() < end, "{slot} is not running");
        }
    }

    async fn hurt(&self, slot: Slot) {
        self.tally().await.fetchers_hurt += u64::from(slot.service == Service::Fetcher);
    }

    async fn kill(&self, slot: Slot, back_after_ms: u64, keeps_state: bool) -> Result<()> {
        let instance = self.take(slot).await?;
        let dir = keeps_state.then(|| instance.dir().to_owned());
        self.hurt(slot).await;
        instance.kill().await?;
        sleep(Duration::from_millis(back_after_ms)).await;
        self.start(slot, dir).await
    }

    /// Returns the fault that is possible on this machine, if any: only root can create control groups and small disks.
    /// Omitted faults are not counted.
    fn possible(&self, fault: Fault) -> Option<Fault> {
        match fault {
            Fault::OutOfMemory { slot, back_after_ms } if NoMemory::make("probe").is_none() => {
                Some(Fault::Kill { slot, back_after_ms, keeps_state: true })
            }
            Fault::DiskFull { .. } if self.disk.is_none() => None,
            Fault::Clock { .. } if self.clock.is_none() => None,
            fault => Some(fault),
        }
    }

    /// Starves an instance of memory. Returns the resulting kind of fault, if any.
    async fn starve(&self, slot: Slot, back_after_ms: u64) -> Result<Option<&'static str>> {
        let mut instance = self.take(slot).await?;
        let dir = instance.dir().to_owned();
        self.hurt(slot).await;
        let group = NoMemory::make(&slot.to_string()).context("the control group")?;
        group.take_in(instance.id().unwrap_or_default())?;
        let kind = match instance.end(STARVES_WITHIN).await.map(|status| status.code()) {
            Ok(None) => Some("out_of_memory"),
            Ok(code) => {
                let exit = Exit { who: slot.to_string(), code, took_ms: None, servers_away: false };
                self.tally().await.exits.push(exit);
                None
            }
            Err(_) => {
                instance.kill().await?;
                Some("kill")
            }
        };
        sleep(Duration::from_millis(back_after_ms)).await;
        self.start(slot, Some(dir)).await?;
        Ok(kind)
    }

    async fn fill_disk(&self, for_ms: u64) -> Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        // An instance that ends in the meantime cannot finish its work in flight.
        let outage = self.begin_outage(false).await;
        disk.fill(for_ms).await?;
        self.end_outage(outage).await;
        Ok(())
    }

    async fn set_clocks(&self, ahead: bool, for_ms: u64, returns: bool) -> Result<()> {
        let Some(clock) = &self.clock else { return Ok(()) };
        let since = SystemClock.now();
        // An instance that is ending because of the clock and then receives SIGTERM reports that it did not finish.
        let outage = self.begin_outage(false).await;
        clock.set(if ahead { SHIFTS.1 } else { SHIFTS.0 })?;
        sleep(Duration::from_millis(for_ms)).await;
        if returns {
            clock.set("+0s")?;
        }
        // Instances that started in the meantime end once more.
        sleep(CLOCK_FOLLOWED_WITHIN).await;
        self.end_outage(outage).await;
        if for_ms > CLOCK_TOLERATED_MS {
            self.tally().await.clocks_ms.push((since, SystemClock.now()));
        }
        Ok(())
    }

    async fn freeze(&self, slot: Slot, for_ms: u64) -> Result<()> {
        let instance = self.take(slot).await?;
        self.hurt(slot).await;
        instance.signal(Signal::STOP)?;
        sleep(Duration::from_millis(for_ms)).await;
        instance.signal(Signal::CONT)?;
        self.running.lock().await.insert(slot, instance);
        Ok(())
    }

    async fn drain(&self, slot: Slot, back_after_ms: Option<u64>) -> Result<()> {
        let instance = self.take(slot).await?;
        let dir = instance.dir().to_owned();
        let begun = Instant::now();
        instance.signal(Signal::TERM)?;
        self.ended(slot, instance, begun).await?;
        let Some(back_after_ms) = back_after_ms else { return Ok(()) };
        sleep(Duration::from_millis(back_after_ms)).await;
        self.start(slot, Some(dir)).await
    }

    /// Waits for the end of an instance after SIGTERM.
    async fn ended(&self, slot: Slot, mut instance: Instance, begun: Instant) -> Result<()> {
        let from = SystemClock.now();
        let code = instance.end(ENDS_WITHIN).await?.code();
        let took_ms = u64::try_from(begun.elapsed().as_millis())?;
        let until = SystemClock.now();
        self.journal.note("ended", json!({ "slot": slot.to_string(), "code": code, "took_ms": took_ms }));
        if code != Some(0) {
            self.journal.note("said", json!({ "slot": slot.to_string(), "last": instance.last_words() }));
        }
        let mut tally = self.tally().await;
        let servers_away = tally.outages.iter().any(|(since, back)| *since <= until && from <= back + BACK_MS);
        tally.exits.push(Exit { who: slot.to_string(), code, took_ms: Some(took_ms), servers_away });
        Ok(())
    }

    async fn no_fetchers(&self, away_ms: u64) -> Result<()> {
        let mut slots = vec![];
        {
            let mut running = self.running.lock().await;
            let all: Vec<_> = running.keys().filter(|slot| slot.service == Service::Fetcher).copied().collect();
            for slot in all {
                if let Some(instance) = running.remove(&slot) {
                    instance.kill().await?;
                    slots.push(slot);
                }
            }
        }
        for slot in &slots {
            self.hurt(*slot).await;
        }
        sleep(Duration::from_millis(away_ms)).await;
        for slot in slots {
            self.start(slot, None).await?;
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "no stage runs in the gate's own process")]
    async fn take_away(&self, server: Server, killed: bool, away_ms: u64) -> Result<()> {
        let _alone = self.servers.lock().await;
        let outage = self.begin_outage(server != Server::Cql).await;
        let signal = if killed { "KILL" } else { "TERM" };
        tokio::task::block_in_place(|| self.stack.stop(&node(server), signal))?;
        sleep(Duration::from_millis(away_ms)).await;
        *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let started = tokio::task::block_in_place(|| self.stack.start(&node(server)));
        *self.starts.lock().unwrap_or_else(PoisonError::into_inner) = None;
        started?;
        self.end_outage(outage).await;
        Ok(())
    }

    async fn cut(&self, servers: &[Server], for_ms: u64) -> Result<()> {
        let _alone = self.servers.lock().await;
        let outage = self.begin_outage(servers != [Server::Cql]).await;
        servers.iter().for_each(|server| self.network.cut(*server));
        sleep(Duration::from_millis(for_ms)).await;
        servers.iter().for_each(|server| self.network.restore(*server));
        self.end_outage(outage).await;
        Ok(())
    }

    /// Pauses the second crawl. It is certainly paused from half a session and a second after the answer of the command on: an
    /// instance that is cut off sends for half a session.
    async fn pause(&self, for_ms: u64) -> Result<()> {
        control_second(self, "pause").await?;
        let since = SystemClock.now() + Millis::try_from(SESSION.as_millis())? / 2 + 1_000;
        sleep(Duration::from_millis(for_ms)).await;
        self.tally().await.paused_ms.push((since, SystemClock.now()));
        control_second(self, "resume").await
    }

    async fn outages(&self, times: u32, for_ms: u64, pause_ms: u64) -> Result<()> {
        let servers = self.network.servers();
        for _ in 0..times {
            self.cut(&servers, for_ms).await?;
            sleep(Duration::from_millis(pause_ms)).await;
        }
        Ok(())
    }

    async fn cut_off(&self, slot: Slot, for_ms: u64) -> Result<()> {
        let instance = self.take(slot).await?;
        self.hurt(slot).await;
        // An instance that has ended in the meantime is noticed once it is back in the fleet.
        let process = instance.id();
        if let Some(id) = process {
            self.network.cut_off(id).await;
        }
        sleep(Duration::from_millis(for_ms)).await;
        process.into_iter().for_each(|id| self.network.reconnect(id));
        self.running.lock().await.insert(slot, instance);
        Ok(())
    }

    /// Records the start of an outage. In a broker outage, the work in flight of fetchers may go to others.
    async fn begin_outage(&self, of_broker: bool) -> usize {
        let since = SystemClock.now();
        let fetchers = self.running.lock().await.keys().filter(|slot| slot.service == Service::Fetcher).count();
        let mut tally = self.tally().await;
        // Two more may be in the middle of a fault of their own.
        tally.fetchers_cut_off += if of_broker { fetchers as u64 + 2 } else { 0 };
        tally.outages.push((since, Millis::MAX - BACK_MS));
        tally.outages.len() - 1
    }

    async fn end_outage(&self, outage: usize) {
        if let Some(outage) = self.tally().await.outages.get_mut(outage) {
            outage.1 = SystemClock.now();
        }
    }
}
