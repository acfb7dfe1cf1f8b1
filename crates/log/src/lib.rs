//! The log that carries every message: partitioned topics, consumer groups, committed offsets.
//!
//! The traits follow Kafka's capabilities; the embedded implementation gives the same guarantees within one process.

#[cfg(feature = "contract")]
pub mod contract;
pub mod embedded;
mod error;
#[cfg(feature = "kafka")]
pub mod kafka;
mod limit;
pub mod memory;
mod record;
mod refused;
mod spec;
mod traits;

pub use embedded::{EmbeddedLog, Options};
pub use error::LogError;
pub use limit::{DEAD_LETTER_ROOM, RECORD_LIMIT, RECORD_LIMITS};
pub use memory::MemoryLog;
pub use record::{Commit, ConsumerRecord, Offset, Partition, Record, TopicPartition};
pub use refused::{Refusal, Refused};
pub use spec::{Cleanup, MAX_PARTITIONS, TopicSpec};
pub use traits::{Bounds, Consumer, Event, Log, Reader, read_up_to, topic_partitions};
