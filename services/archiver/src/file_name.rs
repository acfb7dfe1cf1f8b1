//! Names of files and directories.

use std::fmt::Write as _;

use jiff::Timestamp;
use orbweaver_log::{Offset, Partition};
use orbweaver_messages::Millis;
use orbweaver_url::CrawlName;
use xxhash_rust::xxh3::xxh3_128;

/// Extension of a file.
const EXTENSION: &str = ".warc.gz";
/// Extension of its index.
const INDEX_EXTENSION: &str = ".cdxj";
/// Suffix of a file that is being written.
const OPEN: &str = ".open";
/// Suffix of a durable file whose upload has begun.
const UPLOAD: &str = ".upload";
/// Suffix of the file with the id of an upload in parts.
const UPLOAD_ID: &str = ".upload-id";
/// Maximum number of bytes of a crawl's part of a name. With the numbers and extensions a name has at most 239 bytes;
/// file systems allow 255.
const MAX_CRAWL_BYTES: usize = 150;
/// Separates the start of a long name from the hash of the whole; no encoded name contains it.
const HASH: char = '~';

/// Name of a file of the archive. No two files share a name: each assignment has an epoch of its own, within which each
/// offset is written once; and the time distinguishes the archives of crawls that have the same name, whose files users
/// may put into one collection. The ids of records derive from it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName {
    /// Name of the crawl, encoded; also the name of the directory.
    pub directory: String,
    /// Name of the file within its directory, once it is closed.
    pub file: String,
}

/// A durable file and its object, by their paths within the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Upload {
    pub(crate) file: String,
    pub(crate) object: String,
    /// Path of the file with the id of the upload.
    pub(crate) id: String,
}

/// Numbers in the name of a file that is not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) partition: Partition,
    pub(crate) owner_epoch: Offset,
}

impl FileName {
    /// Returns the name of the file of `crawl` that an owner begins at this time, at the record `first`.
    #[must_use]
    pub fn new(
        crawl: &CrawlName,
        begun_at_ms: Millis,
        partition: Partition,
        first: Offset,
        owner_epoch: Offset,
    ) -> Self {
        let directory = encoded(crawl);
        let time =
            Timestamp::from_millisecond(begun_at_ms).unwrap_or(Timestamp::UNIX_EPOCH).strftime("%Y%m%d%H%M%S%3f");
        let file = format!("{directory}-{time}-{partition:05}-{first:012}-{owner_epoch}{EXTENSION}");
        Self { directory, file }
    }

    /// Returns the path within the archive.
    #[must_use]
    pub fn path(&self) -> String {
        format!("{}/{}", self.directory, self.file)
    }

    /// Returns the path within the archive while it is written.
    #[must_use]
    pub fn open_path(&self) -> String {
        format!("{}/{}{OPEN}", self.directory, self.file)
    }

    /// Returns the path within the archive from the start of its upload on.
    pub(crate) fn upload_path(&self) -> String {
        format!("{}/{}{UPLOAD}", self.directory, self.file)
    }

    /// Returns the path of the index within the archive.
    #[must_use]
    pub fn index_path(&self) -> String {
        format!("{}/{}{INDEX_EXTENSION}", self.directory, self.file.strip_suffix(EXTENSION).unwrap_or(&self.file))
    }

    /// Returns the path of the index within the archive while the file has no final name, also from the start of its
    /// upload on.
    #[must_use]
    pub fn open_index_path(&self) -> String {
        self.index_path() + OPEN
    }

    /// Returns the uploads of the index and of the file, in this order: a file in the store has its index.
    pub(crate) fn uploads(&self) -> [Upload; 2] {
        [(self.open_index_path(), self.index_path()), (self.upload_path(), self.path())].map(|(file, object)| {
            let id = format!("{object}{UPLOAD_ID}");
            Upload { file, object, id }
        })
    }

    /// Returns the name, and its numbers, of a file that is being written or uploaded, or of which this is the index;
    /// `None` for any other file.
    pub(crate) fn of_unfinished(directory: &str, file: &str) -> Option<(Self, Numbers)> {
        let file = file.strip_suffix(OPEN).or_else(|| file.strip_suffix(UPLOAD))?;
        let stem = file.strip_suffix(EXTENSION).or_else(|| file.strip_suffix(INDEX_EXTENSION))?;
        let mut parts = stem.rsplitn(5, '-');
        let (owner_epoch, _, partition) = (number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?);
        number(parts.next()?)?;
        (parts.next()? == directory).then_some(())?;
        let numbers = Numbers { partition: Partition::try_from(partition).ok()?, owner_epoch };
        Some((Self { directory: directory.to_owned(), file: format!("{stem}{EXTENSION}") }, numbers))
    }
}

fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Encodes the name of a crawl for any file system: in percent-encoding except for letters, digits, `.`, `_` and `-`, and
/// without a leading `.`. A long name is cut and ends with its hash.
fn encoded(crawl: &CrawlName) -> String {
    let name: &str = crawl;
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || (byte == b'.' && !text.is_empty());
        if is_plain {
            text.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    if text.len() > MAX_CRAWL_BYTES {
        let hash = format!("{HASH}{:032x}", xxh3_128(name.as_bytes()));
        text.truncate(MAX_CRAWL_BYTES - hash.len());
        text.push_str(&hash);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn name(crawl: &str) -> FileName {
        FileName::new(&CrawlName::new(crawl).unwrap(), 1_767_225_600_260, 3, 17, 42)
    }

    #[test]
    fn a_file_is_named_after_its_crawl_time_partition_first_offset_and_owner() {
        assert_eq!(name("docs").path(), "docs/docs-20260101000000260-00003-000000000017-42.warc.gz");
        assert_eq!(name("docs").open_path(), "docs/docs-20260101000000260-00003-000000000017-42.warc.gz.open");
        assert_eq!(name("docs").index_path(), "docs/docs-20260101000000260-00003-000000000017-42.cdxj");
        assert_eq!(name("docs").open_index_path(), "docs/docs-20260101000000260-00003-000000000017-42.cdxj.open");
    }

    #[test]
    fn the_archives_of_two_crawls_of_one_name_share_no_file_name() {
        let at = |begun_at_ms| FileName::new(&CrawlName::default(), begun_at_ms, 0, 0, 0).file;
        assert_ne!(at(1_767_225_600_260), at(1_767_225_600_261));
    }

    #[test]
    fn any_crawl_has_a_name_that_stays_in_its_directory() {
        let long: String = "é".repeat(100);
        let crawls = ["..", ".", "a/b", "a b", "docs#2", "A%2FB", "c:\\x", "-rf", &long, &long[2..], "a-1-2-3-4"];
        let names: HashSet<String> = crawls.iter().map(|crawl| name(crawl).directory).collect();
        assert_eq!(names.len(), crawls.len());
        for directory in &names {
            assert!(!directory.starts_with('.') && directory.len() <= MAX_CRAWL_BYTES, "{directory}");
            assert!(directory.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-%~".contains(&byte)));
        }
        assert_eq!(name("..").directory, "%2E.");
        assert!(name(&long).uploads().iter().all(|upload| upload.id.rsplit('/').next().unwrap().len() < 255));
    }

    #[test]
    fn the_numbers_of_an_unfinished_file_are_read_back_from_its_name_and_no_other_file_has_any() {
        for crawl in ["docs", "a-1-2-3-4", "é", "-"] {
            let name = name(crawl);
            for path in [name.open_path(), name.upload_path(), name.open_index_path()] {
                let (directory, file) = path.split_once('/').unwrap();
                let numbers = Numbers { partition: 3, owner_epoch: 42 };
                assert_eq!(FileName::of_unfinished(directory, file), Some((name.clone(), numbers)));
                assert_eq!(FileName::of_unfinished("other", file), None);
            }
            let [index, file] = name.uploads();
            for path in [name.path(), name.index_path(), index.id, file.id] {
                let (directory, file) = path.split_once('/').unwrap();
                assert_eq!(FileName::of_unfinished(directory, file), None, "{path}");
            }
        }
        for file in ["docs.warc.gz.open", "docs-1-2-3.warc.gz.open", "docs-1-a-2-3.warc.gz.open", "notes.open", ""] {
            assert_eq!(FileName::of_unfinished("docs", file), None, "{file}");
        }
    }
}
