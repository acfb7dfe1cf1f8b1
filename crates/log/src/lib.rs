//! The log that carries every message: topics in partitions, consumer groups, committed offsets.
//!
//! The traits are shaped by what Kafka can do; the embedded implementation keeps the same promises in one process.

mod error;
mod record;
mod traits;

pub use error::LogError;
pub use record::{Commit, Delivered, Offset, Partition, Record, TopicPartition};
pub use traits::{Bounds, Consumer, Event, Log, Reader};
