//! `orbweaver crawls delete`: ends a crawl, proves that nothing of it is left in the pipeline, and deletes its rows and
//! settings (docs/protocol.md#deletion).
//!
//! A command that was interrupted can be repeated, also for a crawl whose definition is marked as deleted already.

use std::time::{Duration, Instant};

use clap::Args;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use orbweaver_frontier::page_count;
use orbweaver_log::{ConsumerRecord, Log, Record, read_up_to, topic_partitions};
use orbweaver_messages::{
    ANSWER_KEY, CRAWL_HEADER, CompletionAnswer, Millis, PROBE_KEY, SCOPE_KEY, ScopeEntry, Topic, decode,
    topic::{CHANGES, CONTROL, DOCUMENTS, OUTCOMES, SIGNATURES},
};
use orbweaver_scope::Revision;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_store::{CqlStore, Erase, StoreMetrics};
use orbweaver_url::{CrawlName, Fingerprint};
use serde::Serialize;

use super::{
    args::CrawlsTarget,
    connection::cql_config,
    crawl_status::CrawlProof,
    crawl_urls::{CrawlUrls, UrlBatch},
    crawls::missing,
    dead_batches,
};
use crate::{
    crawl::{definition, progress::number},
    exit::{Failure, failed},
    output::{json_line, to_stdout},
};

/// Time between two steps of the proof.
const EVERY: Duration = Duration::from_millis(500);
/// Pages that are deleted at the same time.
const CONCURRENT_DELETIONS: usize = 64;
/// Time after now up to which events are deleted, in milliseconds: also those of a process whose clock was ahead. ScyllaDB
/// refuses times that are more than three days ahead.
const AHEAD_MS: Millis = 24 * 3_600_000;
/// Copies of the rows of a keyspace that this command creates, because no service has written to it: as few as possible.
const REPLICATION: u8 = 1;

/// Arguments of `orbweaver crawls delete`.
#[derive(Debug, Args)]
#[command(after_help = "\
Pages, fetches, links and redirects of the crawl are deleted from the CQL servers, and its settings from crawl.control. Results
that were collected or consumed stay, and so do records in topics until they are deleted with those of other crawls.
If the command is interrupted, repeat it.

A crawl that is created with the name later is another one: its records have the name NAME#2, then NAME#3 and so on; commands
and seeds name it NAME.

Exit codes: 0 deleted, 64 there is no such crawl, 74 the log or the store failed, 75 another change came first, or --max-time
was reached before nothing was left in the pipeline: the crawl is stopped, and not deleted.")]
pub struct CrawlsDelete {
    #[command(flatten)]
    target: CrawlsTarget,
    /// CQL servers, as HOST:PORT[,HOST:PORT…].
    #[arg(long, value_name = "NODES", env = "ORBWEAVER_CQL__NODES")]
    cql: String,
    /// Keyspace of the tables.
    #[arg(long, value_name = "NAME", env = "ORBWEAVER_CQL__KEYSPACE", default_value = "orbweaver")]
    keyspace: String,
    /// Maximum time to wait until nothing of the crawl is left in the pipeline, such as 90s or 10m.
    #[arg(long, value_name = "TIME", value_parser = crate::cli::duration)]
    max_time: Option<Duration>,
    /// Print JSON, on one line.
    #[arg(long)]
    json: bool,
}

/// Report of a deletion.
#[derive(Debug, Serialize)]
struct Deleted {
    crawl: CrawlName,
    /// Admitted URLs, whose pages, fetches, links and redirects were deleted.
    urls: u64,
    /// Records of `crawl.control` that were deleted.
    settings: u64,
    /// Records of `crawl.signatures` that were deleted.
    signatures: u64,
    /// URLs of deleted crawls that are still in `crawl.seen`: their partitions have more of other crawls.
    seen_left: u64,
    /// Topics in which records of the crawl may remain until they are deleted with those of other crawls.
    remains_in: [&'static str; 3],
}

impl Deleted {
    fn text(&self) -> String {
        let (urls, settings, left) = (number(self.urls), number(self.settings), number(self.seen_left));
        let signatures = number(self.signatures);
        let remains_in = self.remains_in.join(", ");
        format!(
            "crawl `{}`: deleted: {urls} URLs with their pages, fetches, links and redirects; {settings} settings, {signatures} signatures\n\
             still there: {left} URLs of deleted crawls in crawl.seen; records of the crawl in {remains_in}, until they are deleted \
             with those of other crawls",
            self.crawl
        )
    }
}

/// Runs `orbweaver crawls delete`.
///
/// # Errors
/// Fails if there is no such crawl, something of it is left in the pipeline after the maximum time, or log or store fail.
pub(super) async fn run(args: &CrawlsDelete) -> Result<(), Failure> {
    let CrawlsTarget { name, expect, cluster } = &args.target;
    if *name == CrawlName::default() {
        return Err(Failure::Usage(format!(
            "the crawl `{name}` is that of seeds without a crawl: it cannot be deleted"
        )));
    }
    let log = cluster.connect().await?;
    let Some(name) = definition::definitions(&log).await?.latest(name).map(|(latest, _)| latest.clone()) else {
        return Err(missing(name, None));
    };
    let metrics = StoreMetrics::register(&prometheus::Registry::new()).map_err(failed)?;
    let store =
        CqlStore::connect(cql_config(&args.cql, &args.keyspace, REPLICATION)?, metrics).await.map_err(failed)?;
    let stopped = Revision { stopped: Some(true), paused: Some(false), ..Revision::default() };
    definition::revise(&log, &name, |_| stopped, *expect, SystemClock.now()).await?;
    let steps = async {
        leave_pipeline(&log, &name, args.max_time).await?;
        let urls = erase(&log, &store, &name, SystemClock.now().saturating_add(AHEAD_MS)).await?;
        let deletion = Revision { deleted: true, ..Revision::default() };
        definition::revise(&log, &name, |_| deletion, None, SystemClock.now()).await?;
        // Once all frontiers have read that, they write no settings of the crawl: the proof needs an answer of each.
        leave_pipeline(&log, &name, args.max_time).await?;
        let (now, is_setting) = (SystemClock.now(), |record: &ConsumerRecord| is_setting_of(record, &name));
        let settings = forget(&log, CONTROL, is_setting, now).await?;
        let signatures = forget(&log, SIGNATURES, |record| is_of(record, &name), now).await?;
        Ok::<_, Failure>((urls, settings, signatures))
    };
    let (urls, settings, signatures) = tokio::select! {
        done = steps => done?,
        _ = tokio::signal::ctrl_c() => {
            return Err(Failure::Stopped(format!("the crawl `{name}` is stopped, and not deleted: repeat the command")));
        }
    };
    let seen_left = dead_batches::drop_dead(&log, &definition::definitions(&log).await?).await?;
    let remains_in = [OUTCOMES.0, DOCUMENTS.0, CHANGES.0];
    let report = Deleted { crawl: name, urls, settings, signatures, seen_left, remains_in };
    to_stdout(|out| if args.json { json_line(out, &report) } else { writeln!(out, "{}", report.text()) })
}

/// Waits until nothing of a stopped crawl is left in the pipeline.
async fn leave_pipeline(log: &dyn Log, name: &CrawlName, max_time: Option<Duration>) -> Result<(), Failure> {
    let (mut proof, begun) = (CrawlProof::new(name), Instant::now());
    let mut complete = false;
    while !complete && max_time.is_none_or(|most| begun.elapsed() < most) {
        tokio::time::sleep(EVERY).await;
        complete = proof.step(log).await?.is_some();
    }
    proof.end(log).await?;
    if complete {
        return Ok(());
    }
    Err(Failure::Stopped(format!(
        "--max-time was reached: the crawl `{name}` is stopped, and not deleted, since it is not proven that nothing of it is left in \
         the pipeline; repeat the command"
    )))
}

/// Deletes the pages of a crawl, as far as their event times are not after `until_ms`. Returns the number of admitted URLs.
async fn erase(log: &dyn Log, store: &impl Erase, name: &CrawlName, until_ms: Millis) -> Result<u64, Failure> {
    let (mut urls, mut erased) = (CrawlUrls::new(log, name, None)?, 0);
    while let Some(UrlBatch { batch, is_of_crawl }) = urls.next().await? {
        let fingerprints = stream::iter(batch.entries).map(|entry| entry.fingerprint);
        let deletions = fingerprints.map(|fingerprint| async move {
            if !is_of_crawl && !is_page_of(store, name, fingerprint).await? {
                return Ok(0);
            }
            store.erase(name, fingerprint, until_ms).await.map(|()| 1).map_err(failed)
        });
        let counts: Vec<u64> = deletions.buffer_unordered(CONCURRENT_DELETIONS).try_collect().await?;
        erased += counts.iter().sum::<u64>();
    }
    Ok(erased)
}

/// Returns `true` if a page of this fingerprint is stored, and belongs to the crawl.
async fn is_page_of(store: &impl Erase, name: &CrawlName, fingerprint: Fingerprint) -> Result<bool, Failure> {
    let row = store.page(fingerprint).await.map_err(failed)?;
    Ok(row.is_some_and(|row| Fingerprint::of(name, &row.key) == fingerprint))
}

/// Removes the records of a compacted topic that are selected. Returns their number.
async fn forget(
    log: &dyn Log,
    topic: Topic,
    is_selected: impl Fn(&ConsumerRecord) -> bool,
    now: Millis,
) -> Result<u64, Failure> {
    let mut removed = 0;
    for tp in topic_partitions(log, &[topic]).map_err(failed)? {
        let bounds = log.bounds(tp).await.map_err(failed)?;
        let mut keys = std::collections::BTreeSet::new();
        let apply = |record: ConsumerRecord| match &record.key {
            Some(key) if record.value.is_none() => drop(keys.remove(key)),
            Some(key) if is_selected(&record) => drop(keys.insert(key.clone())),
            _ => {}
        };
        read_up_to(log, tp, 0, bounds, apply).await.map_err(failed)?;
        removed += keys.len() as u64;
        let tombstones = keys.into_iter().map(|key| Record::new(tp, Some(key), None, now)).collect();
        log.append(tombstones).await.map_err(failed)?;
    }
    Ok(removed)
}

/// Returns `true` for a scope entry of the crawl, a count of its pages and a record of the proof that it is complete.
/// Returns `true` for a record whose header names the crawl.
fn is_of(record: &ConsumerRecord, name: &CrawlName) -> bool {
    record.header(CRAWL_HEADER).is_some_and(|crawl| **crawl == *name.as_bytes())
}

fn is_setting_of(record: &ConsumerRecord, name: &CrawlName) -> bool {
    let (key, value) = (record.key.as_deref().unwrap_or_default(), record.value.as_ref());
    let has = |prefix: &str| key.starts_with(prefix.as_bytes());
    let crawl = if has(SCOPE_KEY) {
        decode::<ScopeEntry>("scope-entry", value).ok().map(|entry| entry.crawl)
    } else if has(ANSWER_KEY) {
        decode::<CompletionAnswer>("completion-answer", value).ok().map(|answer| answer.crawl)
    } else if has(PROBE_KEY) {
        return key[PROBE_KEY.len()..] == *name.as_bytes();
    } else {
        page_count(record).map(|count| count.crawl)
    };
    crawl.is_some_and(|crawl| crawl == *name)
}

#[cfg(test)]
mod tests;
