//! Exact index on disk: fingerprint to depth, in SSTables, one directory per partition.
//!
//! Two background threads write memtables as SSTables and compact SSTables. The deciding thread never waits for them,
//! unless the disk is slower than the log.
//!
//! | module | contents |
//! |---|---|
//! | `partition` | memory and tables of one partition |
//! | `index` | the directories of all partitions |
//! | `table_set`, `manifest` | the tables of a partition; their files |
//! | `sstable`, `quotient_filter` | an SSTable; its filter (pure) |
//! | `compaction` | the threads that write and compact |

mod compaction;
mod index;
mod manifest;
mod partition;
mod quotient_filter;
mod sstable;
mod table_set;

pub(crate) use index::ExactIndex;
pub(crate) use partition::ExactPartition;
