//! Check of the settings that crawls pin (docs/protocol.md#one-partition), in the services that compute sites and
//! partitions but apply no definitions. normalizer-dedup checks them where it applies definitions.

use std::time::Duration;

use orbweaver_log::{Log, LogError, Partition, Reader, TopicPartition};
use orbweaver_messages::topic::{CONTROL, DISCOVERED};
use orbweaver_scope::{ControlRecord, DEFINITIONS_PARTITION, Definitions, check_pins};
use orbweaver_url::WideDomains;

use crate::ServiceError;

/// Maximum wait per read.
const READ_WAIT: Duration = Duration::from_secs(1);

/// Comparison of the pins of all crawls with the settings of this process.
pub(crate) struct PinCheck {
    partitions: Partition,
    wide: WideDomains,
    definitions: Definitions,
    reader: Box<dyn Reader>,
}

/// Compares the pins of all crawls, if the service has wide domains.
pub(crate) async fn begin(log: &dyn Log, wide: Option<WideDomains>) -> Result<Option<PinCheck>, ServiceError> {
    let Some(wide) = wide else { return Ok(None) };
    let check = PinCheck::read_all(log, wide).await.map_err(ServiceError::start)?;
    check.difference().map_or(Ok(Some(check)), |difference| Err(ServiceError::Configuration(difference)))
}

/// Resolves once a crawl is created with other pins, or the log fails.
pub(crate) async fn differ(check: Option<PinCheck>) -> ServiceError {
    let Some(mut check) = check else { return std::future::pending().await };
    loop {
        if let Err(error) = check.read().await {
            return ServiceError::Stage(error.into());
        }
        if let Some(difference) = check.difference() {
            return ServiceError::Configuration(difference);
        }
    }
}

impl PinCheck {
    /// Reads all definitions up to the log end. Only then are they compared: a crawl may have been deleted.
    async fn read_all(log: &dyn Log, wide: WideDomains) -> Result<Self, LogError> {
        let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
        let bounds = log.bounds(tp).await?;
        let reader = log.reader(tp, bounds.start).await?;
        let partitions = log.partitions(DISCOVERED)?;
        let mut check = Self { partitions, wide, definitions: Definitions::default(), reader };
        while check.reader.position() < bounds.end {
            check.read().await?;
        }
        Ok(check)
    }

    async fn read(&mut self) -> Result<(), LogError> {
        for record in self.reader.read(READ_WAIT).await? {
            record.check_readable()?;
            let (key, value) = (record.key.as_deref(), record.value.as_ref());
            // normalizer-dedup logs unusable definitions.
            self.definitions.apply(ControlRecord { partition: record.tp.partition, offset: record.offset, key, value });
        }
        Ok(())
    }

    /// Returns the first difference between a crawl and this process.
    fn difference(&self) -> Option<String> {
        let mut crawls = self.definitions.all().map(|(name, applied)| (name, &applied.definition.pins));
        crawls.find_map(|(name, pins)| check_pins(name, pins, self.partitions, &self.wide).err())
    }
}

#[cfg(test)]
mod tests {
    use orbweaver_log::{Cleanup, MemoryLog, Record, TopicSpec};

    use orbweaver_url::SUFFIX_LIST_VERSION;

    use super::*;

    const HOST: &str = include_str!("../../../schemas/examples/crawl-definition/1/host.json");
    const PARTITIONS: Partition = 16;

    fn log(partitions: Partition) -> MemoryLog {
        MemoryLog::new(&[
            TopicSpec::new(CONTROL, partitions, Cleanup::Compact),
            TopicSpec::new(DISCOVERED, partitions, Cleanup::Delete),
        ])
    }

    fn definition(text: Option<&str>) -> Record {
        let tp = TopicPartition::new(CONTROL, DEFINITIONS_PARTITION);
        Record::new(tp, Some("crawl/docs".into()), text.map(|text| text.to_owned().into()), 1)
    }

    async fn define(log: &MemoryLog, text: Option<&str>) {
        log.append(vec![definition(text)]).await.unwrap();
    }

    fn with_wide_domains() -> String {
        HOST.replace("\"standard/1\"", r#""standard/1", "wide_domains": ["example.edu"]"#)
    }

    async fn begun(log: &MemoryLog, wide: &[&str]) -> Result<Option<PinCheck>, String> {
        begin(log, Some(WideDomains::new(wide).unwrap())).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_service_that_computes_sites_starts_only_with_the_settings_that_crawls_pin() {
        let of = |text: String| async move {
            let log = log(PARTITIONS);
            define(&log, Some(&text)).await;
            let none = begun(&log, &[]).await.map(drop).err().unwrap_or_default();
            let one = begun(&log, &["example.edu"]).await.map(drop).err().unwrap_or_default();
            [none, one]
        };
        let [none, one] = of(HOST.to_owned()).await;
        assert_eq!(none, "");
        assert!(one.contains("with the wide domains none, and this pipeline has example.edu:"), "{one}");
        let [none, one] = of(with_wide_domains()).await;
        assert!(none.contains("with the wide domains example.edu, and this pipeline has none:"), "{none}");
        assert_eq!(one, "");
        let [none, _] = of(HOST.replace(SUFFIX_LIST_VERSION, "psl-1")).await;
        assert!(none.contains("with the suffix list psl-1, and this is"), "{none}");
        let log = log(2 * PARTITIONS);
        define(&log, Some(HOST)).await;
        let reason = begun(&log, &[]).await.map(drop).unwrap_err();
        assert!(reason.contains("with a number of partitions of 16, and this is 32:"), "{reason}");
    }

    #[tokio::test]
    async fn a_definition_with_a_newer_version_of_its_schema_ends_the_start() {
        let log = log(PARTITIONS);
        let mut record = definition(Some("{}"));
        record.headers[1].1 = "2".into();
        log.append(vec![record]).await.unwrap();
        let reason = begun(&log, &[]).await.map(drop).unwrap_err();
        assert!(reason.contains("schema `crawl-definition` has version \"2\""), "{reason}");
    }

    #[tokio::test]
    async fn a_crawl_that_was_deleted_pins_nothing() {
        let log = log(PARTITIONS);
        define(&log, Some(&with_wide_domains())).await;
        define(&log, None).await;
        define(&log, Some(HOST)).await;
        assert!(begun(&log, &[]).await.is_ok());
    }

    #[tokio::test]
    async fn a_crawl_that_is_created_with_other_pins_ends_a_running_service() {
        let log = log(PARTITIONS);
        let check = begun(&log, &[]).await.unwrap();
        define(&log, Some(&with_wide_domains())).await;
        let error = differ(check).await;
        assert!(matches!(error, ServiceError::Configuration(_)), "{error}");
    }

    #[tokio::test]
    async fn a_service_that_computes_no_sites_reads_no_definitions() {
        let nothing = MemoryLog::new(&[]);
        assert!(begin(&nothing, None).await.unwrap().is_none());
    }
}
