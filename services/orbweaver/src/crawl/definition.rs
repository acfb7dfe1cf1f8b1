//! The crawl's definition in `crawl.control`: made once, checked at every start.

use bytes::Bytes;
use orbweaver_log::{Log, Partition, Record, TopicPartition};
use orbweaver_messages::{CrawlDefinition, Millis, Pins, crawl_key, decode, encode, topic::CONTROL};
use orbweaver_url::{CANONICAL_POLICY, SUFFIX_LIST_VERSION};

use super::{CRAWL, settings::Settings};
use crate::exit::Failure;

/// How long a record that must be there is waited for at a time.
const READ_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

/// What this program would pin.
#[must_use]
pub fn pins(partitions: Partition) -> Pins {
    Pins { partitions, suffix_list: SUFFIX_LIST_VERSION.to_owned(), canonical_policy: CANONICAL_POLICY.to_owned() }
}

/// Makes sure that the log holds the crawl's definition, and that this program names and places URLs as it says (rule 12).
///
/// # Errors
/// When the log fails, or the crawl was created by a program that places URLs in another way.
pub async fn ensure(log: &dyn Log, settings: &Settings, now: Millis) -> Result<(), Failure> {
    let failed = |error: orbweaver_log::LogError| Failure::Failed(error.to_string());
    let pins = pins(log.partitions(CONTROL).map_err(failed)?);
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
    let failed = |error: orbweaver_log::LogError| Failure::Failed(error.to_string());
    let key = crawl_key(name);
    let mut found = None;
    for partition in 0..log.partitions(CONTROL).map_err(failed)? {
        let place = TopicPartition::new(CONTROL, partition);
        let bounds = log.bounds(place).await.map_err(failed)?;
        let mut reader = log.reader(place, bounds.start).await.map_err(failed)?;
        while reader.position() < bounds.end {
            for record in reader.read(READ_WAIT).await.map_err(failed)? {
                if record.key.as_deref() == Some(key.as_bytes()) {
                    let definition = decode("crawl definition", record.value.as_ref());
                    found = Some(definition.map_err(|error| Failure::Output(error.to_string()))?);
                }
            }
        }
    }
    Ok(found)
}
