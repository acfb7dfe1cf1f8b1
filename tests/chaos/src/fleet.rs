//! The processes of a run, and what is done to them and to the servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use orbweaver_cluster_tests::{Cluster, Instance, Service};
use orbweaver_messages::Millis;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_testkit::Stack;
use rustix::process::Signal;
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, interval, sleep};

use crate::clock::FakedClock;
use crate::journal::Journal;
use crate::proxy::Network;
use crate::scarcity::{NoMemory, SmallDisk};
use crate::schedule::{Fault, Server, Slot};
use crate::verdict::Exit;

/// How long the end of a process is waited for; what counts as too long is the verdict's business.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// How long an instance may be busy with its last fault when the next one comes.
const BUSY_FOR: Duration = Duration::from_secs(60);
/// How long a process may run without more memory before it is killed (-9): one that is idle needs none.
const STARVES_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take until all processes have followed a clock that was set.
const CLOCK_FOLLOWED_WITHIN: Duration = Duration::from_secs(35);
/// How often a state is looked at.
const POLL: Duration = Duration::from_millis(300);
/// How long a server may take to start before further faults wait for it: when most brokers are away nothing moves, and nothing
/// can be hurt.
const STARTS_WITHIN: Duration = Duration::from_secs(10);
/// How long after its return a server still counts as away: clients come back by and by.
const BACK_MS: Millis = 10_000;

/// The name of a server for `tests/stack`.
fn node(server: Server) -> String {
    match server {
        Server::Broker(node) => node.to_string(),
        Server::Cql => "cql".to_owned(),
    }
}

/// What has been done and seen so far.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Faults by kind.
    pub(crate) faults: BTreeMap<&'static str, u32>,
    /// Fetchers that were killed or frozen, or that ended by themselves.
    pub(crate) fetchers_hurt: u64,
    /// Fetchers that were there when a broker went away.
    pub(crate) fetchers_cut_off: u64,
    /// Ends of processes.
    pub(crate) exits: Vec<Exit>,
    /// What went wrong with the run itself.
    pub(crate) troubles: Vec<String>,
    /// Start and end of each fault.
    pub(crate) faults_ms: Vec<(Millis, Millis)>,
    /// Since when and until when a server was away.
    outages: Vec<(Millis, Millis)>,
}

/// Instances of all services, and the servers below them.
pub(crate) struct Fleet {
    /// Topics and keyspace.
    pub(crate) cluster: Cluster,
    /// The servers.
    pub(crate) stack: Stack,
    /// The network between them and the services.
    network: Network,
    /// What happens is noted here.
    pub(crate) journal: Journal,
    folder: PathBuf,
    /// The disk with their states, if one could be mounted.
    disk: Option<SmallDisk>,
    /// Their wall clock, if one that can be set was found.
    clock: Option<FakedClock>,
    /// Those that nobody is disturbing.
    running: Mutex<BTreeMap<Slot, Instance>>,
    tally: Mutex<Tally>,
    /// Held while a server is away, so that one is away at a time, however long it takes to come back.
    servers: Mutex<()>,
    /// Since when a server starts.
    starts: std::sync::Mutex<Option<Instant>>,
    folders: AtomicU64,
}

impl Fleet {
    /// A fleet without instances; their folders are made in `folder`.
    #[must_use]
    pub(crate) fn new(cluster: Cluster, stack: Stack, network: Network, journal: Journal, folder: PathBuf) -> Self {
        let (disk, clock) = (None, None);
        let (running, tally, servers) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (starts, folders) = (std::sync::Mutex::default(), AtomicU64::new(1));
        Self { cluster, stack, network, journal, folder, disk, clock, running, tally, servers, starts, folders }
    }

    /// Puts the states of all instances on a small disk.
    #[must_use]
    pub(crate) fn with_disk(self, disk: Option<PathBuf>) -> Self {
        Self { disk: disk.map(SmallDisk::at), ..self }
    }

    /// Gives all instances a clock that can be set.
    #[must_use]
    pub(crate) fn with_clock(self, clock: Option<FakedClock>) -> Self {
        Self { clock, ..self }
    }

    /// Whether a server takes longer to start than it should.
    pub(crate) fn waits_for_server(&self) -> bool {
        let starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.is_some_and(|since| since.elapsed() > STARTS_WITHIN)
    }

    /// What has been done and seen.
    pub(crate) async fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().await
    }

    /// The instances that nobody is disturbing.
    pub(crate) async fn processes(&self) -> Vec<(Service, u32)> {
        let running = self.running.lock().await;
        running.iter().filter_map(|(slot, instance)| Some((slot.service, instance.id()?))).collect()
    }

    /// Starts an instance in a folder, a new one if none is given.
    ///
    /// # Errors
    /// When it does not start.
    pub(crate) async fn start(&self, slot: Slot, folder: Option<PathBuf>) -> Result<()> {
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        let folder = folder.unwrap_or_else(|| self.folder.join(format!("{slot}.{number}")));
        if let Some(disk) = &self.disk {
            disk.take_in(&folder)?;
        }
        let instance = self.cluster.start_in(slot.service, folder).await?;
        self.journal.note("started", json!({ "slot": slot.to_string(), "pid": instance.id() }));
        self.running.lock().await.insert(slot, instance);
        Ok(())
    }

    /// Waits until all instances are ready. One that ends meanwhile is started again: before the first fault, too, processes
    /// that make tables at the same time may be in each other's way.
    ///
    /// # Errors
    /// When they are not in time.
    pub(crate) async fn ready(&self, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        let mut ticks = interval(POLL);
        loop {
            ticks.tick().await;
            self.supervise().await?;
            let mut waiting = vec![];
            for (slot, instance) in &*self.running.lock().await {
                // One that ends just now does not answer.
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

    /// Does what a fault says, to its end. What does not work is noted as trouble.
    pub(crate) async fn suffer(&self, fault: Fault) {
        let Some(fault) = self.possible(fault) else { return self.journal.note("left out", json!(fault.to_string())) };
        self.journal.note("fault", json!(fault.to_string()));
        let (since, mut kind) = (SystemClock.now(), Some(fault.kind()));
        let done = match fault {
            Fault::Kill { slot, back_after_ms, keeps_state } => self.kill(slot, back_after_ms, keeps_state).await,
            Fault::OutOfMemory { slot, back_after_ms } => self.starve(slot, back_after_ms).await.map(|how| kind = how),
            Fault::DiskFull { for_ms } => self.fill_disk(for_ms).await,
            Fault::ClockBack { for_ms } => self.set_back(for_ms).await,
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
            Fault::Outages { times, for_ms, pause_ms } => self.outages(times, for_ms, pause_ms).await,
        };
        let mut tally = self.tally().await;
        tally.faults_ms.push((since, SystemClock.now()));
        if let Some(kind) = kind {
            *tally.faults.entry(kind).or_default() += 1;
        }
        drop(tally);
        match done {
            Ok(()) => self.journal.note("over", json!(fault.to_string())),
            Err(error) => self.trouble(format!("{fault}: {error:#}")).await,
        }
    }

    /// Notes what should not be.
    pub(crate) async fn trouble(&self, what: String) {
        self.journal.note("trouble", json!(what));
        self.tally().await.troubles.push(what);
    }

    /// Starts again what ended by itself, as a supervisor does.
    ///
    /// # Errors
    /// When it does not start.
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
            self.start(slot, Some(instance.folder().to_owned())).await?;
        }
        Ok(())
    }

    /// Ends all instances with SIGTERM, at once.
    pub(crate) async fn end(&self) {
        let all = std::mem::take(&mut *self.running.lock().await);
        let services: BTreeSet<Service> = all.keys().map(|slot| slot.service).collect();
        self.journal.note("end", json!({ "instances": all.len(), "services": services.len() }));
        for instance in all.values() {
            // One that has ended already is found when it is waited for.
            let _ = instance.signal(Signal::TERM);
        }
        let begun = Instant::now();
        for (slot, instance) in all {
            if let Err(error) = self.ended(slot, instance, begun).await {
                self.trouble(format!("{slot}: {error:#}")).await;
            }
        }
    }

    /// Takes an instance out of the fleet. One whose last fault is not over yet, on a machine that is slow, is waited for.
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
        let folder = keeps_state.then(|| instance.folder().to_owned());
        self.hurt(slot).await;
        instance.kill().await?;
        sleep(Duration::from_millis(back_after_ms)).await;
        self.start(slot, folder).await
    }

    /// The fault that is possible here, if any: only root can make control groups and small disks. Faults that do not happen are
    /// not counted.
    fn possible(&self, fault: Fault) -> Option<Fault> {
        match fault {
            Fault::OutOfMemory { slot, back_after_ms } if NoMemory::make("probe").is_none() => {
                Some(Fault::Kill { slot, back_after_ms, keeps_state: true })
            }
            Fault::DiskFull { .. } if self.disk.is_none() => None,
            Fault::ClockBack { .. } if self.clock.is_none() => None,
            fault => Some(fault),
        }
    }

    /// The kind of fault that this became, if any.
    async fn starve(&self, slot: Slot, back_after_ms: u64) -> Result<Option<&'static str>> {
        let mut instance = self.take(slot).await?;
        let dir = instance.folder().to_owned();
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
        // An instance that ends meanwhile cannot finish its work in flight.
        let outage = self.begin_outage(false).await;
        disk.fill(for_ms).await?;
        self.end_outage(outage).await;
        Ok(())
    }

    async fn set_back(&self, for_ms: u64) -> Result<()> {
        let Some(clock) = &self.clock else { return Ok(()) };
        // An instance that is ending because of it, and then receives SIGTERM, reports that it did not finish.
        let outage = self.begin_outage(false).await;
        clock.set("-3600s")?;
        sleep(Duration::from_millis(for_ms)).await;
        clock.set("+0s")?;
        // Those that began in the meantime end once more.
        sleep(CLOCK_FOLLOWED_WITHIN).await;
        self.end_outage(outage).await;
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
        let folder = instance.folder().to_owned();
        let begun = Instant::now();
        instance.signal(Signal::TERM)?;
        self.ended(slot, instance, begun).await?;
        let Some(back_after_ms) = back_after_ms else { return Ok(()) };
        sleep(Duration::from_millis(back_after_ms)).await;
        self.start(slot, Some(folder)).await
    }

    /// Waits for the end of an instance that was told to end.
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
        servers.iter().for_each(|server| self.network.mend(*server));
        self.end_outage(outage).await;
        Ok(())
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
        // One that has ended meanwhile is found when it is back among the others.
        let process = instance.id();
        if let Some(id) = process {
            self.network.cut_off(id).await;
        }
        sleep(Duration::from_millis(for_ms)).await;
        process.into_iter().for_each(|id| self.network.reconnect(id));
        self.running.lock().await.insert(slot, instance);
        Ok(())
    }

    /// A server goes away; with a broker, the work that fetchers have in flight may be given to others.
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
