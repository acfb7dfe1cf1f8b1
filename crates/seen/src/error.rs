//! Errors of the index.

use orbweaver_index_files::IndexFilesError;

/// Error of the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeenError {
    /// The files of the index are in use, or cannot be read or written.
    #[error(transparent)]
    Files(#[from] IndexFilesError),
    /// The log does not hold the record of the index checkpoint; the index was discarded.
    #[error(
        "partition {partition}: the record of the index checkpoint at offset {offset} is not in the log; \
         the index was discarded, restart the process to rebuild it"
    )]
    Foreign {
        partition: u32,
        /// Offset of the index checkpoint.
        offset: u64,
    },
    /// The log does not deliver the records that it acknowledged.
    #[error(
        "partition {partition}: {entries} acknowledged URLs were not read back from the log; restart the process to \
         resume reading at the index checkpoint"
    )]
    Behind { partition: u32, entries: usize },
}
