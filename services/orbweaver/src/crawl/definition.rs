//! The crawl's definition in `crawl.control`: made once, checked at every start, changed on request.

use bytes::Bytes;
use orbweaver_log::{Log, Offset, Partition, Record, TopicPartition};
use orbweaver_messages::{CrawlDefinition, Millis, Pins, crawl_key, encode, topic::CONTROL};
#[cfg(feature = "cluster")]
use orbweaver_scope::Definitions;
use orbweaver_scope::{ControlRecord, DEFINITIONS_PARTITION, Revision, RevisionError, Standing, Version};
use orbweaver_url::{Policy, SUFFIX_LIST_VERSION};

use super::{CRAWL, settings::Settings};
use crate::exit::Failure;

/// How long a record that must be there is waited for at a time.
const READ_WAIT: std::time::Duration = std::time::Duration::from_secs(1);
/// How often what applies is appended once more when others change the crawl all the time.
const REPAIRS: u32 = 10;

/// What this program would pin for a crawl with this policy and these wide domains, which are sorted.
#[must_use]
pub fn pins(partitions: Partition, canonical: Policy, wide_domains: Vec<String>) -> Pins {
    Pins {
        partitions,
        suffix_list: SUFFIX_LIST_VERSION.to_owned(),
        canonical_policy: canonical.to_string(),
        wide_domains,
    }
}

/// The definition that settings ask for.
#[must_use]
pub fn of(settings: &Settings, partitions: Partition, now: Millis) -> CrawlDefinition {
    CrawlDefinition {
        name: CRAWL.to_owned(),
        scope: settings.scope.into(),
        include: settings.include.clone(),
        exclude: settings.exclude.clone(),
        max_depth: settings.max_depth,
        max_pages: settings.max_pages,
        traps: settings.traps,
        pins: pins(partitions, settings.canonical, settings.wide_domains.clone()),
        created_at_ms: now,
        replaces: vec![],
    }
}

/// Makes sure that the log holds the crawl's definition as the settings have it, and that this program names and places URLs
/// as it says (rule 12).
///
/// # Errors
/// When the log fails, or the crawl was created by a program that places URLs in another way.
pub async fn ensure(log: &dyn Log, settings: &Settings, now: Millis) -> Result<(), Failure> {
    let wanted = of(settings, log.partitions(CONTROL).map_err(failed)?, now);
    let Some(known) = find(log, CRAWL).await? else { return write(log, &wanted, now).await.map(drop) };
    if known.pins != wanted.pins {
        return Err(Failure::Output(format!(
            "the crawl was created with {:?}, this program has {:?}: go on with the version that created it, or begin anew",
            known.pins, wanted.pins
        )));
    }
    let CrawlDefinition { scope, include, exclude, max_depth, max_pages, traps, .. } = wanted;
    let revision = Revision {
        scope: Some(scope),
        include: Some(include),
        exclude: Some(exclude),
        max_depth: Some(max_depth),
        max_pages: Some(max_pages),
        traps: Some(traps),
    };
    revise(log, CRAWL, revision, None, now).await.map(drop)
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revised {
    /// It was so already, by this version.
    Unchanged(Version),
    /// This version applies in place of that one.
    Changed(Version, Version),
}

/// Changes a crawl; resolves when it is known that the change applies. With `expected`, only if that version applies now.
///
/// # Errors
/// When there is no such crawl, it may not be changed so, another change came first, or the log fails.
pub async fn revise(
    log: &dyn Log,
    name: &str,
    revision: Revision,
    expected: Option<Version>,
    now: Millis,
) -> Result<Revised, Failure> {
    let before = standing(log, name).await?;
    let missing = || Failure::Usage(format!("there is no crawl `{name}`"));
    let was = before.applied().ok_or_else(missing)?;
    let first = |version: Version| {
        Failure::Stopped(format!(
            "another change of the crawl `{name}` came first: version {version} applies, and yours changes nothing; look at it \
             with `orbweaver scope show`, and give the command again"
        ))
    };
    if expected.is_some_and(|expected| expected != was.version) {
        return Err(first(was.version));
    }
    let revised = before.revised(revision).ok_or_else(missing)?;
    let revised = revised.map_err(|error| refused(&error))?;
    let same = CrawlDefinition { replaces: was.definition.replaces.clone(), ..revised.clone() } == was.definition;
    let own = if same { None } else { Some(write(log, &revised, now).await?) };
    // A log refuses no record that comes too late: whether it applies is seen on reading back.
    let mut after = standing(log, name).await?;
    for _ in 0..REPAIRS {
        let Some(repair) = after.next() else { break };
        write(log, &repair, now).await?;
        after = standing(log, name).await?;
    }
    match own {
        None => Ok(Revised::Unchanged(was.version)),
        Some(own) if after.has_applied(own) => Ok(Revised::Changed(own, was.version)),
        Some(_) => Err(first(after.applied().map_or(was.version, |applied| applied.version))),
    }
}

/// Appends a definition, and says where.
///
/// # Errors
/// When the log fails.
pub async fn write(log: &dyn Log, definition: &CrawlDefinition, now: Millis) -> Result<Offset, Failure> {
    let record = Record {
        place: TopicPartition::new(CONTROL, DEFINITIONS_PARTITION),
        key: Some(Bytes::from(crawl_key(&definition.name))),
        value: Some(encode(definition)),
        headers: vec![],
        timestamp_ms: now,
    };
    let offsets = log.append(vec![record]).await.map_err(failed)?;
    Ok(offsets.first().copied().unwrap_or_default())
}

/// The definition of a crawl that applies.
///
/// # Errors
/// When the log fails, or there is none that can be used.
pub async fn find(log: &dyn Log, name: &str) -> Result<Option<CrawlDefinition>, Failure> {
    let standing = standing(log, name).await?;
    match (standing.applied(), standing.refused()) {
        (Some(applied), _) => Ok(Some(applied.definition.clone())),
        (None, Some(reason)) => {
            Err(Failure::Output(format!("the definition of the crawl `{name}` cannot be used: {reason}")))
        }
        (None, None) => Ok(None),
    }
}

/// What the log says of a crawl.
///
/// # Errors
/// When the log fails.
pub async fn standing(log: &dyn Log, name: &str) -> Result<Standing, Failure> {
    let mut standing = Standing::new(name);
    each(log, |record| standing.read(record)).await?;
    Ok(standing)
}

/// The wide domains of the pipeline: those that its crawls have pinned. `None`: it has no crawl yet.
///
/// # Errors
/// When the log fails.
#[cfg(feature = "cluster")]
pub async fn wide_domains(log: &dyn Log) -> Result<Option<Vec<String>>, Failure> {
    let definitions = definitions(log).await?;
    Ok(definitions.all().next().map(|(_, applied)| applied.definition.pins.wide_domains.clone()))
}

/// The definitions of all crawls.
///
/// # Errors
/// When the log fails.
#[cfg(feature = "cluster")]
pub async fn definitions(log: &dyn Log) -> Result<Definitions, Failure> {
    let mut definitions = Definitions::default();
    each(log, |record| drop(definitions.apply(record))).await?;
    Ok(definitions)
}

/// Hands in all records that may be definitions or declarations, in order, up to the end that the log has now.
///
/// # Errors
/// When the log fails.
pub async fn each(log: &dyn Log, mut each: impl FnMut(ControlRecord<'_>)) -> Result<(), Failure> {
    let place = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
    let bounds = log.bounds(place).await.map_err(failed)?;
    let mut reader = log.reader(place, bounds.start).await.map_err(failed)?;
    while reader.position() < bounds.end {
        for record in reader.read(READ_WAIT).await.map_err(failed)? {
            let (key, value) = (record.key.as_deref(), record.value.as_ref());
            each(ControlRecord { partition: place.partition, offset: record.offset, key, value });
        }
    }
    Ok(())
}

/// Why a crawl cannot be defined so, with the option that says it.
#[must_use]
pub fn refused(error: &RevisionError) -> Failure {
    let option = match error {
        RevisionError::Patterns(error) => error.list(),
        RevisionError::Narrower { .. } => "scope",
        RevisionError::Pinned { .. } => return Failure::Usage(error.to_string()),
    };
    Failure::Usage(format!("--{option}: {error}"))
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}
