//! Check of the progress of each stage between two observations of offsets (pure).

use std::time::Duration;

use orbweaver_log::{Commit, Offset};
use orbweaver_messages::{
    LEASE_MS, Topic,
    topic::{FRONTIER, READY, SCHEDULED},
};
use orbweaver_stage::completion::OffsetSnapshot;

use super::finding::{Finding, count, listed};
use crate::crawl::progress::number;

/// Maximum time for which a stage may hold a dispatch: then the frontier sends it again.
pub(super) const LONGEST_HOLD: Duration = Duration::from_millis(LEASE_MS.unsigned_abs());

/// Offsets and commits of all groups at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub offsets: OffsetSnapshot,
    /// Commits with their metadata, which has the records that are complete above the commit point, in the order of
    /// `offsets`.
    pub commits: Vec<Vec<Option<Commit>>>,
}

/// Progress of a group on a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageSeen {
    pub service: String,
    pub topic: Topic,
    /// Whether the group was declared by a user, and is none of a service that a crawl needs.
    pub is_declared: bool,
    /// Offsets between commits and log ends.
    pub lag: u64,
    /// Whether there is a record among them, as compaction leaves gaps.
    pub has_records: bool,
    /// Offsets by which the commits have advanced.
    pub consumed: u64,
    /// Whether a commit has changed: its offset, or the records that are complete above it.
    pub has_moved: bool,
    /// Deleted records that were not processed: partition, first offset, and the next one that exists.
    pub deleted: Vec<(u32, Offset, Offset)>,
}

/// Reasons why queued URLs may wait although all services run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    pub paused: Vec<String>,
    /// Crawls that have reached their page cap.
    pub capped: Vec<String>,
    pub frozen_sites: usize,
    /// Whether URLs sleep until their next visit.
    pub has_sleeping: bool,
}

impl Waits {
    fn text(&self) -> Option<String> {
        let mut reasons = vec![];
        if !self.paused.is_empty() {
            reasons.push(format!("paused: {}", listed(&self.paused)));
        }
        if !self.capped.is_empty() {
            reasons.push(format!("at their page cap: {}", listed(&self.capped)));
        }
        if self.frozen_sites > 0 {
            reasons.push(format!("{} frozen", count(self.frozen_sites as u64, "site")));
        }
        if self.has_sleeping {
            reasons.push("URLs sleep until their next visit".to_owned());
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// Compares two readings of the same groups.
#[must_use]
pub fn stages(first: &Reading, second: &Reading, is_declared: impl Fn(&str) -> bool) -> Vec<StageSeen> {
    let overtaken: Vec<_> = second.offsets.overtaken_since(&first.offsets).collect();
    let pairs = second.offsets.pairs.iter().zip(&second.commits);
    let before = first.offsets.pairs.iter().zip(&first.commits);
    pairs
        .zip(before)
        .map(|(((of, at), commits), ((_, before), earlier))| {
            let done = |offsets: &[orbweaver_stage::completion::PartitionOffsets]| -> u64 {
                offsets.iter().map(|at| at.committed.unwrap_or(at.start)).sum()
            };
            let deleted = overtaken.iter().filter(|(pair, _)| *pair == of);
            StageSeen {
                service: of.group.clone(),
                topic: of.topic,
                is_declared: is_declared(&of.group),
                lag: at.iter().map(orbweaver_stage::completion::PartitionOffsets::lag).sum(),
                has_records: at.iter().any(|at| at.records_left),
                consumed: done(at).saturating_sub(done(before)),
                has_moved: commits != earlier,
                deleted: deleted.map(|(_, at)| (at.tp.partition, at.committed.unwrap_or(0), at.start)).collect(),
            }
        })
        .collect()
}

/// Returns a finding per group and topic, and another one where records were deleted. The observations are `apart` from
/// each other.
#[must_use]
pub fn progress(stages: &[StageSeen], waits: &Waits, apart: Duration) -> Vec<Finding> {
    stages.iter().flat_map(|stage| deleted(stage).into_iter().chain([stall(stage, waits, apart)])).collect()
}

fn check(stage: &StageSeen) -> String {
    format!("{} on {}", stage.service, stage.topic)
}

fn deleted(stage: &StageSeen) -> Option<Finding> {
    let (partition, from, to) = *stage.deleted.first()?;
    let offsets: u64 = stage.deleted.iter().map(|(_, from, to)| to.saturating_sub(*from)).sum();
    let more = match stage.deleted.len() - 1 {
        0 => String::new(),
        more => format!(", and of {}", count(more as u64, "other partition")),
    };
    Some(Finding::bad(
        check(stage),
        format!(
            "deleted before it was processed: {}, {from} to {to} of partition {partition}{more}",
            count(offsets, "offset")
        ),
        "these records are lost to this stage: correct the retention (orbweaver topics check names it), then fetch the \
         missing pages again (orbweaver recrawl)",
    ))
}

fn stall(stage: &StageSeen, waits: &Waits, apart: Duration) -> Finding {
    let check = check(stage);
    let (lag, seconds) = (number(stage.lag), format!("{:.0} s", apart.as_secs_f64()));
    if !stage.has_records {
        return Finding::ok(check, "nothing waits");
    }
    if stage.consumed > 0 {
        return Finding::ok(check, format!("lag {lag}; {} consumed in {seconds}", number(stage.consumed)));
    }
    if stage.has_moved {
        return Finding::ok(check, format!("lag {lag}; records above the commit point were completed"));
    }
    let seen = format!("lag {lag}; nothing moved in {seconds}");
    let start = |service: &str| {
        format!("check that orbweaver-{service} runs, its log and /readyz; `orbweaver status --watch` shows its rate")
    };
    if stage.is_declared {
        let kept = format!(
            "records are kept until {} commits them: start its consumer, or: orbweaver consumers remove {}",
            stage.service, stage.service
        );
        return Finding::warn(check, seen, kept);
    }
    if stage.topic == FRONTIER {
        // A commit waits for the oldest URL of the partition, however long its site takes.
        let longer = "normal while few URLs are left or sites answer slowly; a longer look: orbweaver doctor --wait 2m";
        return match waits.text() {
            Some(reasons) => Finding::ok(check, format!("{seen} ({reasons})")),
            None => Finding::warn(check, seen, longer),
        };
    }
    // The other stages complete a record as soon as they have read it, and these also those of a paused crawl.
    if [SCHEDULED, READY].contains(&stage.topic) && apart < LONGEST_HOLD {
        let hold = LONGEST_HOLD.as_secs();
        let longer =
            format!("a stage may hold a dispatch for {hold} s; whether it hangs: orbweaver doctor --wait {hold}s");
        return Finding::warn(check, seen, longer);
    }
    Finding::bad(check, seen, start(&stage.service))
}

#[cfg(test)]
mod tests {
    use orbweaver_log::TopicPartition;
    use orbweaver_messages::topic::PAGES;
    use orbweaver_stage::completion::{GroupTopic, PartitionOffsets};

    use super::*;
    use crate::doctor::finding::Level;

    const APART: Duration = Duration::from_secs(5);

    /// Returns a reading of one group with one partition.
    fn reading(topic: Topic, start: Offset, end: Offset, committed: Offset, metadata: &str) -> Reading {
        let tp = TopicPartition::new(topic, 0);
        let at = PartitionOffsets { tp, start, end, committed: Some(committed), records_left: committed < end };
        let commit = Commit { offset: committed, metadata: metadata.to_owned() };
        Reading {
            offsets: OffsetSnapshot { pairs: vec![(GroupTopic { group: "extractor".to_owned(), topic }, vec![at])] },
            commits: vec![vec![Some(commit)]],
        }
    }

    fn found(first: &Reading, second: &Reading, waits: &Waits, apart: Duration) -> Vec<Level> {
        let stages = stages(first, second, |_| false);
        progress(&stages, waits, apart).iter().map(|finding| finding.level).collect()
    }

    #[test]
    fn a_stage_with_lag_whose_commits_do_not_move_is_bad() {
        let (stalled, none) = (reading(PAGES, 0, 9, 3, ""), Waits::default());
        assert_eq!(found(&stalled, &stalled, &none, APART), [Level::Bad]);
        assert_eq!(found(&stalled, &reading(PAGES, 0, 12, 3, ""), &none, APART), [Level::Bad], "only its log grows");
        assert_eq!(found(&stalled, &reading(PAGES, 0, 9, 4, ""), &none, APART), [Level::Ok]);
        assert_eq!(found(&stalled, &reading(PAGES, 0, 9, 3, "above"), &none, APART), [Level::Ok]);
        let done = reading(PAGES, 0, 9, 9, "");
        assert_eq!(found(&done, &done, &none, APART), [Level::Ok], "nothing waits");
    }

    #[test]
    fn a_stage_that_holds_dispatches_is_bad_only_after_the_longest_time_that_it_may_hold_a_dispatch() {
        let none = Waits::default();
        for topic in [SCHEDULED, READY] {
            let held = reading(topic, 0, 9, 3, "");
            assert_eq!(found(&held, &held, &none, APART), [Level::Warn]);
            assert_eq!(found(&held, &held, &none, LONGEST_HOLD), [Level::Bad]);
        }
        let queued = reading(FRONTIER, 0, 9, 3, "");
        assert_eq!(found(&queued, &queued, &none, LONGEST_HOLD), [Level::Warn], "the oldest URL may wait for days");
    }

    #[test]
    fn queued_urls_that_wait_because_a_crawl_is_paused_are_no_stall_but_pages_and_dispatches_are() {
        let waits = [
            Waits { paused: vec!["docs".to_owned()], ..Waits::default() },
            Waits { capped: vec!["docs".to_owned()], ..Waits::default() },
            Waits { frozen_sites: 1, ..Waits::default() },
            Waits { has_sleeping: true, ..Waits::default() },
        ];
        for waits in waits {
            let held = reading(FRONTIER, 0, 9, 3, "");
            assert_eq!(found(&held, &held, &waits, APART), [Level::Ok]);
            for topic in [SCHEDULED, READY, PAGES] {
                let held = reading(topic, 0, 9, 3, "");
                assert_eq!(found(&held, &held, &waits, LONGEST_HOLD), [Level::Bad], "services defer their dispatches");
            }
        }
        let held = reading(FRONTIER, 0, 9, 3, "");
        let paused = Waits { paused: vec!["docs".to_owned()], ..Waits::default() };
        assert!(progress(&stages(&held, &held, |_| false), &paused, APART)[0].seen.contains("paused: docs"));
    }

    #[test]
    fn records_that_were_deleted_before_they_were_processed_are_bad_although_the_stage_moves() {
        let (first, second) = (reading(PAGES, 5, 9, 3, ""), reading(PAGES, 5, 9, 3, "above"));
        assert_eq!(found(&first, &second, &Waits::default(), APART), [Level::Bad, Level::Ok]);
        let stages = stages(&first, &second, |_| false);
        assert!(progress(&stages, &Waits::default(), APART)[0].seen.contains("3 to 5 of partition 0"));
        // The deletion came after a commit that the first reading did not see.
        assert_eq!(found(&first, &reading(PAGES, 5, 9, 5, ""), &Waits::default(), APART), [Level::Ok]);
    }

    #[test]
    fn a_group_of_users_that_does_not_move_keeps_records_and_is_a_warning() {
        let stalled = reading(PAGES, 0, 9, 3, "");
        let seen = stages(&stalled, &stalled, |group| group == "extractor");
        let finding = &progress(&seen, &Waits::default(), APART)[0];
        assert_eq!(finding.level, Level::Warn);
        assert!(finding.advice.as_ref().is_some_and(|advice| advice.contains("orbweaver consumers remove extractor")));
    }
}
