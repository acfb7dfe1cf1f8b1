//! `orbweaver status`: the progress of every stage.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use orbweaver_frontier::pages::CrawlCounts;
use orbweaver_log::Log;
use orbweaver_messages::topic;
use orbweaver_stage::completion::{GroupTopic, OffsetSnapshot};
use orbweaver_url::CrawlName;

use super::{args::StatusArgs, caps::Caps, connection::block_on, crawl_status, dead_letters, stage_status::Status};
use crate::{
    crawl::definition,
    exit::{Failure, failed},
    output::{json_line, to_stdout, while_stdout_is_read},
};

/// Time between the two snapshots of a status that is shown once.
const APART: Duration = Duration::from_secs(1);
/// Time between two statuses with `--watch`.
const EVERY: Duration = Duration::from_secs(2);

/// Runs `orbweaver status`.
///
/// # Errors
/// Fails if the log cannot be read, records were deleted before they were processed, dead letters were not replayed, or
/// the time is up before the pipeline is complete.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    block_on(async {
        let log = args.cluster.connect().await?;
        if let Some(crawl) = &args.crawl {
            return crawl_status::run(&log, &definition::resolve(&log, crawl).await?, args).await;
        }
        let mut watch = StatusPoller::begin(&log).await?;
        let begun = Instant::now();
        loop {
            tokio::time::sleep(if args.watch { EVERY } else { APART }).await;
            let status = watch.status(&log).await?;
            if args.watch {
                if show_again(&status)? {
                    continue;
                }
                return Ok(());
            }
            if !args.wait {
                return show(&status, args.json);
            }
            if status.complete || status.at_cap {
                show(&status, args.json)?;
                return status.unprocessed().map_or(Ok(()), |reason| Err(Failure::Unprocessed(reason)));
            }
            if let Some(deleted) = status.deleted.first() {
                show(&status, args.json)?;
                return Err(Failure::Failed(format!("{deleted}: the pipeline cannot complete")));
            }
            if args.max_time.is_some_and(|most| begun.elapsed() >= most) {
                show(&status, args.json)?;
                return Err(Failure::Stopped("--max-time was reached, and the pipeline is not complete".to_owned()));
            }
        }
    })
}

/// Repeated observation of the pipeline.
pub struct StatusPoller {
    declared: Vec<GroupTopic>,
    last: (Instant, OffsetSnapshot),
    caps: Caps,
}

impl StatusPoller {
    /// Takes the first offset snapshot.
    pub async fn begin(log: &dyn Log) -> Result<Self, Failure> {
        let declared = in_order_of_the_flow();
        let last = (Instant::now(), OffsetSnapshot::take(log, &declared).await.map_err(failed)?);
        Ok(Self { declared, last, caps: Caps::default() })
    }

    /// Returns the counts of a crawl with revisits, as far as the frontiers have recorded them. The records of its sleeping
    /// URLs hold the commit point, so that the lag grows with each visit to others.
    pub fn counts_with_revisits(&self, crawl: &CrawlName) -> Option<CrawlCounts> {
        let applied = self.caps.definitions().applied(crawl)?;
        applied.definition.revisit.is_some().then(|| self.caps.counts(crawl))
    }

    /// Takes another snapshot and computes the status from it and the previous one.
    pub async fn status(&mut self, log: &dyn Log) -> Result<Status, Failure> {
        let reading = OffsetSnapshot::take(log, &self.declared).await.map_err(failed)?;
        let at = Instant::now();
        self.caps.update(log, |_| {}).await?;
        let letters = dead_letters::left(log).await.map_err(failed)?;
        let count = letters.iter().map(|(_, from, end)| end - from).sum();
        let mut status = Status::between(&self.last.1, &reading, at - self.last.0, count, &self.caps);
        if status.complete || status.at_cap {
            // Reads all dead letters, so not on every call.
            status.stuck = Some(dead_letters::count_stuck(log, &letters).await.map_err(failed)?);
        }
        self.last = (at, reading);
        Ok(status)
    }
}

/// Returns all declared groups and topics, in the order in which records pass them.
fn in_order_of_the_flow() -> Vec<GroupTopic> {
    let pair = |topic: topic::Topic| move |group: &&str| GroupTopic { group: (*group).to_owned(), topic };
    topic::topics().iter().flat_map(|described| described.consumers.iter().map(pair(described.topic))).collect()
}

fn show(status: &Status, json: bool) -> Result<(), Failure> {
    to_stdout(|out| if json { json_line(out, status) } else { writeln!(out, "{}", status.text()) })
}

/// Replaces the previous status on a terminal, otherwise prints below it. Returns `false` if stdout is closed.
fn show_again(status: &Status) -> Result<bool, Failure> {
    let clear = if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    while_stdout_is_read(|out| writeln!(out, "{clear}{}\n", status.text()))
}
