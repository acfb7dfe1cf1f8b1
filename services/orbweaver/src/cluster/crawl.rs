//! `orbweaver crawl --brokers`: defines a crawl, seeds it, collects its results, and watches the pipeline to its end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use orbweaver_log::Log;
use orbweaver_messages::{CrawlDefinition, FetchProfile, Seed, topic, topic::CONTROL};
use orbweaver_scope::{Revision, Version};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_store::{CqlStore, StoreMetrics};
use orbweaver_url::{CrawlName, Policy};

use super::{
    collector::Collecting,
    connection::{block_on, connect, cql_config},
    consumers,
    crawl_status::CrawlProof,
    profile::{ProfileOptions, merge},
    seed,
    stage_status::Status,
    status::StatusPoller,
};
use crate::{
    cli::CrawlArgs,
    crawl::{
        definition::{self, Revised},
        monitor::Completion,
        prepare::{check_readable, seed_urls},
        progress::{Display, duration, number},
        settings::{Settings, wide_domains},
    },
    exit::{Failure, failed},
    export::{self, ResultEnds},
};

/// Interval between two offset snapshots.
const EVERY: Duration = Duration::from_secs(1);

/// Runs `orbweaver crawl --brokers`.
///
/// # Errors
/// Fails if the arguments are wrong, the log fails, or the command is stopped before the crawl is complete.
pub fn run(args: &CrawlArgs, brokers: &str) -> Result<(), Failure> {
    check(args)?;
    if let Some(seeds) = &args.seeds {
        check_readable(seeds)?;
    }
    let given = args.cluster.crawl.clone().unwrap_or_default();
    let profile = ProfileOptions::from(args).given()?;
    if let Some(out) = &args.out {
        args.export.check(out)?;
    }
    definition::check_settings(args.extent.revision())?;
    // Only validates the arguments.
    Settings::new(args, vec![])?;
    let is_collected = block_on(async {
        let log: Arc<dyn Log> = Arc::new(connect(brokers, &args.cluster.kafka).await?);
        if let Some(cql) = &args.cluster.cql {
            let config = cql_config(cql, &args.cluster.keyspace, args.cluster.cql_replication)?;
            let metrics = StoreMetrics::register(&prometheus::Registry::new()).map_err(failed)?;
            CqlStore::connect(config, metrics).await.map_err(failed)?;
        }
        let name = &definition::resolve(&*log, &given).await?;
        let collecting = begin(&log, args, name, &profile).await?;
        let defaults = Seed { crawl: Some(name.clone()), ..Seed::of_url("") };
        let end = match seed::write(&*log, &args.urls, args.seeds.as_deref(), defaults).await {
            Ok(seeds) => {
                notice!("crawl `{name}`: {seeds} seeds");
                watch(&*log, name, args.max_time, collecting.as_ref()).await
            }
            Err(error) => Err(error),
        };
        let is_collected = match collecting {
            Some(collecting) => collecting.end(&*log, end.as_ref().ok()).await?,
            None => false,
        };
        end.map(|_| is_collected)
    })?;
    match &args.out {
        Some(out) if is_collected => args.export.run(out),
        _ => Ok(()),
    }
}

/// Rejects options that are settings of the services alone.
fn check(args: &CrawlArgs) -> Result<(), Failure> {
    seed_urls(&args.urls)?;
    let is_uploading = args.warc.as_ref().is_some_and(|to| to.bucket().is_some());
    let settings = [
        ("--demo", args.demo, "the demonstration runs in one process"),
        ("--concurrency", args.concurrency.is_some(), "set `fetcher.concurrency` of the services"),
        ("--allow-private", args.intranet.allow_private, "set `fetcher.allow_private` of the services"),
        ("--allow-network", !args.intranet.allow_network.is_empty(), "set `fetcher.allow_networks` of the services"),
        ("--ca-file", args.intranet.ca_file.is_some(), "set `fetcher.tls_ca` of the services"),
        ("--warc=s3://BUCKET/PREFIX", is_uploading, "set `archiver.upload` of the archiver, and give --warc"),
        ("--follow-nofollow", args.follow_nofollow, "set `extractor.follow_nofollow` of the services"),
    ];
    if args.export.export.is_some() && args.out.is_none() {
        return Err(Failure::Usage(
            "--export requires --out with --brokers: results are collected only there".to_owned(),
        ));
    }
    let given = settings.iter().find(|(_, given, _)| *given);
    given.map_or(Ok(()), |(option, _, instead)| {
        Err(Failure::Usage(format!("{option} cannot be used with --brokers: {instead}")))
    })
}

/// Begins to collect if `--out` is given, then defines the crawl: a raised cap applies only once the collector's group
/// is declared, so that no result is deleted before it is collected.
pub(super) async fn begin(
    log: &Arc<dyn Log>,
    args: &CrawlArgs,
    name: &CrawlName,
    profile: &FetchProfile,
) -> Result<Option<Collecting>, Failure> {
    consumers::check_archiver(&**log, profile).await?;
    let new = new_definition(&**log, args, name, profile).await?;
    let collecting = match &args.out {
        Some(out) => Some(Collecting::begin(log, out, name).await?),
        None => None,
    };
    match define(&**log, name, new, |current| revision(args, profile, current)).await {
        Ok(version) => Ok(collecting.map(|collecting| collecting.with_version(version))),
        Err(error) => {
            if let Some(collecting) = collecting {
                collecting.end(&**log, None).await?;
            }
            Err(error)
        }
    }
}

/// Checks the options before anything is written. Returns the definition of a new crawl; `None` if the crawl exists.
async fn new_definition(
    log: &dyn Log,
    args: &CrawlArgs,
    name: &CrawlName,
    profile: &FetchProfile,
) -> Result<Option<CrawlDefinition>, Failure> {
    let known = definition::find(log, name).await?;
    let canonical = canonical(known.as_ref(), args.canonical)?;
    let wide = wide(definition::wide_domains(log).await?, &args.wide_domain)?;
    let pins = definition::pins(log.partitions(CONTROL).map_err(failed)?, canonical, wide);
    let Some(known) = known else {
        let wanted = definition::of(&Settings::new(args, vec![])?, 0, SystemClock.now());
        return Ok(Some(CrawlDefinition { name: name.to_owned(), pins, profile: profile.clone(), ..wanted }));
    };
    if known.pins != pins {
        return Err(Failure::Usage(format!(
            "the crawl `{name}` was created with {:?}, this program has {pins:?}: use the version that created it",
            known.pins
        )));
    }
    revision(args, profile, &known).of(&known).map_err(|error| definition::refused(&error))?;
    Ok(None)
}

/// Returns the change of an existing crawl by the given options.
fn revision(args: &CrawlArgs, given: &FetchProfile, current: &CrawlDefinition) -> Revision {
    Revision { profile: Some(merge(current.profile.clone(), given)), ..args.extent.revision() }
}

/// Writes the definition of a new crawl, or changes the existing one. Returns its version.
async fn define(
    log: &dyn Log,
    name: &CrawlName,
    new: Option<CrawlDefinition>,
    revision: impl FnOnce(&CrawlDefinition) -> Revision,
) -> Result<Version, Failure> {
    let now = SystemClock.now();
    if let Some(new) = new {
        return definition::write(log, &new, now).await;
    }
    match definition::revise(log, name, revision, None, now).await? {
        Revised::Unchanged(version) => Ok(version),
        Revised::Changed(version, before) => {
            notice!("crawl `{name}`: version {version} of its definition applies, in place of {before}");
            Ok(version)
        }
    }
}

/// Returns the policy of the crawl: the one of its creation, otherwise the given one.
fn canonical(known: Option<&CrawlDefinition>, given: Option<Policy>) -> Result<Policy, Failure> {
    let Some(CrawlDefinition { name, pins, .. }) = known else { return Ok(given.unwrap_or_default()) };
    let pinned = &pins.canonical_policy;
    let policy: Policy = pinned.parse().map_err(|error| {
        Failure::Usage(format!("the crawl `{name}` was created with the canonical policy `{pinned}`: {error}"))
    })?;
    match given.filter(|given| *given != policy) {
        Some(given) => Err(Failure::Usage(format!(
            "--canonical was `{policy}` when the crawl `{name}` was created and is now `{given}`: it cannot change, \
             since it determines the keys of the pages; give another --crawl"
        ))),
        None => Ok(policy),
    }
}

/// Returns the wide domains of the pipeline: those that its first crawl has pinned, otherwise the given ones.
pub(super) fn wide(pinned: Option<Vec<String>>, given: &[String]) -> Result<Vec<String>, Failure> {
    let given: Vec<String> = wide_domains(given)?.iter().map(str::to_owned).collect();
    match pinned {
        Some(pinned) if !given.is_empty() && given != pinned => Err(Failure::Usage(format!(
            "--wide-domain was `{}` when the first crawl of this pipeline was created and is now `{}`: it is the \
             same for all crawls of a pipeline",
            pinned.join(" "),
            given.join(" ")
        ))),
        Some(pinned) => Ok(pinned),
        None => Ok(given),
    }
}

/// Reason why watching ended without an error.
pub(super) enum Watched {
    /// Nothing is left to do, and all results are collected.
    Complete,
    /// The crawl is at its cap, and all results are collected.
    AtCap,
    /// The collector ended; [`Collecting::end`] returns the reason.
    CollectorEnded,
}

/// Shows the pipeline until it is complete, or the crawl is at its cap and nothing else is left; with an exporter, also
/// until all of its results are collected.
async fn watch(
    log: &dyn Log,
    name: &CrawlName,
    max_time: Option<Duration>,
    collecting: Option<&Collecting>,
) -> Result<Watched, Failure> {
    let mut proof = CrawlProof::new(name).of_the_end();
    let watched = watch_with(log, (name, &mut proof), max_time, collecting).await;
    proof.end(log).await?;
    watched
}

async fn watch_with(
    log: &dyn Log,
    (name, proof): (&CrawlName, &mut CrawlProof),
    max_time: Option<Duration>,
    collecting: Option<&Collecting>,
) -> Result<Watched, Failure> {
    let begun = Instant::now();
    let mut watch = StatusPoller::begin(log).await?;
    let mut complete = None;
    let group = collecting.map(|collecting| (collecting.group(), export::TOPICS));
    let (mut collected, mut capped_results) =
        (Completion::of(group, |_| true), Completion::of(group, |topic| topic != topic::FRONTIER));
    let mut shown = Display::new();
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            biased;
            _ = &mut interrupt => {
                shown.end();
                let message = "stopped watching; the services continue, and the same command resumes watching";
                return Err(Failure::Stopped(message.to_owned()));
            }
            () = tokio::time::sleep(EVERY) => {}
        }
        if collecting.is_some_and(Collecting::has_ended) {
            return Ok(Watched::CollectorEnded);
        }
        let status = watch.status(log).await?;
        let queue = match watch.counts_with_revisits(name) {
            Some(counts) => format!("{} queued, {} asleep", number(counts.live), number(counts.asleep)),
            None => format!("{} queued", number(status.waiting)),
        };
        show(&mut shown, &status, &queue, collecting, begun.elapsed());
        if status.complete && (collecting.is_none() || collected.is_proven(log).await?) {
            shown.end();
            notice!("complete after {}, with {} dead letters", duration(begun.elapsed()), status.dead_letters);
            return Ok(Watched::Complete);
        }
        if let Some(capped) = status.caps.iter().find(|capped| status.at_cap && capped.at_cap && capped.crawl == *name)
            && (collecting.is_none() || capped_results.is_proven(log).await?)
        {
            shown.end();
            notice!("{}", capped.text());
            notice!("{} URLs are queued, after {}", number(status.waiting), duration(begun.elapsed()));
            return Ok(Watched::AtCap);
        }
        // Other crawls may run on.
        if complete.is_none()
            && let Some(totals) = proof.step(log).await?
        {
            complete = Some((totals.live, ResultEnds::take(log).await.map_err(failed)?));
        }
        if let Some((held, ends)) = &complete
            && is_collected(log, collecting, ends).await?
        {
            shown.end();
            let (number, elapsed) = (number(*held), duration(begun.elapsed()));
            return Ok(match held {
                0 => {
                    notice!("crawl `{name}` is complete after {elapsed}");
                    Watched::Complete
                }
                _ => {
                    notice!("crawl `{name}` is at its cap after {elapsed}; {number} of its URLs are queued");
                    Watched::AtCap
                }
            });
        }
        if max_time.is_some_and(|most| begun.elapsed() >= most) {
            shown.end();
            return Err(Failure::Stopped("--max-time was reached; the services continue".to_owned()));
        }
    }
}

/// Returns `true` if the collector, if there is one, has all results below these ends.
async fn is_collected(log: &dyn Log, collecting: Option<&Collecting>, ends: &ResultEnds) -> Result<bool, Failure> {
    let Some(collecting) = collecting else { return Ok(true) };
    ends.are_collected(log, collecting.group()).await.map_err(failed)
}

fn show(shown: &mut Display, status: &Status, queue: &str, collecting: Option<&Collecting>, elapsed: Duration) {
    let pages = collecting.map(|collecting| format!(", {} documents", collecting.documents())).unwrap_or_default();
    let elapsed = duration(elapsed);
    shown.show(
        || format!("{elapsed}{pages}\n{}", status.text()),
        || {
            let fetched = status.stages.iter().find(|stage| stage.topic == topic::PAGES.0);
            let speed = fetched.map_or(0.0, |stage| stage.arrived_per_second);
            format!(
                "[{elapsed}] {speed:.1} pages/s, {queue}, {} in flight, {} dead letters{pages}",
                status.in_flight, status.dead_letters
            )
        },
    );
}
