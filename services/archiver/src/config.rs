//! Configuration of the archiver.

use std::{path::PathBuf, time::Duration};

use orbweaver_bucket::Address;
use orbweaver_messages::Millis;
use orbweaver_settings::{Conflict, Cores, Count, DAY, GIB, KIB, SECOND, Section, Size, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Size of its index at which a file is closed: it is sorted in memory, on each thread that closes files.
const INDEX_BYTES: u64 = 64 << 20;

/// Settings of the archiver: the section `archiver` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArchiverConfig {
    /// Directory of the archive; it is created if it does not exist.
    ///
    /// Each crawl has a directory in it.
    pub directory: PathBuf,
    /// Prefix in a bucket of an S3-compatible store, `s3://bucket/prefix`, to which files are uploaded when they are
    /// closed; then the directory has unfinished files alone. Not set: files remain in the directory.
    ///
    /// The environment has the credentials and the URL of the store, such as `AWS_ENDPOINT_URL`.
    pub upload: Option<String>,
    /// Maximum number of files that are written concurrently.
    ///
    /// Each is on a blocking thread.
    #[serde(with = "Cores")]
    pub threads: usize,
    /// Size at which a file is closed.
    ///
    /// The last batch of responses may exceed it. A file whose index has 64 MiB is closed, too.
    #[serde(with = "Size::<KIB, { 64 * GIB }>")]
    pub max_file_bytes: u64,
    /// Age at which a file is closed, from its first response.
    ///
    /// The responses of an open file are repeated after a crash, and remain in `crawl.pages` until it is closed.
    #[serde(with = "Time::<SECOND, DAY>")]
    pub max_file_age: Duration,
    /// Time without a response after which a file is closed.
    #[serde(with = "Time::<SECOND, DAY>")]
    pub idle: Duration,
    /// Number of responses at which a file is closed.
    ///
    /// The offsets are in memory: 8 bytes each.
    #[serde(with = "Count::<1, 100_000_000>")]
    pub max_file_responses: usize,
    /// Maximum number of open files: beyond it the least recently written one is closed.
    ///
    /// Each crawl has one in each of its partitions; an open file takes about 80 KiB of memory.
    #[serde(with = "Count::<1, 100_000>")]
    pub max_open_files: usize,
    /// Maximum size of an archived body; the rest is cut off, and the response is marked as truncated.
    #[serde(with = "Size::<1, GIB>")]
    pub max_body_bytes: usize,
}

impl Section for ArchiverConfig {
    const NAME: &'static str = "archiver";

    fn conflicts(&self) -> Vec<Conflict> {
        let address = self.upload.as_deref().map(str::parse::<Address>);
        let refused = address.and_then(Result::err).map(|error| Conflict::new("upload", error.to_string()));
        refused.into_iter().collect()
    }
}

impl Default for ArchiverConfig {
    fn default() -> Self {
        Self {
            directory: "archive".into(),
            upload: None,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            max_file_bytes: 1 << 30,
            max_file_age: Duration::from_secs(3600),
            idle: Duration::from_secs(60),
            max_file_responses: 1_000_000,
            max_open_files: 512,
            max_body_bytes: 16 << 20,
        }
    }
}

/// Limits of a file, from the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileLimits {
    pub(crate) bytes: u64,
    pub(crate) index_bytes: u64,
    pub(crate) responses: usize,
    /// Maximum age in milliseconds.
    pub(crate) age: Millis,
    /// Maximum time without a response in milliseconds.
    pub(crate) idle: Millis,
}

impl ArchiverConfig {
    pub(crate) fn file_limits(&self) -> FileLimits {
        let millis = |time: Duration| Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX);
        FileLimits {
            bytes: self.max_file_bytes,
            index_bytes: INDEX_BYTES,
            responses: self.max_file_responses,
            age: millis(self.max_file_age),
            idle: millis(self.idle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed_and_read_back_from_their_text_form() {
        let config = ArchiverConfig::default();
        let mut value = serde_json::to_value(&config).unwrap();
        // A configuration has texts only.
        for value in value.as_object_mut().unwrap().values_mut().filter(|value| value.is_number()) {
            *value = value.to_string().into();
        }
        assert_eq!(serde_json::from_value::<ArchiverConfig>(value.clone()).unwrap(), config, "{value}");
        assert_eq!(
            config.file_limits(),
            FileLimits { bytes: 1 << 30, index_bytes: 64 << 20, responses: 1_000_000, age: 3_600_000, idle: 60_000 }
        );
        let refused = serde_json::from_str::<ArchiverConfig>(r#"{"idle":"0s"}"#).unwrap_err().to_string();
        assert!(refused.contains("1s"), "{refused}");
    }

    #[test]
    fn an_upload_is_to_a_prefix_in_a_bucket() {
        let conflicts = |upload: &str| {
            let config = ArchiverConfig { upload: Some(upload.to_owned()), ..ArchiverConfig::default() };
            config.conflicts().into_iter().map(|conflict| (conflict.key, conflict.problem)).collect::<Vec<_>>()
        };
        assert_eq!(conflicts("s3://archive/a"), []);
        assert_eq!(conflicts("/srv/archive"), [("upload".to_owned(), "expected `s3://bucket/prefix`".to_owned())]);
    }
}
