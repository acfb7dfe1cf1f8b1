//! Progress of every stage, computed from two offset snapshots. Pure.

use std::{collections::BTreeMap, fmt, time::Duration};

use orbweaver_log::Offset;
use orbweaver_messages::topic;
use orbweaver_stage::completion::{GroupTopic, OffsetSnapshot, PartitionOffsets};
use orbweaver_url::CrawlName;
use serde::Serialize;

use super::caps::{CappedCrawl, Caps};
use crate::crawl::progress::number;

/// Progress of one group on one topic.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageStatus {
    pub service: String,
    /// Topic that the service consumes.
    pub topic: &'static str,
    /// Offsets between commit point and log end, over all partitions.
    pub lag: u64,
    /// Records consumed per second, between the two snapshots.
    pub per_second: f64,
    /// Records appended per second, between the two snapshots.
    pub arrived_per_second: f64,
}

/// Records of one partition that were deleted before a service had processed them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Deleted {
    pub service: String,
    pub topic: &'static str,
    pub partition: u32,
    /// First offset that was not processed.
    pub from: Offset,
    /// First offset that still exists.
    pub to: Offset,
}

impl fmt::Display for Deleted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, topic, partition, from, to } = self;
        write!(
            f,
            "{topic}/{partition}: the records from {from} to {to} were deleted before the {service} had processed them"
        )
    }
}

/// Progress of the whole pipeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Nothing is left to do, as proven by two snapshots (docs/protocol.md#completion).
    pub complete: bool,
    /// Only capped URLs are left, as proven by two snapshots.
    pub at_cap: bool,
    /// Upper bound of the queued URLs, leased ones included: the frontier's lag on `crawl.frontier`, which counts
    /// completed offsets above the commit point, too.
    pub waiting: u64,
    /// Dispatches that the fetchers hold.
    pub in_flight: u64,
    /// Records in `crawl.dead-letters` that were not replayed.
    pub dead_letters: u64,
    /// Number of URLs among the dead letters that ended as `stuck`; counted only when nothing is left to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stuck: Option<u64>,
    /// Crawls with a page cap.
    pub caps: Vec<CappedCrawl>,
    /// Paused crawls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paused: Vec<CrawlName>,
    /// Records that were deleted before they were processed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<Deleted>,
    /// All stages, in the order of the flow.
    pub stages: Vec<StageStatus>,
}

impl Status {
    /// Computes the status from two snapshots taken `apart` from each other.
    #[must_use]
    pub fn between(
        first: &OffsetSnapshot,
        second: &OffsetSnapshot,
        apart: Duration,
        dead_letters: u64,
        caps: &Caps,
    ) -> Self {
        let before: BTreeMap<&GroupTopic, &Vec<PartitionOffsets>> =
            first.pairs.iter().map(|(of, at)| (of, at)).collect();
        let stages = second.pairs.iter().map(|(of, at)| stage(of, before.get(of).copied(), at, apart)).collect();
        let deleted = |(of, at): (&GroupTopic, &PartitionOffsets)| {
            let (service, topic, from) = (of.group.clone(), of.topic.0, at.committed.unwrap_or(0));
            Deleted { service, topic, partition: at.tp.partition, from, to: at.start }
        };
        let lag = |service: &str, topic: topic::Topic| {
            let mut lags = second.lags().filter(|(of, _)| of.group == service && of.topic == topic);
            lags.next().map_or(0, |(_, lag)| lag)
        };
        Self {
            complete: second.confirms_completion(first),
            at_cap: caps.is_all_that_is_left(first, second),
            waiting: lag("frontier", topic::FRONTIER),
            in_flight: lag("fetcher", topic::READY),
            dead_letters,
            stuck: None,
            caps: caps.crawls(),
            paused: caps.paused(),
            deleted: second.overtaken_since(first).map(deleted).collect(),
            stages,
        }
    }

    /// Describes the records that could not be processed, if there are any.
    #[must_use]
    pub fn unprocessed(&self) -> Option<String> {
        let letters = match self.dead_letters {
            0 => return None,
            1 => "1 dead letter".to_owned(),
            more => format!("{} dead letters", number(more)),
        };
        let stuck = match self.stuck {
            None | Some(0) => String::new(),
            Some(1) => {
                "; 1 of them is a URL that ended as `stuck`: see `orbweaver dead-letters list --stuck`".to_owned()
            }
            Some(more) => {
                let more = number(more);
                format!("; {more} of them are URLs that ended as `stuck`: see `orbweaver dead-letters list --stuck`")
            }
        };
        Some(format!("no work is left, except for {letters}: see `orbweaver dead-letters list`{stuck}"))
    }

    /// Describes the status in words, one line per stage.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines =
            vec![format!("{:<18}{:<18}{:>12}{:>12}{:>12}", "service", "topic", "lag", "consumed/s", "arrived/s")];
        for stage in &self.stages {
            let (done, came) = (rate(stage.per_second), rate(stage.arrived_per_second));
            lines.push(format!(
                "{:<18}{:<18}{:>12}{done:>12}{came:>12}",
                stage.service,
                stage.topic,
                number(stage.lag)
            ));
        }
        lines.push(String::new());
        lines.extend(self.caps.iter().map(CappedCrawl::text));
        lines.extend(self.paused.iter().map(|crawl| format!("crawl `{crawl}` is paused")));
        lines.extend(self.deleted.iter().map(ToString::to_string));
        lines.push(format!(
            "{}: {} queued, {} in flight, {} dead letters{}",
            match (self.complete, self.at_cap) {
                (true, _) => "complete",
                (false, true) => "at a cap, and only capped URLs are left",
                (false, false) => "not complete",
            },
            number(self.waiting),
            number(self.in_flight),
            number(self.dead_letters),
            self.stuck
                .filter(|stuck| *stuck > 0)
                .map_or_else(String::new, |stuck| format!(" ({} stuck)", number(stuck)))
        ));
        lines.join("\n")
    }
}

fn stage(
    of: &GroupTopic,
    before: Option<&Vec<PartitionOffsets>>,
    after: &[PartitionOffsets],
    apart: Duration,
) -> StageStatus {
    let done =
        |standings: &[PartitionOffsets]| standings.iter().map(|at| at.committed.unwrap_or(at.start)).sum::<Offset>();
    let end = |standings: &[PartitionOffsets]| standings.iter().map(|at| at.end).sum::<Offset>();
    let seconds = apart.as_secs_f64().max(0.001);
    #[allow(clippy::cast_precision_loss, reason = "a human-readable rate")]
    let rate = |of: &dyn Fn(&[PartitionOffsets]) -> Offset| {
        before.map_or(0.0, |before| of(after).saturating_sub(of(before)) as f64 / seconds)
    };
    StageStatus {
        service: of.group.clone(),
        topic: of.topic.0,
        lag: after.iter().map(PartitionOffsets::lag).sum(),
        per_second: rate(&done),
        arrived_per_second: rate(&end),
    }
}

fn rate(per_second: f64) -> String {
    if per_second >= 10.0 || per_second == 0.0 { format!("{per_second:.0}") } else { format!("{per_second:.1}") }
}

#[cfg(test)]
mod tests {
    use orbweaver_log::TopicPartition;

    use super::*;

    fn reading(pairs: &[(&str, topic::Topic, Offset, Option<Offset>)]) -> OffsetSnapshot {
        let pair = |&(group, topic, end, committed): &(&str, topic::Topic, Offset, Option<Offset>)| {
            let tp = TopicPartition::new(topic, 0);
            let records_left = committed.unwrap_or(0) < end;
            let standing = PartitionOffsets { tp, start: 0, end, committed, records_left };
            (GroupTopic { group: group.to_owned(), topic }, vec![standing])
        };
        OffsetSnapshot { pairs: pairs.iter().map(pair).collect() }
    }

    #[test]
    fn two_readings_tell_lag_and_rate_of_each_stage() {
        let first = reading(&[("frontier", topic::FRONTIER, 100, Some(10)), ("fetcher", topic::READY, 20, Some(15))]);
        let second = reading(&[("frontier", topic::FRONTIER, 140, Some(30)), ("fetcher", topic::READY, 20, Some(17))]);
        let status = Status::between(&first, &second, Duration::from_secs(2), 3, &Caps::default());
        assert!(!status.complete);
        assert_eq!((status.waiting, status.in_flight, status.dead_letters), (110, 3, 3));
        let frontier = &status.stages[0];
        assert_eq!((frontier.lag, frontier.per_second, frontier.arrived_per_second), (110, 10.0, 20.0));
        assert!(status.text().contains("not complete: 110 queued, 3 in flight, 3 dead letters"), "{}", status.text());
        assert!(status.unprocessed().is_some_and(|reason| reason.contains("3 dead letters")));
    }

    #[test]
    fn what_is_worked_off_twice_is_complete() {
        let reading = reading(&[("frontier", topic::FRONTIER, 5, Some(5))]);
        let status = Status::between(&reading, &reading.clone(), Duration::from_secs(1), 0, &Caps::default());
        assert!(status.complete);
        assert!(status.text().ends_with("complete: 0 queued, 0 in flight, 0 dead letters"));
        assert_eq!(status.unprocessed(), None);
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(json["stages"][0]["topic"], "crawl.frontier");
    }

    #[test]
    fn a_wait_that_ends_with_stuck_urls_says_how_many_and_how_to_find_them() {
        let reading = reading(&[("frontier", topic::FRONTIER, 5, Some(5))]);
        let status = Status::between(&reading, &reading.clone(), Duration::from_secs(1), 5, &Caps::default());
        assert!(serde_json::to_value(&status).unwrap().get("stuck").is_none(), "not counted");
        for (stuck, said) in [(0, ""), (1, "1 of them is a URL that ended as `stuck`"), (2, "2 of them are URLs that")]
        {
            let status = Status { stuck: Some(stuck), ..status.clone() };
            let reason = status.unprocessed().unwrap();
            assert!(reason.contains("5 dead letters") && reason.contains(said), "{reason}");
            assert_eq!(reason.contains("`orbweaver dead-letters list --stuck`"), stuck > 0, "{reason}");
            assert_eq!(status.text().ends_with(&format!("5 dead letters ({stuck} stuck)")), stuck > 0);
            assert_eq!(serde_json::to_value(&status).unwrap()["stuck"], stuck);
        }
    }

    #[test]
    fn a_stage_without_an_earlier_reading_has_no_rate() {
        let second = reading(&[("frontier", topic::FRONTIER, 5, None)]);
        let status = Status::between(&OffsetSnapshot { pairs: vec![] }, &second, Duration::ZERO, 0, &Caps::default());
        assert_eq!((status.stages[0].lag, status.stages[0].per_second, status.complete), (5, 0.0, false));
    }
}
