//! One run of a crawl: from the arguments to the exit code.

use std::{net::SocketAddr, path::Path, time::Duration};

use orbweaver_frontier::Figures;
use orbweaver_log::{EmbeddedLog, Log, topic_partitions};
use orbweaver_messages::topic::DEAD_LETTERS;
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_toyweb::{Logging, Serving, ToyWeb};
use orbweaver_url::parse;

use super::{
    archive_to, definition,
    monitor::{End, watch},
    pipeline::Pipeline,
    prepare::{Prepared, prepare},
    progress::Progress,
    seeds::SeedWriter,
    settings::Settings,
    summary::{EndedBy, Summary},
    trim, usage,
};
use crate::{
    block_on,
    cli::CrawlArgs,
    durable::read_whole,
    exit::{Failure, failed},
    export::rfc3339,
    logging,
};

/// Runs `orbweaver crawl`.
///
/// # Errors
/// Fails if the crawl cannot start, fails, is stopped before its end, or could not fetch any seed, or if its results
/// cannot be exported.
pub fn run(args: &CrawlArgs) -> Result<(), Failure> {
    let mut prepared = prepare(args)?;
    if prepared.settings.complete {
        already_complete(&prepared)?;
        args.export.run(&prepared.out)?;
        return args.console.remain(None, &prepared.settings, &prepared.out);
    }
    logging::to_file(&prepared.out)?;
    let _web = demo(&mut prepared)?;
    warn_without_contact(args, &prepared.settings);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    // A DNS lookup may block its thread for long; do not wait for it.
    let (ended, console) = block_on(threads, Duration::from_millis(100), crawl(args, prepared))?;
    args.export.run(&ended.out)?;
    args.console.remain(console, &ended.settings, &ended.out)
}

/// Returns the crawl, still locked, if it has ended without an interruption, and the address of its console.
async fn crawl(args: &CrawlArgs, mut prepared: Prepared) -> Result<(Prepared, Option<SocketAddr>), Failure> {
    let clock = SystemClock;
    // A program that replaced itself with this one, as `cargo run` does, has already used CPU time of this process.
    let (begun, used) = (std::time::Instant::now(), usage::cpu_time());
    let mut pipeline = Pipeline::open(&prepared).await?;
    pipeline.report_panics();
    let _metrics = args.metrics.serve(pipeline.registry()).await?;
    definition::ensure(&*pipeline.log, &prepared.settings, clock.now()).await?;
    if !prepared.settings.seeded {
        seed(args, &mut prepared, &pipeline.log).await?;
    }
    let mut progress = Progress::new(&name(&prepared.settings, &prepared.out));
    let mut console = args.console.open(&pipeline, &prepared).await?;
    pipeline.start(&prepared.settings).await?;
    let end = watch(&mut pipeline, &prepared.settings, args.max_time, &mut progress, console.as_mut()).await;
    progress.finish();
    let address = console.as_ref().map(|console| console.address);
    console.as_ref().inspect(|console| console.stopping());
    let end = end?;
    // As long as all partitions are open: the frontier counts those only, and closes them one by one.
    let frontier = pipeline.frontier.figures();
    let stopped = tokio::select! {
        stopped = pipeline.stop() => stopped,
        // A second interrupt stops at once; unfinished work is repeated at the next start.
        _ = tokio::signal::ctrl_c() => {
            return Err(Failure::Stopped(format!(
                "stopped at once; `orbweaver crawl --out {}` resumes it",
                prepared.out.display()
            )));
        }
    };
    let flushed = stopped.and(pipeline.flush());
    // The first failure is the cause.
    let end = end.and_then(|by| flushed.map(|()| by));
    let by = *end.as_ref().unwrap_or(&EndedBy::Failed);
    if let Some(console) = console {
        console.end(by).await;
    }
    let mut summary = summary(&pipeline, frontier, by).await?;
    summary.seconds = begun.elapsed().as_secs_f64();
    summary.cpu_seconds = (usage::cpu_time() - used).as_secs_f64();
    drop(pipeline);
    Ok((finish(&summary, end, prepared)?, address))
}

/// Returns the results of a crawl that was stopped, without the times of this run. `frontier`: its figures before the
/// stop.
async fn summary(pipeline: &Pipeline, frontier: Figures, by: EndedBy) -> Result<Summary, Failure> {
    Ok(Summary {
        ended_by: by,
        pages: pipeline.exported.tally().fetched,
        urls: pipeline.exported.tally(),
        waiting: if by == EndedBy::Complete { 0 } else { frontier.waiting },
        asleep: frontier.asleep,
        next_visit: frontier.next_due_ms.filter(|_| frontier.asleep > 0).map(rfc3339),
        patterns_over_budget: frontier.over_budget,
        links: pipeline.links(),
        dead_letters: dead_letters(&*pipeline.log).await?,
        seconds: 0.0,
        cpu_seconds: 0.0,
        cpu_seconds_by_service: pipeline.cpu_seconds(),
        peak_rss_bytes: usage::peak_rss_bytes(),
    })
}

/// Appends all seeds to the log and makes them durable, then marks the crawl as seeded; a crash in between repeats
/// them.
async fn seed(args: &CrawlArgs, prepared: &mut Prepared, log: &EmbeddedLog) -> Result<(), Failure> {
    let mut writer = SeedWriter::new(log, SystemClock.now()).map_err(failed)?;
    for url in &prepared.settings.urls {
        writer.add(url.clone().into()).await.map_err(failed)?;
    }
    writer.flush().await.map_err(failed)?;
    if let Some(seeds) = &prepared.settings.seeds {
        if seeds == Path::new("-") && args.seeds.is_none() {
            let message = "was stopped before it had read all seeds from stdin; give them again with --seeds -";
            return Err(Failure::Input(format!("{}: {message}", prepared.out.display())));
        }
        writer.add_file(seeds).await?;
    }
    if writer.written() == 0 {
        return Err(Failure::NoSeed("no seeds: the seeds file has only blank lines and comments".to_owned()));
    }
    // A power cut may lose records that were acknowledged within the last second, so the mark must not precede the
    // flush. No stage runs yet that it could delay.
    log.flush().map_err(failed)?;
    prepared.settings.seeded = true;
    prepared.settings.write(&prepared.state)
}

fn finish(summary: &Summary, end: End, mut prepared: Prepared) -> Result<Prepared, Failure> {
    let out = &prepared.out;
    let written = summary.write(out);
    let by = end.map_err(|error| {
        failed(format!(
            "{error}\nnothing is lost: once the cause is fixed, `orbweaver crawl --out {}` resumes the crawl",
            out.display()
        ))
    })?;
    written?;
    notice!("{}", summary.text(out));
    if prepared.settings.warc {
        notice!("archive: {}", archive_to::shown(&prepared));
    }
    let again = format!("`orbweaver crawl --out {}` resumes it", out.display());
    match by {
        EndedBy::Interrupted => return Err(Failure::Stopped(format!("stopped before completion; {again}"))),
        EndedBy::MaxTime => return Err(Failure::Stopped(format!("--max-time was reached; {again}"))),
        EndedBy::MaxPages | EndedBy::Capped | EndedBy::Failed => return Ok(prepared),
        EndedBy::Complete | EndedBy::Asleep => {}
    }
    if summary.urls.answered() == 0 {
        let reasons = super::progress::outcomes(&summary.urls).join(", ");
        let private = summary.urls.refused.contains_key("private_address");
        let hint = if private { "; --allow-network and --allow-private also fetch from private addresses" } else { "" };
        let reasons = if reasons.is_empty() { "none is a valid URL to crawl".to_owned() } else { reasons };
        return Err(Failure::NoSeed(format!(
            "no seed could be fetched ({}): {reasons}{hint}; see {}",
            seeds(&prepared.settings),
            out.join("urls.jsonl").display()
        )));
    }
    if by == EndedBy::Asleep {
        notice!("`orbweaver crawl --out {}` makes the visits that are due", out.display());
        return Ok(prepared);
    }
    prepared.settings.complete = true;
    prepared.settings.write(&prepared.state)?;
    trim::trim(&prepared.state)?;
    Ok(prepared)
}

/// Returns a short description of the seeds.
fn seeds(settings: &Settings) -> String {
    let mut names: Vec<String> = settings.urls.iter().take(3).cloned().collect();
    if settings.urls.len() > 3 {
        names.push(format!("{} more", settings.urls.len() - 3));
    }
    names.extend(settings.seeds.as_ref().map(|path| path.display().to_string()));
    names.join(", ")
}

fn already_complete(prepared: &Prepared) -> Result<(), Failure> {
    trim::trim(&prepared.state)?;
    let summary: Option<Summary> = read_whole(&prepared.out.join("summary.json")).unwrap_or_default();
    let pages = summary.map(|summary| format!(": {} pages", summary.pages)).unwrap_or_default();
    notice!("{}: the crawl is complete{pages}; there is nothing left to do", prepared.out.display());
    Ok(())
}

/// Counts the dead letters of a log.
pub(super) async fn dead_letters(log: &dyn Log) -> Result<u64, Failure> {
    let tps = topic_partitions(log, &[DEAD_LETTERS]).map_err(failed)?;
    let bounds = log.all_bounds(&tps).await.map_err(failed)?;
    Ok(bounds.iter().map(|bounds| bounds.end - bounds.start).sum())
}

/// Serves the demo web; a resumed crawl gets the port of the first run.
fn demo(prepared: &mut Prepared) -> Result<Option<ToyWeb>, Failure> {
    if !prepared.settings.demo {
        return Ok(None);
    }
    let known = prepared.settings.urls.first().and_then(|url| parse(url).ok()).and_then(|url| url.port());
    let serving = Serving { port: known.unwrap_or(0), logging: Logging::Count };
    let web = ToyWeb::start_demo(&serving).map_err(|error| failed(format!("the demonstration web: {error}")))?;
    if known.is_none() {
        prepared.settings.urls = vec![web.start_url().to_owned()];
        prepared.settings.write(&prepared.state)?;
    }
    Ok(Some(web))
}

/// Returns a human-readable name of the crawl: the host of its first seed, or the output directory.
pub(crate) fn name(settings: &Settings, out: &Path) -> String {
    let first = settings.urls.first().and_then(|url| parse(url).ok());
    let host = first.and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| out.display().to_string())
}

fn warn_without_contact(args: &CrawlArgs, settings: &Settings) {
    let loopback = |url: &String| {
        parse(url).is_ok_and(|url| match url.host() {
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        })
    };
    let only_loopback = settings.seeds.is_none() && settings.urls.iter().all(loopback);
    if args.contact.is_none() && !settings.user_agent.contains("(+") && !only_loopback {
        notice!(
            "orbweaver: warning: site owners cannot reach you: add --contact mailto:you@example.org (the user agent is \
             `{}`)",
            settings.user_agent
        );
    }
}

#[cfg(test)]
mod tests;
