//! `orbweaver status --crawl`: one crawl, and the proof that it is complete while others run.

use std::time::{Duration, Instant};

use orbweaver_log::Log;
use orbweaver_messages::Millis;
use orbweaver_stage::{
    Clock as _, SystemClock,
    crawl_completion::{CrawlCompletion, CrawlProgress, CrawlTotals},
};
use orbweaver_url::CrawlName;

use super::{
    args::StatusArgs,
    caps::Caps,
    crawls::{Shown, missing},
};
use crate::{
    exit::{Failure, failed},
    output::{json_line, to_stdout},
};

/// Time between two steps of the proof.
const EVERY: Duration = Duration::from_millis(500);
/// Time after which a crawl that is not complete is probed again, in milliseconds; each probe is a record per partition.
const PROBE_EVERY_MS: Millis = 5_000;

/// Runs `orbweaver status --crawl`.
///
/// # Errors
/// Fails if there is no such crawl, the log cannot be read, or the time is up before the crawl is complete.
pub(super) async fn run(log: &dyn Log, name: &CrawlName, args: &StatusArgs) -> Result<(), Failure> {
    let mut proof = CrawlProof::new(name);
    proof.read(log).await?;
    if proof.caps.definitions().applied(name).is_none() {
        return Err(missing(name, None));
    }
    let complete = if args.wait {
        let waited = tokio::select! {
            waited = wait(&mut proof, log, args.max_time) => waited,
            _ = tokio::signal::ctrl_c() => Err(Failure::Stopped("stopped waiting; the services continue".to_owned())),
        };
        proof.end(log).await?;
        waited?
    } else {
        None
    };
    let Some(applied) = proof.caps.definitions().applied(name) else { return Err(missing(name, None)) };
    let mut shown = Shown::of(&proof.caps, applied);
    shown.complete = args.wait.then_some(complete.is_some());
    if let Some(totals) = complete {
        shown.set_totals(totals);
    }
    to_stdout(|out| if args.json { json_line(out, &shown) } else { writeln!(out, "{}", shown.status()) })?;
    match complete {
        None if args.wait => {
            Err(Failure::Stopped(format!("--max-time was reached, and the crawl `{name}` is not complete")))
        }
        _ => Ok(()),
    }
}

/// Waits until the crawl is complete, and returns its counts; `None` if the time is up before.
async fn wait(
    proof: &mut CrawlProof,
    log: &dyn Log,
    max_time: Option<Duration>,
) -> Result<Option<CrawlTotals>, Failure> {
    let begun = Instant::now();
    while max_time.is_none_or(|most| begun.elapsed() < most) {
        tokio::time::sleep(EVERY).await;
        if let Some(totals) = proof.step(log).await? {
            return Ok(Some(totals));
        }
    }
    Ok(None)
}

/// Repeated observation of a crawl.
pub(super) struct CrawlProof {
    name: CrawlName,
    caps: Caps,
    completion: CrawlCompletion,
    /// Time before which the crawl is not probed again.
    rests_until_ms: Millis,
    /// Whether the crawl is complete once all its URLs sleep until their next visit.
    ends_asleep: bool,
}

impl CrawlProof {
    pub(super) fn new(name: &CrawlName) -> Self {
        let completion = CrawlCompletion::new(name.clone());
        Self { name: name.clone(), caps: Caps::default(), completion, rests_until_ms: 0, ends_asleep: true }
    }

    /// Makes it a proof that nothing of the crawl follows: one with revisits never ends, unless it is stopped.
    pub(super) fn of_the_end(self) -> Self {
        Self { ends_asleep: false, ..self }
    }

    fn has_revisits(&self) -> bool {
        let applied = self.caps.definitions().applied(&self.name);
        applied.is_some_and(|applied| applied.definition.revisit.is_some() && !applied.definition.stopped)
    }

    async fn read(&mut self, log: &dyn Log) -> Result<(), Failure> {
        self.caps.update(log, |record| self.completion.apply(record)).await
    }

    /// Takes the next step. Returns the counts of the crawl once it is complete.
    pub(super) async fn step(&mut self, log: &dyn Log) -> Result<Option<CrawlTotals>, Failure> {
        self.read(log).await?;
        let now = SystemClock.now();
        if now < self.rests_until_ms || !self.ends_asleep && self.has_revisits() {
            return Ok(None);
        }
        // The URLs of a paused crawl are not held by its cap alone.
        let at_cap = self.caps.is_at_cap(&self.name) && !self.caps.paused().contains(&self.name);
        match self.completion.step(log, now, at_cap).await.map_err(failed)? {
            CrawlProgress::Complete(totals) => Ok(Some(totals)),
            CrawlProgress::Running { .. } => {
                self.rests_until_ms = now.saturating_add(PROBE_EVERY_MS);
                Ok(None)
            }
            CrawlProgress::Unproven => Ok(None),
        }
    }

    /// Removes what the proof has written.
    pub(super) async fn end(&self, log: &dyn Log) -> Result<(), Failure> {
        self.completion.end(log, SystemClock.now()).await.map_err(failed)
    }
}
