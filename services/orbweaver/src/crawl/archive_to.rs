//! Destination of the archive of a crawl in one process.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use orbweaver_archiver::{ArchiveError, ArchiverConfig, check_upload};
use orbweaver_bucket::{Address, AddressError};

use super::{pipeline::ARCHIVE, prepare::Prepared, settings::Settings, trim::UPLOADS};
use crate::{block_on, exit::Failure};

/// Destination of the archive, as given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveTo {
    /// Directory `warc` of the output.
    Output,
    /// Objects of an S3-compatible store.
    Bucket(Address),
}

impl ArchiveTo {
    /// Value of `--warc` without one. No argument contains the character, so an empty value, such as that of a variable
    /// that is not set, is not taken for it.
    pub const NONE_GIVEN: &str = "\0";

    /// Parses the value of `--warc`, which is [`Self::NONE_GIVEN`] if the option has none.
    ///
    /// # Errors
    /// Fails for paths and other URLs, and for names that a bucket or an object cannot have.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text == Self::NONE_GIVEN {
            return Ok(Self::Output);
        }
        text.parse().map(Self::Bucket).map_err(|error: AddressError| error.to_string())
    }

    /// Returns the address of the bucket, if it is one.
    #[must_use]
    pub fn bucket(&self) -> Option<String> {
        match self {
            Self::Output => None,
            Self::Bucket(address) => Some(address.to_string()),
        }
    }
}

/// Returns where users find the archive.
pub fn shown(prepared: &Prepared) -> String {
    prepared.settings.warc_upload.clone().unwrap_or_else(|| prepared.out.join(ARCHIVE).display().to_string())
}

/// Returns directory and upload of the archiver: files that are uploaded are in the state until they are.
pub fn destination(settings: &Settings, output: PathBuf, state: &Path) -> ArchiverConfig {
    let upload = settings.warc_upload.clone();
    let directory = if upload.is_some() { state.join(UPLOADS) } else { output };
    ArchiverConfig { directory, upload, ..ArchiverConfig::default() }
}

/// Checks that the archive of a new crawl can be uploaded, since its address cannot be changed later.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    let Some(upload) = &settings.warc_upload else { return Ok(()) };
    let usable = async { check_upload(upload).await.map_err(failure) };
    block_on(1, Duration::ZERO, usable).map_err(|failure| match failure {
        Failure::Failed(reason) => Failure::Output(format!("--warc: {reason}")),
        failure => failure,
    })
}

/// Returns the failure of an archiver that cannot start.
pub fn failure(error: ArchiveError) -> Failure {
    match error {
        ArchiveError::Settings(_) | ArchiveError::Address(_) => Failure::Usage(format!("--warc: {error}")),
        error => Failure::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_in_the_output_or_in_a_bucket() {
        assert_eq!(ArchiveTo::parse(ArchiveTo::NONE_GIVEN), Ok(ArchiveTo::Output));
        let bucket = ArchiveTo::parse("s3://archive/web/").unwrap();
        assert_eq!(bucket.bucket().as_deref(), Some("s3://archive/web"));
        for refused in ["", "archive", "http://a.test/", "s3://"] {
            assert!(ArchiveTo::parse(refused).unwrap_err().contains("expected `s3://bucket/prefix`"), "{refused}");
        }
    }
}
