//! The crawl's definition in `crawl.control`: made once, checked at every start.

use std::collections::BTreeMap;

use bytes::Bytes;
use orbweaver_log::{Log, Partition, Record, TopicPartition};
use orbweaver_messages::{CrawlDefinition, Millis, Pins, crawl_key, decode, encode, topic::CONTROL};
use orbweaver_url::{Policy, SUFFIX_LIST_VERSION};

use super::{CRAWL, settings::Settings};
use crate::exit::Failure;

/// How long a record that must be there is waited for at a time.
const READ_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

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

/// Makes sure that the log holds the crawl's definition, and that this program names and places URLs as it says (rule 12).
///
/// # Errors
/// When the log fails, or the crawl was created by a program that places URLs in another way.
pub async fn ensure(log: &dyn Log, settings: &Settings, now: Millis) -> Result<(), Failure> {
    let failed = |error: orbweaver_log::LogError| Failure::Failed(error.to_string());
    let partitions = log.partitions(CONTROL).map_err(failed)?;
    let pins = pins(partitions, settings.canonical, settings.wide_domains.clone());
    if let Some(known) = find(log, CRAWL).await? {
        if known.pins != pins {
            return Err(Failure::Output(format!(
                "the crawl was created with {:?}, this program has {pins:?}: go on with the version that created it, or begin anew",
                known.pins
            )));
        }
        return Ok(());
    }
    let definition = CrawlDefinition {
        name: CRAWL.to_owned(),
        scope: settings.scope.into(),
        include: settings.include.clone(),
        exclude: settings.exclude.clone(),
        max_depth: settings.max_depth,
        traps: settings.traps,
        pins,
        created_at_ms: now,
    };
    write(log, &definition, now).await
}

/// Appends a definition; the last one of a crawl applies.
///
/// # Errors
/// When the log fails.
pub async fn write(log: &dyn Log, definition: &CrawlDefinition, now: Millis) -> Result<(), Failure> {
    let record = Record {
        place: TopicPartition::new(CONTROL, 0),
        key: Some(Bytes::from(crawl_key(&definition.name))),
        value: Some(encode(definition)),
        headers: vec![],
        timestamp_ms: now,
    };
    log.append(vec![record]).await.map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(())
}

/// The last definition of a crawl in the log.
///
/// # Errors
/// When the log fails, or the definition cannot be read.
pub async fn find(log: &dyn Log, name: &str) -> Result<Option<CrawlDefinition>, Failure> {
    let value = values(log).await?.remove(&crawl_key(name)).flatten();
    let definition = value.map(|value| decode("crawl definition", Some(&value)));
    definition.transpose().map_err(|error| Failure::Output(error.to_string()))
}

/// The wide domains of the pipeline: those that its crawls have pinned. `None`: it has no crawl yet.
///
/// # Errors
/// When the log fails.
#[cfg(feature = "cluster")]
pub async fn wide_domains(log: &dyn Log) -> Result<Option<Vec<String>>, Failure> {
    let prefix = crawl_key("");
    let values = values(log).await?.into_iter().filter(|(key, _)| key.starts_with(&prefix));
    let mut definitions = values.filter_map(|(_, value)| decode::<CrawlDefinition>("", Some(&value?)).ok());
    Ok(definitions.next().map(|definition| definition.pins.wide_domains))
}

/// The last value of each crawl's key in the log of settings; `None` where it is a tombstone.
async fn values(log: &dyn Log) -> Result<BTreeMap<String, Option<Bytes>>, Failure> {
    let failed = |error: orbweaver_log::LogError| Failure::Failed(error.to_string());
    let mut values = BTreeMap::new();
    for partition in 0..log.partitions(CONTROL).map_err(failed)? {
        let place = TopicPartition::new(CONTROL, partition);
        let bounds = log.bounds(place).await.map_err(failed)?;
        let mut reader = log.reader(place, bounds.start).await.map_err(failed)?;
        while reader.position() < bounds.end {
            for record in reader.read(READ_WAIT).await.map_err(failed)? {
                let key = record.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
                if let Some(key) = key.filter(|key| key.starts_with(&crawl_key(""))) {
                    values.insert(key.to_owned(), record.value);
                }
            }
        }
    }
    Ok(values)
}
