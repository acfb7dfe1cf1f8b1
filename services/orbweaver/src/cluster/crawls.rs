//! `orbweaver crawls`: creates, lists and shows the crawls of a cluster, and changes, pauses, resumes,
//! stops and deletes running ones.

use orbweaver_frontier::pages::CrawlCounts;
use orbweaver_log::Log;
use orbweaver_messages::{CrawlDefinition, FetchProfile, Millis, Scope, crawl_key, topic::CONTROL};
use orbweaver_scope::{Applied, Revision, Version};
use orbweaver_stage::{Clock as _, SystemClock, crawl_completion::CrawlTotals};
use orbweaver_url::{CrawlName, WideDomains};
use serde::Serialize;

use super::{
    args::{CrawlsCreate, CrawlsSet, CrawlsTarget, CrawlsVerb},
    caps::Caps,
    connection::block_on,
    consumers,
    crawl::wide,
    delete, profile,
};
use crate::{
    crawl::{
        definition::{self, Revised},
        order,
        progress::number,
        revisit,
    },
    exit::{Failure, failed},
    export::rfc3339,
    output::{json_line, to_stdout},
};

/// Runs `orbweaver crawls`.
///
/// # Errors
/// Fails if there is no such crawl, the change is not allowed, another change came first, or the log fails.
pub fn run(verb: &CrawlsVerb) -> Result<(), Failure> {
    block_on(async {
        match verb {
            CrawlsVerb::Create(new) => {
                let profile = new.profile.given()?;
                definition::check_settings(Revision { share: new.share.share, ..new.extent.revision() })?;
                create(&new.cluster.connect().await?, new, profile).await
            }
            CrawlsVerb::List { json, cluster } => list(&cluster.connect().await?, *json).await,
            CrawlsVerb::Show { name, json, cluster } => {
                let log = cluster.connect().await?;
                show(&log, &definition::resolve(&log, name).await?, *json).await
            }
            CrawlsVerb::Set(set) => {
                let given = given(set)?;
                let log = set.target.cluster.connect().await?;
                consumers::check_archiver(&log, &given).await?;
                pinned(set, &applied(&log, &definition::resolve(&log, &set.target.name).await?).await?)?;
                change(&log, &set.target, |current| revision(set, &given, current)).await
            }
            CrawlsVerb::Pause { target } => pause(target, true).await,
            CrawlsVerb::Resume { target } => pause(target, false).await,
            CrawlsVerb::Stop { target } => stop(target).await,
            CrawlsVerb::Delete(args) => delete::run(args).await,
        }
    })
}

async fn pause(target: &CrawlsTarget, paused: bool) -> Result<(), Failure> {
    // A stopped crawl can be neither paused nor resumed.
    let revision = Revision { paused: Some(paused), stopped: Some(false), ..Revision::default() };
    change(&target.cluster.connect().await?, target, |_| revision).await
}

async fn stop(target: &CrawlsTarget) -> Result<(), Failure> {
    let revision = Revision { stopped: Some(true), paused: Some(false), ..Revision::default() };
    change(&target.cluster.connect().await?, target, |_| revision).await
}

async fn create(log: &dyn Log, new: &CrawlsCreate, profile: FetchProfile) -> Result<(), Failure> {
    let CrawlsCreate { name, extent, canonical, wide_domain, .. } = new;
    consumers::check_archiver(log, &profile).await?;
    let name = &definition::resolve(log, name).await?;
    if definition::find(log, name).await?.is_some() {
        let exists = format!("the crawl `{name}` exists; change it with `orbweaver crawls set {name}`");
        return Err(Failure::Usage(exists));
    }
    let wide = wide(definition::wide_domains(log).await?, wide_domain)?;
    let partitions = log.partitions(CONTROL).map_err(failed)?;
    let pins = definition::pins(partitions, canonical.unwrap_or_default(), wide);
    let now = SystemClock.now();
    let plain = definition::new(name, extent.scope.unwrap_or(Scope::Host), pins, now);
    let revision = Revision { profile: Some(profile), share: new.share.share, ..extent.revision() };
    let wanted = revision.of(&plain).map_err(|error| definition::refused(&error))?;
    let version = write_new(log, wanted, now).await?;
    to_stdout(|out| writeln!(out, "crawl `{name}`: created as version {version}"))
}

/// Appends the definition of a new crawl. Fails if another command has created the crawl first.
async fn write_new(log: &dyn Log, wanted: CrawlDefinition, now: Millis) -> Result<Version, Failure> {
    let name = &wanted.name.clone();
    // Names a version that is never in force: of two writers, the later one does not replace the earlier one's crawl.
    let version = definition::write(log, &CrawlDefinition { replaces: vec![Version::MAX], ..wanted }, now).await?;
    let key = crawl_key(name);
    let after =
        definition::read_back(log, &key, |log| Box::pin(definition::definitions(log)), |after| after.repair(name), now)
            .await?;
    if !after.has_applied(name, version) {
        let first = format!("the crawl `{name}` was created by another command first: nothing was changed");
        return Err(Failure::Stopped(first));
    }
    Ok(version)
}

/// A crawl as printed by `crawls list --json` and `crawls show --json`.
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
    version: Version,
    state: &'static str,
    /// Fetched pages, as far as the frontiers have recorded them.
    pages: u64,
    /// Decoded bytes of their bodies, and of those of revisits.
    bytes: u64,
    /// URLs in the frontier, leased ones included, as far as the frontiers have recorded them.
    queued: u64,
    /// URLs that sleep until their next visit, as far as the frontiers have recorded them.
    asleep: u64,
    /// Dispatches without an outcome.
    in_flight: u64,
    definition: &'a CrawlDefinition,
    /// Whether the crawl is complete, or at its cap; absent if that was not determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) complete: Option<bool>,
    /// Reason why the last definition that was written does not apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl<'a> Shown<'a> {
    pub(super) fn of(caps: &Caps, applied: &'a Applied) -> Self {
        let Applied { version, definition, .. } = applied;
        let refused = caps.definitions().refused(&definition.name).map(ToString::to_string);
        let CrawlCounts { pages, bytes, leased, live, asleep } = caps.counts(&definition.name);
        let is_at_cap = caps.is_at_cap(&definition.name);
        let state = match definition {
            CrawlDefinition { stopped: true, .. } => "stopped",
            CrawlDefinition { paused: true, .. } => "paused",
            _ if is_at_cap => "at its cap",
            _ => "running",
        };
        let (version, queued, in_flight) = (*version, live, leased);
        Self { version, state, pages, bytes, queued, asleep, in_flight, complete: None, definition, refused }
    }

    /// Sets the counts to those of the proof that the crawl is complete.
    pub(super) fn set_totals(&mut self, totals: CrawlTotals) {
        let CrawlTotals { live, asleep, pages, bytes, .. } = totals;
        // An owner of an earlier version answers without pages.
        (self.pages, self.bytes) = (self.pages.max(pages), self.bytes.max(bytes));
        (self.queued, self.asleep, self.in_flight) = (live, asleep, 0);
    }

    /// Returns the line of `crawls list`.
    fn line(&self) -> String {
        let CrawlDefinition { name, scope, max_pages, created_at_ms, .. } = self.definition;
        let max = max_pages.map_or_else(|| "none".to_owned(), number);
        let (state, pages, scope) = (self.state, number(self.pages), scope.name());
        let queued = number(self.queued);
        format!("{name:<24} {state:<11}{pages:>13}{queued:>13}{max:>13}  {scope:<6}{}", rfc3339(*created_at_ms))
    }

    /// Returns the line of `status --crawl`.
    pub(super) fn status(&self) -> String {
        let (name, pages, queued) = (&self.definition.name, number(self.pages), number(self.queued));
        let complete = match self.complete {
            Some(true) if self.queued > 0 => "complete up to its cap",
            Some(true) if self.definition.stopped => "stopped and complete",
            Some(true) if self.asleep > 0 => "all visits made that were due",
            Some(true) => "complete",
            Some(false) | None => self.state,
        };
        let asleep = match self.definition.revisit {
            Some(_) => format!(", {} asleep until their next visit", number(self.asleep)),
            None => String::new(),
        };
        let in_flight = number(self.in_flight);
        format!("crawl `{name}`: {complete}: {pages} pages, {queued} queued, {in_flight} in flight{asleep}")
    }

    /// Returns the text of `crawls show`.
    fn text(&self) -> String {
        let CrawlDefinition { name, scope, include, exclude, max_depth, max_pages, traps, pins, .. } = self.definition;
        let list =
            |texts: &[String]| if texts.is_empty() { "none".to_owned() } else { texts.join("\n               ") };
        let depth = max_depth.map_or_else(|| "none".to_owned(), |depth| depth.to_string());
        let pages = max_pages.map_or_else(|| "none".to_owned(), number);
        let per_site = self.definition.max_pages_per_site.map_or_else(|| "none".to_owned(), number);
        let mut lines = vec![
            format!("crawl `{name}`, version {} of its definition", self.version),
            format!("  state        {}", self.state),
            format!("  pages        {}", number(self.pages)),
            format!("  bytes        {}", number(self.bytes)),
            format!("  queued       {}", number(self.queued)),
            format!("  in flight    {}", number(self.in_flight)),
            format!("  asleep       {}", number(self.asleep)),
            format!("  scope        {}", scope.name()),
            format!("  include      {}", list(include)),
            format!("  exclude      {}", list(exclude)),
            format!("  max depth    {depth}"),
            format!("  external     {}", if self.definition.check_external { "checked" } else { "not checked" }),
            format!("  max pages    {pages}"),
            format!("  per site     {per_site}"),
            format!("  traps        {}", traps.name()),
            format!("  order        {}", order::shown(&self.definition.order)),
            format!("  share        {}", number(self.definition.share.into())),
            format!("  revisits     {}", revisit::shown(self.definition.revisit.as_ref())),
            format!("  canonical    {}", pins.canonical_policy),
            format!("  wide domains {}", list(&pins.wide_domains)),
            format!("  created      {}", rfc3339(self.definition.created_at_ms)),
        ];
        lines.extend(profile::lines(&self.definition.profile));
        if let Some(reason) = &self.refused {
            lines.push(format!("a later definition cannot be used, and has no effect: {reason}"));
        }
        lines.join("\n")
    }
}

async fn list(log: &dyn Log, json: bool) -> Result<(), Failure> {
    let mut caps = Caps::default();
    caps.update(log, |_| {}).await?;
    to_stdout(|out| {
        if !json {
            let (crawl, state, pages, queued, max, scope) = ("crawl", "state", "pages", "queued", "max pages", "scope");
            writeln!(out, "{crawl:<24} {state:<11}{pages:>13}{queued:>13}{max:>13}  {scope:<6}created")?;
        }
        for (_, applied) in caps.definitions().all() {
            let shown = Shown::of(&caps, applied);
            if json { json_line(out, &shown)? } else { writeln!(out, "{}", shown.line())? }
        }
        Ok(())
    })
}

async fn show(log: &dyn Log, name: &CrawlName, json: bool) -> Result<(), Failure> {
    let mut caps = Caps::default();
    caps.update(log, |_| {}).await?;
    let refused = caps.definitions().refused(name).map(ToString::to_string);
    let Some(applied) = caps.definitions().applied(name) else { return Err(missing(name, refused)) };
    let shown = Shown::of(&caps, applied);
    to_stdout(|out| if json { json_line(out, &shown) } else { writeln!(out, "{}", shown.text()) })
}

/// Returns the definition that applies to a crawl.
async fn applied(log: &dyn Log, name: &CrawlName) -> Result<CrawlDefinition, Failure> {
    definition::find(log, name).await?.ok_or_else(|| missing(name, None))
}

pub(super) fn missing(name: &CrawlName, refused: Option<String>) -> Failure {
    let (name, _) = name.incarnation();
    match refused {
        Some(reason) => Failure::Output(format!("the definition of the crawl `{name}` cannot be used: {reason}")),
        None => Failure::Usage(format!("there is no crawl `{name}`: create it with `orbweaver crawls create {name}`")),
    }
}

/// Returns the given settings of the fetch profile. Validates the options as far as possible before the cluster is
/// contacted.
fn given(set: &CrawlsSet) -> Result<FetchProfile, Failure> {
    let given = set.profile.given()?;
    let others = Revision { share: set.share.share, ..set.extent.revision() };
    definition::check_settings(others.clone())?;
    let in_profile = set.default_profile || given != FetchProfile::default();
    let pinned = set.canonical.is_some() || !set.wide_domain.is_empty();
    if others == Revision::default() && !in_profile && !pinned {
        return Err(Failure::Usage(
            "no change was given: give --scope, --include, --exclude, --max-depth, --check-external, --max-pages, --max-pages-per-site, --max-bytes, \
             --until, --traps, --order, --revisit, --share, or a setting of requests, such as --rate"
                .to_owned(),
        ));
    }
    Ok(given)
}

/// Returns the requested change of a definition.
fn revision(set: &CrawlsSet, given: &FetchProfile, current: &CrawlDefinition) -> Revision {
    let present = if set.default_profile { FetchProfile::default() } else { current.profile.clone() };
    Revision { profile: Some(profile::merge(present, given)), share: set.share.share, ..set.extent.revision() }
}

async fn change(
    log: &dyn Log,
    target: &CrawlsTarget,
    revision: impl FnOnce(&CrawlDefinition) -> Revision,
) -> Result<(), Failure> {
    let CrawlsTarget { name, expect, .. } = target;
    let name = &definition::resolve(log, name).await?;
    applied(log, name).await?;
    let said = match definition::revise(log, name, revision, *expect, SystemClock.now()).await? {
        Revised::Unchanged(version) => format!("crawl `{name}`: version {version} already has these values"),
        Revised::Changed(version, before) => format!("crawl `{name}`: version {version} applies, in place of {before}"),
    };
    to_stdout(|out| writeln!(out, "{said}"))
}

/// Checks that options which cannot change were given with their current values.
fn pinned(set: &CrawlsSet, definition: &CrawlDefinition) -> Result<(), Failure> {
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use orbweaver_log::{Cleanup, MemoryLog, TopicPartition, TopicSpec};

    use super::*;

    #[derive(clap::Parser)]
    struct Command<A: clap::Args> {
        #[command(flatten)]
        arguments: A,
    }

    fn arguments<A: clap::Args>(words: &[&str]) -> A {
        let words = [&["crawls", "docs", "--brokers", "localhost:9"], words].concat();
        Command::try_parse_from(words).unwrap().arguments
    }

    fn log() -> MemoryLog {
        MemoryLog::new(&[TopicSpec { topic: CONTROL, partitions: 2, cleanup: Cleanup::Compact }])
    }

    async fn created(log: &MemoryLog, words: &[&str]) -> Result<(), Failure> {
        let new: CrawlsCreate = arguments(words);
        create(log, &new, new.profile.given()?).await
    }

    /// Runs `crawls set`. Returns the profile that applies then.
    async fn changed(log: &MemoryLog, words: &[&str]) -> Result<FetchProfile, Failure> {
        let set: CrawlsSet = arguments(words);
        let given = given(&set)?;
        change(log, &set.target, |current| revision(&set, &given, current)).await?;
        Ok(applied(log, &set.target.name).await?.profile)
    }

    #[tokio::test]
    async fn a_change_keeps_the_settings_of_the_profile_that_are_not_given_unless_it_resets_them() {
        let log = log();
        created(&log, &["--user-agent", "ShopBot/1", "--rate", "2/s", "--ignore-robots"]).await.unwrap();
        let (user_agent, interval_ms) = (Some("ShopBot/2".to_owned()), Some(500));
        let own = FetchProfile { user_agent, interval_ms, ..FetchProfile::default() };
        let expected = FetchProfile { ignore_robots: true, ..own.clone() };
        assert_eq!(changed(&log, &["--user-agent", "ShopBot/2"]).await.unwrap(), expected);
        assert_eq!(changed(&log, &["--scope", "any"]).await.unwrap(), expected);
        let again = ["--default-profile", "--user-agent", "ShopBot/2", "--rate", "2/s"];
        assert_eq!(changed(&log, &again).await.unwrap(), own);
        let late = changed(&log, &["--rate", "5/s", "--expect", "1"]).await.unwrap_err();
        assert_eq!(late.code(), 75, "{late}");
        assert_eq!(changed(&log, &["--default-profile"]).await.unwrap(), FetchProfile::default());
        let nothing = changed(&log, &[]).await.unwrap_err().to_string();
        assert!(nothing.contains("no change was given"), "{nothing}");
    }

    #[tokio::test]
    async fn a_crawl_that_was_created_by_another_command_first_applies_also_after_compaction() {
        let log = log();
        created(&log, &["--scope", "site"]).await.unwrap();
        let error = created(&log, &[]).await.unwrap_err();
        assert_eq!(error.code(), 64, "it exists");
        // As if this command had looked before the other one wrote.
        let applied = applied(&log, &"docs".parse().unwrap()).await.unwrap();
        let late = CrawlDefinition { scope: Scope::Any, replaces: vec![Version::MAX], ..applied };
        let error = write_new(&log, late, 0).await.unwrap_err();
        assert_eq!(error.code(), 75, "{error}");
        log.compact(TopicPartition::new(CONTROL, 0)).unwrap();
        let definitions = definition::definitions(&log).await.unwrap();
        let crawl = "docs".parse().unwrap();
        assert_eq!(definitions.applied(&crawl).unwrap().definition.scope, Scope::Site);
    }
}
