//! Figures of a crawl as the console shows them. Pure, except for the lags.

use std::{collections::VecDeque, time::Duration};

use orbweaver_log::Log;
use orbweaver_messages::{Millis, Topic};
use orbweaver_stage::{
    Clock as _, SystemClock,
    completion::{GroupTopic, OffsetSnapshot},
};
use orbweaver_urlstore::live::{Action, Blocked, CrawlState, Overview, SiteQueue, StageLag};

use super::{controls::Wishes, crawl};
use crate::{
    crawl::{
        monitor::Completion,
        pipeline::collectors,
        progress::{Snapshot, Speed},
        settings::Settings,
        summary::{EndedBy, Summary},
    },
    exit::{Failure, failed},
    export::rfc3339,
};

/// Interval between two figures.
const EVERY: Duration = Duration::from_secs(1);
/// Number of figures in the history.
const HISTORY: usize = 300;
/// Services in the order of the flow.
const FLOW: [&str; 7] =
    ["normalizer-dedup", "frontier", "rate-limiter", "fetcher", "extractor", "archiver", crate::export::GROUP];

/// Figures that do not change during a run, and the history.
pub(super) struct Figures {
    name: String,
    started_at: Millis,
    shown: Option<Duration>,
    speed: Speed,
    history: VecDeque<(u64, u64, u64)>,
}

impl Figures {
    pub(super) fn new(name: String) -> Self {
        let (speed, history) = (Speed::default(), VecDeque::with_capacity(HISTORY));
        Self { name, started_at: SystemClock.now(), shown: None, speed, history }
    }

    /// Returns `true` if figures were made within the last second, measured from the start of this run.
    pub(super) fn are_recent(&self, elapsed: Duration) -> bool {
        self.shown.is_some_and(|shown| elapsed < shown + EVERY)
    }

    /// Returns the figures before those of the services are known.
    pub(super) fn first(&mut self, wishes: &Wishes) -> Overview {
        let figures = self.of(&Snapshot::default(), vec![], 0, wishes);
        self.shown = None;
        self.history.clear();
        figures
    }

    /// Returns the figures of a snapshot.
    pub(super) fn of(&mut self, at: &Snapshot, stages: Vec<StageLag>, dead_letters: u64, wishes: &Wishes) -> Overview {
        let now = SystemClock.now();
        let Snapshot { elapsed, tally, frontier, blocked, .. } = at;
        self.shown = Some(*elapsed);
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((u64::try_from(now / 1000).unwrap_or(0), tally.fetched, frontier.waiting));
        let queue =
            |load: &orbweaver_frontier::SiteLoad| SiteQueue { site: load.site.to_string(), queued: load.waiting };
        Overview {
            name: self.name.clone(),
            crawl: crawl().to_string(),
            state: if wishes.is_paused() { CrawlState::Paused } else { CrawlState::Running },
            ended_by: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: Some(rfc3339(self.started_at)),
            now: rfc3339(now),
            elapsed_seconds: elapsed.as_secs_f64(),
            pages_per_second: self.speed.of(*elapsed, tally.fetched),
            queued: frontier.waiting,
            asleep: frontier.asleep,
            in_flight: at.in_flight,
            sites: frontier.sites,
            next_due_at: frontier.next_due_ms.filter(|_| frontier.waiting == 0 && frontier.asleep > 0).map(rfc3339),
            why: if wishes.is_paused() { None } else { at.why.clone() },
            urls: serde_json::to_value(tally).unwrap_or_default(),
            stages,
            busiest: frontier.busiest.iter().map(queue).collect(),
            blocked: Blocked {
                count: blocked.count,
                names: blocked.names.clone(),
                next_request_at: blocked.soonest_ms.map(rfc3339),
            },
            frozen: wishes.frozen(),
            dead_letters,
            history: self.history.iter().copied().collect(),
            actions: Action::ALL.to_vec(),
        }
    }
}

/// Returns these figures for a crawl that is stopping.
pub(super) fn stopping(last: &Overview) -> Overview {
    Overview { state: CrawlState::Stopping, actions: vec![], why: None, ..last.clone() }
}

/// Returns the last figures of a crawl that has ended.
pub(super) fn ended(last: &Overview, by: EndedBy) -> Overview {
    Overview { state: CrawlState::Ended, ended_by: Some(named(by)), in_flight: 0, ..stopping(last) }
}

/// Returns the figures of a crawl that has ended, by its summary.
#[must_use]
pub fn finished(name: String, summary: &Summary) -> Overview {
    #[allow(clippy::cast_precision_loss, reason = "a human-readable speed")]
    let pages_per_second = summary.pages as f64 / summary.seconds.max(0.001);
    Overview {
        name,
        crawl: crawl().to_string(),
        state: CrawlState::Ended,
        ended_by: Some(named(summary.ended_by)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: None,
        now: rfc3339(SystemClock.now()),
        elapsed_seconds: summary.seconds,
        pages_per_second,
        queued: summary.waiting,
        asleep: summary.asleep,
        in_flight: 0,
        sites: 0,
        next_due_at: summary.next_visit.clone(),
        why: None,
        urls: serde_json::to_value(&summary.urls).unwrap_or_default(),
        stages: vec![],
        busiest: vec![],
        blocked: Blocked::default(),
        frozen: vec![],
        dead_letters: summary.dead_letters,
        history: vec![],
        actions: vec![],
    }
}

fn named(by: EndedBy) -> String {
    serde_json::to_value(by).ok().and_then(|by| by.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the lags of all services, in the order of the flow.
pub(super) async fn lags(log: &dyn Log, settings: &Settings) -> Result<Vec<StageLag>, Failure> {
    let declared = Completion::declared(collectors(settings), |_: Topic| true);
    Ok(in_order(&OffsetSnapshot::take(log, &declared).await.map_err(failed)?))
}

fn in_order(snapshot: &OffsetSnapshot) -> Vec<StageLag> {
    let of = |service: &&str| {
        let lags = snapshot.lags().filter(|(pair, _): &(&GroupTopic, u64)| pair.group == **service);
        let lag: std::collections::BTreeMap<_, _> = lags.map(|(pair, lag)| (pair.topic.0.to_owned(), lag)).collect();
        (!lag.is_empty()).then(|| StageLag { name: (**service).to_owned(), lag })
    };
    FLOW.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(seconds: u64, fetched: u64) -> Snapshot {
        let tally = crate::export::Tally { fetched, ..Default::default() };
        Snapshot { elapsed: Duration::from_secs(seconds), tally, ..Snapshot::default() }
    }

    #[test]
    fn figures_are_made_once_per_second_and_the_history_has_the_last_ones() {
        let (mut figures, wishes) = (Figures::new("a.example".to_owned()), Wishes::default());
        figures.first(&wishes);
        assert!(!figures.are_recent(Duration::ZERO), "the first figures of the services are shown at once");
        for second in 0..400 {
            let overview = figures.of(&snapshot(second, 2 * second), vec![], 0, &wishes);
            assert_eq!(overview.history.len() as u64, (second + 1).min(300));
            assert_eq!(overview.history.last().map(|(_, pages, _)| *pages), Some(2 * second));
        }
        assert!(figures.are_recent(Duration::from_millis(399_900)) && !figures.are_recent(Duration::from_secs(400)));
        assert!((figures.of(&snapshot(400, 800), vec![], 0, &wishes).pages_per_second - 2.0).abs() < 0.01);
    }

    #[test]
    fn a_crawl_that_ends_has_no_actions_and_the_name_of_its_end() {
        let (mut figures, wishes) = (Figures::new("a.example".to_owned()), Wishes::default());
        let running = figures.of(&snapshot(1, 7), vec![], 3, &wishes);
        assert_eq!((running.state, running.actions.len()), (CrawlState::Running, Action::ALL.len()));
        let stopping = stopping(&running);
        assert_eq!((stopping.state, stopping.actions.len()), (CrawlState::Stopping, 0));
        let ended = ended(&stopping, EndedBy::MaxPages);
        assert_eq!(
            (ended.state, ended.ended_by.as_deref(), ended.dead_letters),
            (CrawlState::Ended, Some("max_pages"), 3)
        );
        assert_eq!(ended.urls["fetched"], 7);
    }
}
