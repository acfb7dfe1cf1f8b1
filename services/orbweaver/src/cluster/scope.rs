//! `orbweaver scope`: shows the definition of a crawl, and changes it while the crawl runs.

use orbweaver_log::Log;
use orbweaver_messages::CrawlDefinition;
use orbweaver_scope::{Applied, Revision};
use orbweaver_stage::{Clock as _, SystemClock};
use orbweaver_url::{CrawlName, WideDomains};
use serde::Serialize;

use super::{
    args::{ScopeSet, ScopeVerb},
    connection::block_on,
};
use crate::{
    crawl::definition::{self, Revised},
    exit::Failure,
    export::rfc3339,
    tools::{json_line, to_stdout},
};

/// Runs `orbweaver scope`.
///
/// # Errors
/// Fails if there is no such crawl, the change is not allowed, another change came first, or the log fails.
pub fn run(verb: &ScopeVerb) -> Result<(), Failure> {
    block_on(async {
        match verb {
            ScopeVerb::Show { name, json, cluster } => show(&cluster.connect().await?, name, *json).await,
            ScopeVerb::Set(set) => {
                let revision = revision(set)?;
                let log = set.cluster.connect().await?;
                change(&log, set, revision).await
            }
        }
    })
}

/// A definition as printed by `scope show --json`.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    version: u64,
    definition: &'a CrawlDefinition,
    /// Reason why the last definition that was written does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

async fn show(log: &dyn Log, name: &CrawlName, json: bool) -> Result<(), Failure> {
    let definitions = definition::definitions(log).await?;
    let refused = definitions.refused(name).map(ToString::to_string);
    let Some(applied) = definitions.applied(name) else { return Err(missing(name, refused)) };
    let shown = Shown { version: applied.version, definition: &applied.definition, refused };
    to_stdout(|out| if json { json_line(out, &shown) } else { writeln!(out, "{}", text(applied, &shown)) })
}

fn missing(name: &CrawlName, refused: Option<String>) -> Failure {
    match refused {
        Some(reason) => Failure::Output(format!("the definition of the crawl `{name}` cannot be used: {reason}")),
        None => Failure::Usage(format!(
            "there is no crawl `{name}`: define it with `orbweaver crawl --brokers … --crawl {name} …`"
        )),
    }
}

fn text(applied: &Applied, shown: &Shown<'_>) -> String {
    let CrawlDefinition { name, scope, include, exclude, max_depth, max_pages, traps, pins, created_at_ms, .. } =
        &applied.definition;
    let list = |texts: &[String]| if texts.is_empty() { "none".to_owned() } else { texts.join("\n               ") };
    let depth = max_depth.map_or_else(|| "none".to_owned(), |depth| depth.to_string());
    let pages = max_pages.map_or_else(|| "none".to_owned(), |pages| pages.to_string());
    let mut lines = vec![
        format!("crawl `{name}`, version {} of its definition", applied.version),
        format!("  scope        {}", scope.name()),
        format!("  include      {}", list(include)),
        format!("  exclude      {}", list(exclude)),
        format!("  max depth    {depth}"),
        format!("  max pages    {pages}"),
        format!("  traps        {}", traps.name()),
        format!("  canonical    {}", pins.canonical_policy),
        format!("  wide domains {}", list(&pins.wide_domains)),
        format!("  created      {}", rfc3339(*created_at_ms)),
    ];
    if let Some(reason) = &shown.refused {
        lines.push(format!("a later definition cannot be used, and has no effect: {reason}"));
    }
    lines.join("\n")
}

/// Returns the change that is requested. Validates it as far as possible before the cluster is contacted.
fn revision(set: &ScopeSet) -> Result<Revision, Failure> {
    let revision = set.extent.revision();
    let pinned = set.canonical.is_some() || !set.wide_domain.is_empty();
    if revision == Revision::default() && !pinned {
        return Err(Failure::Usage(
            "no change was given: give --scope, --include, --exclude, --max-depth, --max-pages or --traps".to_owned(),
        ));
    }
    Ok(revision)
}

async fn change(log: &dyn Log, set: &ScopeSet, revision: Revision) -> Result<(), Failure> {
    let name = &set.name;
    let definitions = definition::definitions(log).await?;
    let refused = definitions.refused(name).map(ToString::to_string);
    let Some(applied) = definitions.applied(name) else { return Err(missing(name, refused)) };
    pinned(set, &applied.definition)?;
    let said = match definition::revise(log, name, revision, set.expect, SystemClock.now()).await? {
        Revised::Unchanged(version) => format!("crawl `{name}`: version {version} already has these values"),
        Revised::Changed(version, before) => format!("crawl `{name}`: version {version} applies, in place of {before}"),
    };
    to_stdout(|out| writeln!(out, "{said}"))
}

/// Checks that options which cannot change were given with their current values.
fn pinned(set: &ScopeSet, definition: &CrawlDefinition) -> Result<(), Failure> {
    let wide = WideDomains::new(&set.wide_domain).map_err(|error| Failure::Usage(format!("--wide-domain {error}")))?;
    let wide: Vec<&str> = wide.iter().collect();
    let pins = &definition.pins;
    let given = [
        ("--canonical", &pins.canonical_policy, set.canonical.map(|policy| policy.to_string())),
        ("--wide-domain", &pins.wide_domains.join(" "), (!wide.is_empty()).then(|| wide.join(" "))),
    ];
    for (option, was, is) in given {
        if let Some(is) = is.filter(|is| is != was) {
            return Err(Failure::Usage(format!(
                "{option} was `{was}` when the crawl `{}` was created and is now `{is}`: it cannot change, since it \
                 determines the keys of the pages; start another crawl",
                definition.name
            )));
        }
    }
    Ok(())
}
