//! `crawl.archive`: the files of the archive. The record key is the crawl.

use orbweaver_url::CrawlName;
use serde::{Deserialize, Serialize};

use crate::Millis;

/// A durable file of the archive, in the directory of an archiver or in an object store. It contains the responses of one crawl in one partition of `crawl.pages`: all between
/// two offsets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveFile {
    pub crawl: CrawlName,
    /// Path within the archive.
    pub file: String,
    /// Offset in `crawl.pages` of its first response.
    pub first: u64,
    /// Offset in `crawl.pages` of its last response.
    pub last: u64,
    /// Number of responses.
    pub responses: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal digits. Files of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Time at which it became durable, in milliseconds since the Unix epoch.
    pub closed_at_ms: Millis,
    /// Owner epoch of the archiver that wrote it (docs/protocol.md#claims).
    pub epoch: u64,
}
