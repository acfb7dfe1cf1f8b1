//! Location of a replay's log: in its directory, or on brokers.

use std::{path::Path, sync::Arc};

use orbweaver_log::{Cleanup, EmbeddedLog, Log, Options, Partition, TopicSpec};
use orbweaver_messages::topic;

use crate::exit::{Failure, failed};

pub(super) enum ReplayLog {
    /// In the replay's directory.
    Dir(Arc<EmbeddedLog>),
    /// In topics of its own on brokers.
    #[cfg(feature = "cluster")]
    Brokers(Arc<orbweaver_log::kafka::KafkaLog>),
}

impl ReplayLog {
    /// Opens the log, and creates missing topics.
    pub(super) async fn open(
        dir: &Path,
        brokers: Option<&str>,
        prefix: &str,
        partitions: Partition,
    ) -> Result<Self, Failure> {
        match brokers {
            None => {
                let options = Options { maintain_every: None, ..Options::default() };
                let log = EmbeddedLog::open(dir, options, &specs(partitions)).map_err(failed)?;
                Ok(Self::Dir(Arc::new(log)))
            }
            #[cfg(feature = "cluster")]
            Some(brokers) => {
                use crate::cluster::{args::Kafka, connection};
                let kafka = Kafka { prefix: prefix.to_owned(), ..Kafka::default() };
                let log = connection::connect(brokers, &kafka).await?;
                orbweaver_log::kafka::topics::create(&log, partitions, None).await.map_err(failed)?;
                eprintln!("topics of the replay: `{prefix}.*` on {brokers}");
                Ok(Self::Brokers(Arc::new(log)))
            }
            #[cfg(not(feature = "cluster"))]
            Some(brokers) => Err(Failure::Usage(format!(
                "--brokers {brokers} --prefix {prefix}: this program was built without the feature `cluster`"
            ))),
        }
    }

    pub(super) fn log(&self) -> Arc<dyn Log> {
        match self {
            Self::Dir(log) => log.clone(),
            #[cfg(feature = "cluster")]
            Self::Brokers(log) => log.clone(),
        }
    }

    /// Returns the bytes of `crawl.seen` on this machine.
    pub(super) fn seen_bytes(&self) -> u64 {
        match self {
            Self::Dir(log) => log.bytes(topic::SEEN).unwrap_or_default(),
            #[cfg(feature = "cluster")]
            Self::Brokers(_) => 0,
        }
    }

    /// Makes everything durable that was written. On brokers, it already is.
    pub(super) fn flush(&self) -> Result<(), Failure> {
        match self {
            Self::Dir(log) => log.flush().map_err(failed),
            #[cfg(feature = "cluster")]
            Self::Brokers(_) => Ok(()),
        }
    }

    /// Removes the topics from the brokers. A log in a directory is removed with the directory.
    pub(super) async fn remove(&self) -> Result<(), Failure> {
        match self {
            Self::Dir(_) => Ok(()),
            #[cfg(feature = "cluster")]
            Self::Brokers(log) => orbweaver_log::kafka::topics::delete(log).await.map_err(failed),
        }
    }
}

/// Returns topics without compaction, which would remove records of admitted URLs.
fn specs(partitions: Partition) -> Vec<TopicSpec> {
    topic::topics().iter().map(|described| TopicSpec::new(described.topic, partitions, Cleanup::Keep)).collect()
}
