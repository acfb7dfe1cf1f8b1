//! Watches a crawl until it ends: by itself, at a cap, by the user, or because something failed.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use orbweaver_log::Log;
use orbweaver_messages::{Topic, topic};
use orbweaver_stage::completion::{GroupTopic, OffsetSnapshot, PartitionOffsets};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    console::Console,
    pipeline::{Pipeline, collectors},
    progress::{Progress, Snapshot},
    settings::Settings,
    summary::EndedBy,
};
use crate::{
    cli::Rate,
    exit::{Failure, failed},
    export::rfc3339,
};

/// Interval between two offset snapshots; two must agree.
const READ_EVERY: Duration = Duration::from_millis(50);
/// Interval between two updates of the display.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// End of a crawl: its reason, or the error of the part that failed.
pub type End = Result<EndedBy, String>;

/// Watches until the crawl ends.
pub(super) async fn watch(
    pipeline: &mut Pipeline,
    settings: &Settings,
    max_time: Option<Duration>,
    progress: &mut Progress,
    mut console: Option<&mut Console>,
) -> Result<End, Failure> {
    let uncaught = |error| failed(format!("signal handlers cannot be installed: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(uncaught)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(uncaught)?;
    let begun = Instant::now();
    let log: Arc<dyn Log> = pipeline.log.clone();
    // The archiver closes its files when all else is at rest.
    let others = || collectors(settings).filter(|(group, _)| *group != orbweaver_archiver::SERVICE);
    let mut whole = Completion::of(others(), |_| true);
    // At the cap, URLs may stay queued in the frontier; all other topics must be consumed.
    let mut rest = Completion::of(others(), |topic| topic != topic::FRONTIER);
    let mut archived = Completion::of(collectors(settings), |topic| topic == topic::PAGES);
    let mut shown = Instant::now();
    let mut read = tokio::time::interval(READ_EVERY);
    read.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            _ = interrupt.recv() => return Ok(Ok(EndedBy::Interrupted)),
            _ = terminate.recv() => return Ok(Ok(EndedBy::Interrupted)),
            () = stopped(console.as_deref()) => return Ok(Ok(EndedBy::Interrupted)),
            failure = pipeline.failure() => return Ok(Err(failure)),
            _ = read.tick() => {}
        }
        let figures = pipeline.frontier.figures();
        let read = (figures.waiting == 0 && figures.asleep > 0).then_some(figures.read);
        let end = match whole.look(&*log, read).await? {
            Rest::Complete => Some(EndedBy::Complete),
            Rest::Asleep => Some(EndedBy::Asleep),
            Rest::No if figures.is_capped && rest.is_proven(&*log).await? => {
                let is_of_pages = settings.max_pages.is_some_and(|max| figures.pages >= max);
                Some(if is_of_pages { EndedBy::MaxPages } else { EndedBy::Capped })
            }
            Rest::No => None,
        };
        if let Some(end) = end {
            if archived.is_proven(&*log).await? {
                return Ok(Ok(end));
            }
            pipeline.close_archive();
        }
        if max_time.is_some_and(|max| begun.elapsed() >= max) {
            return Ok(Ok(EndedBy::MaxTime));
        }
        if shown.elapsed() >= SHOW_EVERY {
            shown = Instant::now();
            let snapshot = snapshot(pipeline, settings, begun.elapsed());
            progress.show(&snapshot);
            if let Some(console) = &mut console {
                console.show(&snapshot, settings).await?;
            }
        }
    }
}

/// Waits until a user of the console stops the crawl.
async fn stopped(console: Option<&Console>) {
    match console {
        Some(console) => console.stopped().await,
        None => std::future::pending().await,
    }
}

/// Takes offset snapshots until two of them prove that nothing is left.
pub(crate) struct Completion {
    declared: Vec<GroupTopic>,
    last: Option<OffsetSnapshot>,
}

impl Completion {
    /// Creates the check for the groups of the pipeline, as declared in `schemas/topics`, and those that collect its
    /// results. Only some topics count.
    pub(crate) fn of<'a>(
        collectors: impl IntoIterator<Item = (&'a str, &'a [Topic])>,
        counts: impl Fn(Topic) -> bool,
    ) -> Self {
        Self { declared: Self::declared(collectors, counts), last: None }
    }

    /// Returns the groups of the pipeline and these collectors, with each of their topics that counts.
    pub(crate) fn declared<'a>(
        collectors: impl IntoIterator<Item = (&'a str, &'a [Topic])>,
        counts: impl Fn(Topic) -> bool,
    ) -> Vec<GroupTopic> {
        let groups = topic::groups().iter().map(|(group, topics)| (*group, &**topics)).chain(collectors);
        let pairs = groups.flat_map(|(group, topics)| topics.iter().map(move |topic| (group, *topic)));
        let declared = pairs.filter(|(_, topic)| counts(*topic));
        declared.map(|(group, topic)| GroupTopic { group: group.to_owned(), topic }).collect()
    }

    pub(crate) async fn is_proven(&mut self, log: &dyn Log) -> Result<bool, Failure> {
        Ok(self.look(log, None).await? == Rest::Complete)
    }

    /// Takes a snapshot. `read`: the frontier has no URL that does not sleep, and has read this number of records of
    /// `crawl.frontier`, as determined after the last snapshot.
    async fn look(&mut self, log: &dyn Log, read: Option<u64>) -> Result<Rest, Failure> {
        let reading = OffsetSnapshot::take(log, &self.declared).await.map_err(failed)?;
        let of_frontier = |at: &PartitionOffsets| at.tp.topic == topic::FRONTIER;
        let ends = || reading.pairs.iter().flat_map(|(_, at)| at).filter(|at| of_frontier(at)).map(|at| at.end);
        let rest = match &self.last {
            Some(first) if reading.confirms_completion(first) => Rest::Complete,
            // No log end moved between the snapshots: in between, all records were read, and what they queue sleeps.
            Some(first) if read == Some(ends().sum()) && reading.confirms_quiescence(first, of_frontier) => {
                Rest::Asleep
            }
            _ => Rest::No,
        };
        self.last = Some(reading);
        Ok(rest)
    }
}

/// Whether a crawl is at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    No,
    /// All URLs sleep until their next visit.
    Asleep,
    Complete,
}

fn snapshot(pipeline: &Pipeline, settings: &Settings, elapsed: Duration) -> Snapshot {
    Snapshot {
        elapsed,
        tally: pipeline.exported.tally(),
        frontier: pipeline.frontier.figures(),
        in_flight: pipeline.in_flight.load(Ordering::Relaxed),
        blocked: pipeline.limiter.blocked(),
        why: why(pipeline, settings),
    }
}

/// Returns the reason why the crawl is not faster, if there is one that the user should know.
fn why(pipeline: &Pipeline, settings: &Settings) -> Option<String> {
    let blocked = pipeline.limiter.blocked();
    if let Some(until) = blocked.soonest_ms {
        let sites = if blocked.count > 1 { format!(" and {} more", blocked.count - 1) } else { String::new() };
        let name = blocked.names.first().map(String::as_str).unwrap_or_default();
        return Some(format!(
            "paused after 429, 503 or a challenge: {name}{sites}; next request at {}",
            rfc3339(until)
        ));
    }
    let waiting = pipeline.frontier.figures().waiting;
    let in_flight = pipeline.in_flight.load(Ordering::Relaxed);
    match settings.rate {
        Rate::PerSecond(rate) if waiting > in_flight => {
            let requests = match rate {
                1.0 => "1 request per second".to_owned(),
                rate => format!("{rate} requests per second"),
            };
            Some(format!("limited to {requests} per site; --rate changes it"))
        }
        _ => None,
    }
}
