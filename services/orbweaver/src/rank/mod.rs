//! `orbweaver rank`: the importance of the sites of a crawl by the links between them, as weights of the frontier.

pub mod args;
mod graph;
mod pagerank;
mod print;
mod publish;
mod weights;

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use orbweaver_url::WideDomains;

use self::{
    args::RankArgs,
    graph::{DocumentLine, Filling, SiteGraph},
    pagerank::{Settings as Iteration, pagerank},
    weights::{RankedSite, ranked},
};
use crate::{
    crawl::settings::Settings,
    exit::{Failure, failed},
    interrupt::interruptible,
    output::to_stdout,
    results::Lines,
};

/// Number of iterations between two notices.
const NOTICE_EVERY: u32 = 10;

/// Runs `orbweaver rank`.
///
/// # Errors
/// Fails if the results cannot be read, the ranks do not converge, or they cannot be published.
pub fn run(args: &RankArgs) -> Result<(), Failure> {
    // Before a computation that may take long.
    let target = args.publish.map(|_| publish::Target::check(args)).transpose()?;
    let ranking = args.clone();
    let sites = interruptible(move |stop| rank(&ranking, stop))?;
    to_stdout(|out| print::print(out, &sites, args.format, args.top))?;
    match (target, args.publish) {
        (Some(target), Some(number)) => target.publish(&sites, number as usize),
        _ => Ok(()),
    }
}

fn rank(args: &RankArgs, stop: &AtomicBool) -> Result<Vec<RankedSite>, Failure> {
    let graph = read(&args.dir, stop)?;
    let (sites, links) = (graph.sites.len(), graph.edges.len());
    notice!("{sites} sites, {links} links between them");
    let iteration = Iteration { damping: args.damping, tolerance: args.tolerance, max_iterations: args.max_iterations };
    let ranks = pagerank(sites, &graph.edges, iteration, |number, change| {
        if number % NOTICE_EVERY == 0 {
            notice!("iteration {number}: the ranks changed by {change:.1e}");
        }
    });
    if !ranks.has_converged {
        let change = ranks.change;
        return Err(Failure::Unprocessed(format!(
            "the ranks have not converged after {} iterations: the last one changed them by {change:.1e}, more than --tolerance {:e}",
            ranks.iterations, args.tolerance
        )));
    }
    notice!("converged after {} iterations: the last one changed the ranks by {:.1e}", ranks.iterations, ranks.change);
    Ok(ranked(graph, &ranks))
}

/// Reads the links of all documents.
fn read(dir: &Path, stop: &AtomicBool) -> Result<SiteGraph, Failure> {
    let documents = Lines::find(dir, "documents.jsonl")?.up_to_checkpoint(dir)?;
    let wide = Settings::read(&dir.join("state"))?.map(|settings| settings.wide_domains).unwrap_or_default();
    let mut graph = Filling::new(WideDomains::new(&wide).map_err(failed)?);
    documents.each::<Failure>(|line| {
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped("stopped: nothing was published".to_owned()));
        }
        let parsed = serde_json::from_slice::<DocumentLine<'_>>(line).map_err(|error| error.to_string());
        Ok(parsed.and_then(|document| graph.add(&document)))
    })?;
    Ok(graph.finish())
}
