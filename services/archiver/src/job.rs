//! Work on files, and its results. At most one job of a file is in progress.

use orbweaver_log::{ConsumerRecord, Offset, Partition};
use orbweaver_messages::Millis;
use orbweaver_stage::Origin;
use orbweaver_store::CaptureRow;
use orbweaver_url::CrawlName;

use crate::{error::ArchiveError, file_name::FileName};

/// A file that is being written, and the assignment under which it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileId {
    pub partition: Partition,
    /// Assignment epoch of the partition, so that a result from an earlier assignment has no effect.
    pub assignment_epoch: u32,
    /// Owner epoch of the partition (docs/protocol.md#claims).
    pub owner_epoch: Offset,
    pub crawl: CrawlName,
    pub name: FileName,
}

/// Work for the worker.
#[derive(Debug)]
pub enum ArchiveJob {
    /// Append the responses of these records, in order. The file is created with the first valid one.
    Write {
        file: FileId,
        records: Vec<(Origin, ConsumerRecord)>,
        /// Time at which the file is created, if it is.
        now: Millis,
    },
    /// Make the file and its index durable under their temporary names.
    Finish(FileId),
    /// Upload the durable file and its index under their final names.
    Upload { file: FileId, closed: Closed },
    /// Give the durable file and its index their final names, or delete them if they were uploaded.
    Publish {
        file: FileId,
        /// Whether the partition is no longer assigned: its next owner may have renamed the file.
        is_stale: bool,
    },
    /// Delete the unfinished file and its index, and their objects.
    Discard(FileId),
    /// Check whether the responses of these records are valid, as [`ArchiveJob::Write`] does. They are in a durable file;
    /// but after a crash a rejection may have been lost.
    Check(Vec<(Origin, ConsumerRecord)>),
    /// Handle files of earlier owners.
    Recover(Vec<Recovery>),
}

/// A partition of which earlier owners may have left files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    pub partition: Partition,
    /// Owner epoch of this assignment: files of later epochs are not those of earlier owners.
    pub owner_epoch: Offset,
    /// Paths of files with an entry, which get their final names or are deleted if they were uploaded. All other unfinished files are deleted.
    pub published: Vec<String>,
}

/// Result of a record: the reason if it is not valid.
pub type Checked = (Origin, Result<(), String>);

/// Sizes of a file and its index.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Size of the index in bytes.
    pub index_bytes: u64,
}

/// Size and hash of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// Result of a job.
#[derive(Debug, PartialEq, Eq)]
pub enum Archived {
    /// The responses of the valid records are in the file.
    Written {
        file: FileId,
        records: Vec<Checked>,
        /// Locations of the responses.
        locations: Vec<CaptureRow>,
        /// Sizes after the write.
        size: Size,
    },
    /// The file and its index are durable under their temporary names.
    Finished { file: FileId, closed: Closed },
    /// The store has the file and its index.
    Uploaded { file: FileId, closed: Closed },
    /// The file is not in the directory any more.
    Missing(FileId),
    /// The file and its index have their final names, in the directory or in the store alone.
    Published(FileId),
    /// Records of a durable file were checked.
    Checked(Vec<Checked>),
    /// Unfinished files were deleted, and finished ones have their final names.
    Cleaned,
}

/// Result of a job, or the error that ends the stage.
pub type ArchiveDone = Result<Archived, ArchiveError>;
