//! Liveness and readiness of the process.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use orbweaver_stage::RunnerStatus;
use serde::Serialize;
use tokio::time::Instant;

/// Names of the servers.
pub(crate) const LOG: &str = "log";
pub(crate) const STORE: &str = "store";

/// Phase of the process lifecycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Log or store are not connected yet.
    Starting,
    /// The stage runs.
    Serving,
    /// The process is shutting down.
    Stopping,
}

/// Result of the last check of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reachability {
    /// Not checked yet.
    Unknown,
    /// The server answered.
    Yes,
    /// The server did not answer; contains the reason.
    No(String),
}

/// State from which probes are answered.
#[derive(Debug, Clone)]
struct State {
    phase: Phase,
    serving_since: Option<Instant>,
    /// The servers that the service uses.
    servers: Vec<(&'static str, Reachability)>,
}

/// Reason for a failed probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Reason {
    /// Component of the process.
    pub(crate) what: &'static str,
    /// Problem of the component.
    pub(crate) why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ProbeResult {
    /// `true` if the probe succeeds.
    pub(crate) ok: bool,
    pub(crate) phase: Phase,
    /// Reasons for a failure.
    pub(crate) reasons: Vec<Reason>,
    /// Number of open partitions.
    pub(crate) partitions: usize,
}

/// Health of the process: written by its components, read by probes.
#[derive(Debug)]
pub(crate) struct Health {
    pulse: Arc<RunnerStatus>,
    state: Mutex<State>,
    /// `None` for a service without an event loop.
    stall_after: Option<Duration>,
}

impl Health {
    /// Creates the health of a starting process; liveness fails when the event loop has stalled for `stall_after`. A
    /// service without a log has none.
    pub(crate) fn new(stall_after: Duration, has_log: bool, has_store: bool) -> Self {
        let stall_after = has_log.then_some(stall_after);
        let servers = has_log.then_some(LOG).into_iter().chain(has_store.then_some(STORE));
        let servers = servers.map(|server| (server, Reachability::Unknown)).collect();
        let state = State { phase: Phase::Starting, serving_since: None, servers };
        Self { pulse: Arc::default(), state: Mutex::new(state), stall_after }
    }

    pub(crate) fn pulse(&self) -> Arc<RunnerStatus> {
        self.pulse.clone()
    }

    /// Records the start of the stage.
    pub(crate) fn joins(&self) {
        let mut state = self.state();
        if state.phase == Phase::Starting {
            state.phase = Phase::Serving;
            state.serving_since = Some(Instant::now());
        }
    }

    /// Records the start of the shutdown.
    pub(crate) fn stops(&self) {
        self.state().phase = Phase::Stopping;
    }

    /// Records a check of [`LOG`] or [`STORE`].
    pub(crate) fn checked(&self, server: &'static str, now: Reachability) {
        let mut state = self.state();
        let known = state.servers.iter_mut().find(|(name, _)| *name == server);
        let change = known.map(|(_, known)| (std::mem::replace(known, now), known.clone()));
        drop(state);
        if let Some((before, now)) = change {
            log_change(server, &before, &now);
        }
    }

    /// Reports whether the event loop runs.
    pub(crate) fn live(&self, now: Instant) -> ProbeResult {
        let state = self.state().clone();
        let since = self.pulse.turned_at().or(state.serving_since);
        let still = since.map_or(Duration::ZERO, |since| now.duration_since(since));
        let reasons = self
            .stall_after
            .is_some_and(|stall_after| still >= stall_after)
            .then(|| Reason { what: "loop", why: format!("it has completed no iteration for {} s", still.as_secs()) });
        self.verdict(state.phase, reasons.into_iter().collect())
    }

    /// Reports whether the process does its work: log and store are available, and no partition is being restored.
    pub(crate) fn ready(&self, now: Instant) -> ProbeResult {
        let mut reasons = self.live(now).reasons;
        let state = self.state().clone();
        match state.phase {
            Phase::Serving => {}
            Phase::Starting => reasons.push(Reason { what: "process", why: "it is starting".to_owned() }),
            Phase::Stopping => reasons.push(Reason { what: "process", why: "it is shutting down".to_owned() }),
        }
        for (what, reached) in state.servers {
            match reached {
                Reachability::Yes => {}
                Reachability::Unknown => reasons.push(Reason { what, why: "it has not answered yet".to_owned() }),
                Reachability::No(why) => reasons.push(Reason { what, why }),
            }
        }
        let (_, restoring) = self.pulse.partitions();
        if restoring > 0 {
            reasons.push(Reason { what: "partitions", why: format!("{restoring} are being restored") });
        }
        self.verdict(state.phase, reasons)
    }

    /// Returns each server with whether it answered the last check.
    pub(crate) fn reached(&self) -> Vec<(&'static str, bool)> {
        self.state().servers.iter().map(|(server, reached)| (*server, *reached == Reachability::Yes)).collect()
    }

    fn verdict(&self, phase: Phase, reasons: Vec<Reason>) -> ProbeResult {
        ProbeResult { ok: reasons.is_empty(), phase, reasons, partitions: self.pulse.partitions().0 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs when a server becomes unavailable and when it recovers, once each.
fn log_change(server: &'static str, before: &Reachability, now: &Reachability) {
    match (before, now) {
        (Reachability::No(_), Reachability::No(_)) => {}
        (_, Reachability::No(why)) => {
            tracing::warn!(server, why, "a server is unavailable; work resumes once it answers");
        }
        (Reachability::No(_), Reachability::Yes) => tracing::info!(server, "a server is available again"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whys(verdict: &ProbeResult) -> Vec<&str> {
        verdict.reasons.iter().map(|reason| reason.what).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_is_ready_when_all_is_reached_and_not_before_or_after() {
        let health = Health::new(Duration::from_secs(60), true, true);
        assert_eq!(whys(&health.ready(Instant::now())), ["process", "log", "store"]);
        health.joins();
        health.checked(LOG, Reachability::Yes);
        health.checked(STORE, Reachability::Yes);
        assert!(health.ready(Instant::now()).ok);
        health.checked(STORE, Reachability::No("connection refused".to_owned()));
        let verdict = health.ready(Instant::now());
        assert_eq!(verdict.reasons, [Reason { what: "store", why: "connection refused".to_owned() }]);
        assert!(health.live(Instant::now()).ok, "an unavailable server is no reason for a restart");
        health.checked(STORE, Reachability::Yes);
        assert!(health.ready(Instant::now()).ok, "and back");
        health.stops();
        health.joins();
        assert_eq!(whys(&health.ready(Instant::now())), ["process"], "what ends does not begin again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_without_a_store_does_not_wait_for_one() {
        let health = Health::new(Duration::from_secs(60), true, false);
        health.joins();
        health.checked(LOG, Reachability::Yes);
        assert!(health.ready(Instant::now()).ok);
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_without_a_log_has_no_loop_that_could_stall_and_waits_for_its_store_alone() {
        let health = Health::new(Duration::from_secs(60), false, true);
        health.joins();
        assert_eq!(whys(&health.ready(Instant::now())), ["store"]);
        health.checked(LOG, Reachability::No("no broker answers".to_owned()));
        health.checked(STORE, Reachability::Yes);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(health.live(Instant::now()).ok && health.ready(Instant::now()).ok);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_does_not_turn_is_dead_and_a_process_that_still_starts_is_not() {
        let health = Health::new(Duration::from_secs(60), true, false);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(health.live(Instant::now()).ok, "brokers may be unavailable for long at the start");
        health.joins();
        tokio::time::advance(Duration::from_secs(59)).await;
        assert!(health.live(Instant::now()).ok);
        tokio::time::advance(Duration::from_secs(1)).await;
        let verdict = health.live(Instant::now());
        assert_eq!((verdict.ok, whys(&verdict)), (false, vec!["loop"]));
        assert!(!health.ready(Instant::now()).ok);
    }
}
