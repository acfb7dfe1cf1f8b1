//! Definition of the crawl in `crawl.control`: created once, checked at every start, changed on request.

#[cfg(feature = "cluster")]
use std::collections::BTreeMap;

use futures::future::BoxFuture;
use orbweaver_log::{Log, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{
    CrawlDefinition, CrawlOrder, FetchProfile, Millis, Pins, Scope, Traps, crawl_key, encode, topic::CONTROL,
};
use orbweaver_scope::{
    ACCEPTED_TYPES, ControlRecord, DEFINITIONS_PARTITION, Definitions, LONGEST_REVISIT, REVISIT_TYPES, Revision,
    RevisionError, SHORTEST_REVISIT, Version,
};
use orbweaver_url::{CrawlName, Policy, SUFFIX_LIST_VERSION};
use serde::Serialize;

#[cfg(feature = "cluster")]
use super::headers;
use super::settings::Settings;
use crate::exit::{Failure, failed};

/// Timeout per read of a record that must exist.
const READ_WAIT: std::time::Duration = std::time::Duration::from_secs(1);
/// Maximum number of times that an applied setting is appended again while others keep changing it.
const REPAIRS: u32 = 10;

/// Returns the pins of this program for a crawl with this policy and these wide domains, which must be sorted.
#[must_use]
pub fn pins(partitions: Partition, canonical: Policy, wide_domains: Vec<String>) -> Pins {
    Pins {
        partitions,
        suffix_list: SUFFIX_LIST_VERSION.to_owned(),
        canonical_policy: canonical.to_string(),
        wide_domains,
    }
}

/// Returns the definition of a new crawl without patterns and limits.
#[must_use]
pub fn new(name: &CrawlName, scope: Scope, pins: Pins, now: Millis) -> CrawlDefinition {
    CrawlDefinition {
        name: name.clone(),
        scope,
        include: vec![],
        exclude: vec![],
        max_depth: None,
        check_external: false,
        max_pages: None,
        max_pages_per_site: None,
        max_bytes: None,
        ends_at_ms: None,
        traps: Traps::default(),
        paused: false,
        stopped: false,
        deleted: false,
        profile: FetchProfile::default(),
        order: CrawlOrder::default(),
        share: CrawlDefinition::EQUAL_SHARE,
        revisit: None,
        pins,
        created_at_ms: now,
        replaces: vec![],
    }
}

/// Returns the definition that the settings require.
#[must_use]
pub fn of(settings: &Settings, partitions: Partition, now: Millis) -> CrawlDefinition {
    let pins = pins(partitions, settings.canonical, settings.wide_domains.clone());
    CrawlDefinition {
        include: settings.include.clone(),
        exclude: settings.exclude.clone(),
        max_depth: settings.max_depth,
        check_external: settings.check_external,
        max_pages: settings.max_pages,
        max_pages_per_site: settings.max_pages_per_site,
        max_bytes: settings.max_bytes,
        ends_at_ms: settings.ends_at_ms,
        traps: settings.traps,
        order: settings.order,
        revisit: settings.revisit.clone(),
        ..new(&CrawlName::default(), settings.scope, pins, now)
    }
}

/// Makes sure that the log holds the crawl's definition as the settings require it, not paused, and that this program names and
/// places URLs as pinned there (docs/protocol.md#one-partition).
///
/// # Errors
/// Fails if the log fails, or if the crawl was created by a program that places URLs in another way.
pub async fn ensure(log: &dyn Log, settings: &Settings, now: Millis) -> Result<(), Failure> {
    let wanted = of(settings, log.partitions(CONTROL).map_err(failed)?, now);
    let Some(known) = find(log, &CrawlName::default()).await? else { return write(log, &wanted, now).await.map(drop) };
    if known.pins != wanted.pins {
        return Err(Failure::Output(format!(
            "the crawl was created with {:?}, this program has {:?}: resume it with the version that created it, \
             or start a new crawl",
            known.pins, wanted.pins
        )));
    }
    let CrawlDefinition { scope, include, exclude, max_depth, check_external, traps, order, revisit, .. } = wanted;
    let CrawlDefinition { max_pages, max_pages_per_site, max_bytes, ends_at_ms, .. } = wanted;
    let revision = Revision {
        scope: Some(scope),
        include: Some(include),
        exclude: Some(exclude),
        max_depth: Some(max_depth),
        check_external: Some(check_external),
        max_pages: Some(max_pages),
        max_pages_per_site: Some(max_pages_per_site),
        max_bytes: Some(max_bytes),
        ends_at_ms: Some(ends_at_ms),
        traps: Some(traps),
        order: Some(order),
        revisit: Some(revisit),
        paused: Some(false),
        ..Revision::default()
    };
    revise(log, &CrawlName::default(), |_| revision, None, now).await.map(drop)
}

/// Result of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revised {
    /// No change was necessary: this version already applies.
    Unchanged(Version),
    /// The first version applies in place of the second.
    Changed(Version, Version),
}

/// Changes a crawl by a revision of its definition. Returns once it is known that the change applies. With
/// `expected`, changes it only if that version applies now.
///
/// # Errors
/// Fails if there is no such crawl, the change is not allowed, another change came first, or the log fails.
pub async fn revise(
    log: &dyn Log,
    name: &CrawlName,
    revision: impl FnOnce(&CrawlDefinition) -> Revision,
    expected: Option<Version>,
    now: Millis,
) -> Result<Revised, Failure> {
    let before = definitions(log).await?;
    let missing = || Failure::Usage(format!("there is no crawl `{name}`"));
    let was = before.applied(name).ok_or_else(missing)?;
    let first = |version: Version| {
        Failure::Stopped(format!(
            "another change of the crawl `{name}` came first: version {version} applies, and nothing was changed; \
             check it with `orbweaver crawls show`, then repeat the command"
        ))
    };
    if expected.is_some_and(|expected| expected != was.version) {
        return Err(first(was.version));
    }
    let revised = before.revised(name, revision(&was.definition)).ok_or_else(missing)?;
    let revised = revised.map_err(|error| refused(&error))?;
    let same = CrawlDefinition { replaces: was.definition.replaces.clone(), ..revised.clone() } == was.definition;
    let own = if same { None } else { Some(write(log, &revised, now).await?) };
    let after =
        read_back(log, &crawl_key(name), |log| Box::pin(definitions(log)), |after| after.repair(name), now).await?;
    match own {
        None => Ok(Revised::Unchanged(was.version)),
        Some(own) if after.has_applied(name, own) => Ok(Revised::Changed(own, was.version)),
        Some(_) => Err(first(after.applied(name).map_or(was.version, |applied| applied.version))),
    }
}

/// Appends a definition and returns its offset.
pub async fn write(log: &dyn Log, definition: &CrawlDefinition, now: Millis) -> Result<Offset, Failure> {
    append(log, &crawl_key(&definition.name), definition, now).await
}

/// Appends a setting to `crawl.control` and returns its offset.
pub async fn append(log: &dyn Log, key: &str, setting: &impl Serialize, now: Millis) -> Result<Offset, Failure> {
    let offsets = log.append(vec![record(key, setting, now)]).await.map_err(failed)?;
    Ok(offsets.first().copied().unwrap_or_default())
}

/// Returns the record of a setting.
pub fn record(key: &str, setting: &impl Serialize, now: Millis) -> Record {
    let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
    Record::new(tp, Some(key.to_owned().into()), Some(encode(setting)), now)
}

/// Reads settings back after a change: the log does not reject a record that comes too late, so that only this shows
/// whether it applies. Appends the records that `repair` returns until none is needed.
pub async fn read_back<S, R: Serialize>(
    log: &dyn Log,
    key: &str,
    read: impl Fn(&dyn Log) -> BoxFuture<'_, Result<S, Failure>> + Sync,
    repair: impl Fn(&S) -> Option<R>,
    now: Millis,
) -> Result<S, Failure> {
    let mut settings = read(log).await?;
    for _ in 0..REPAIRS {
        let Some(repair) = repair(&settings) else { break };
        append(log, key, &repair, now).await?;
        settings = read(log).await?;
    }
    Ok(settings)
}

/// Returns the definition of a crawl that applies.
pub async fn find(log: &dyn Log, name: &CrawlName) -> Result<Option<CrawlDefinition>, Failure> {
    let definitions = definitions(log).await?;
    match (definitions.applied(name), definitions.refused(name)) {
        (Some(applied), _) => Ok(Some(applied.definition.clone())),
        (None, Some(reason)) => {
            Err(Failure::Output(format!("the definition of the crawl `{name}` cannot be used: {reason}")))
        }
        (None, None) => Ok(None),
    }
}

/// Returns the name of the crawl that users mean by a name: the last one that was created with it, or, if that was deleted,
/// the next one, which does not exist yet.
#[cfg(feature = "cluster")]
pub async fn resolve(log: &dyn Log, name: &CrawlName) -> Result<CrawlName, Failure> {
    match definitions(log).await?.latest(name) {
        Some((latest, applied)) if applied.definition.deleted => {
            latest.next_incarnation().map_err(|error| Failure::Usage(error.to_string()))
        }
        Some((latest, _)) => Ok(latest.clone()),
        None if name.incarnation().1 > 1 => Err(Failure::Usage(format!(
            "there is no crawl `{name}`, and none can be created with this name: a number after `#` is given to a crawl whose name \
             a deleted one had"
        ))),
        None => Ok(name.clone()),
    }
}

/// Returns the definitions of all crawls.
pub async fn definitions(log: &dyn Log) -> Result<Definitions, Failure> {
    read(log, |definitions: &mut Definitions, record| drop(definitions.apply(record))).await
}

/// Returns the wide domains of the pipeline, as pinned by its crawls; `None` if it has no crawl yet.
pub async fn wide_domains(log: &dyn Log) -> Result<Option<Vec<String>>, Failure> {
    Ok(definitions(log).await?.all().next().map(|(_, applied)| applied.definition.pins.wide_domains.clone()))
}

/// Returns the headers of `--header` for a definition, which every reader of the log can see; names are in lower case.
///
/// # Errors
/// Fails if a header is malformed or may be a secret, or a file with headers cannot be read.
#[cfg(feature = "cluster")]
pub fn public_headers(given: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let read = headers::read(given)?;
    if let Some((name, _)) = read.iter().find(|(name, _)| headers::is_secret(name)) {
        return Err(Failure::Usage(format!(
            "--header: every reader of the log could see the value of `{name}` in crawl.control; set `fetcher.headers` \
             of the services, which send it for all crawls"
        )));
    }
    Ok(read.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value)).collect())
}

/// Reads settings: passes all records that may be definitions or declarations to `apply`, in order, up to the current
/// log end.
pub async fn read<S: Default>(log: &dyn Log, apply: impl Fn(&mut S, ControlRecord<'_>)) -> Result<S, Failure> {
    let mut settings = S::default();
    let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
    let bounds = log.bounds(tp).await.map_err(failed)?;
    let mut reader = log.reader(tp, bounds.start).await.map_err(failed)?;
    while reader.position() < bounds.end {
        for record in reader.read(READ_WAIT).await.map_err(failed)? {
            record.check_readable().map_err(failed)?;
            let (key, value) = (record.key.as_deref(), record.value.as_ref());
            apply(&mut settings, ControlRecord { partition: tp.partition, offset: record.offset, key, value });
        }
    }
    Ok(settings)
}

/// Checks settings before the cluster is contacted: since they do not depend on each other, those that one crawl may have
/// are permitted in every crawl.
#[cfg(feature = "cluster")]
pub fn check_settings(revision: Revision) -> Result<(), Failure> {
    let pins = pins(1, Policy::default(), vec![]);
    let any = new(&CrawlName::default(), revision.scope.unwrap_or(Scope::Host), pins, 0);
    revision.of(&any).map(drop).map_err(|error| refused(&error))
}

/// Returns the error for an invalid definition, with the option that caused it.
#[must_use]
pub fn refused(error: &RevisionError) -> Failure {
    let option = match error {
        RevisionError::Patterns(error) => error.list(),
        RevisionError::Narrower { .. } => "scope",
        RevisionError::Setting(error) => match error.setting {
            "user_agent" => "user-agent",
            "headers" => "header",
            "interval_ms" => "rate",
            "max_body_bytes" => "max-body",
            ACCEPTED_TYPES => "accept",
            "depth_percent" | "half_life_ms" | "answers_percent" => "order",
            SHORTEST_REVISIT | LONGEST_REVISIT | REVISIT_TYPES => "revisit",
            setting => setting,
        },
        RevisionError::Pinned { .. }
        | RevisionError::Stopped(_)
        | RevisionError::Running(_)
        | RevisionError::Deleted(_) => return Failure::Usage(error.to_string()),
    };
    Failure::Usage(format!("--{option}: {error}"))
}
