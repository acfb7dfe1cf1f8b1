//! The archive: records by their location, from a directory or an S3-compatible store.

use std::{
    fmt,
    fs::File,
    io::{ErrorKind, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use object_store::{Error, ObjectStoreExt as _};
use orbweaver_bucket::{Address, AddressError, ConnectError, Store, connect_by_environment, reason};
use orbweaver_store::CaptureRow;

/// Extension of the files of an archive.
const EXTENSION: &str = ".warc.gz";

/// Archive that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// The address of the store cannot be used.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The settings of the store cannot be used.
    #[error(transparent)]
    Settings(#[from] ConnectError),
}

/// Record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// The file does not exist.
    Missing,
    /// The file, or the store, cannot be read; the reason.
    Failed(String),
    /// The location is not one of an archive, or beyond the end of its file; the reason.
    Damaged(String),
}

/// Archive with the files of the archiver.
#[derive(Clone)]
pub enum Archive {
    /// Directory, which has one of each crawl.
    Directory(PathBuf),
    /// Prefix in a bucket.
    Bucket(Address, Store),
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => f.debug_tuple("Directory").field(path).finish(),
            Self::Bucket(address, _) => f.debug_tuple("Bucket").field(address).finish_non_exhaustive(),
        }
    }
}

impl Archive {
    /// Opens a directory, or a prefix in a bucket (`s3://bucket/prefix`) of the store that the environment describes, without a
    /// request.
    ///
    /// # Errors
    /// Fails if the address or the settings of the store cannot be used.
    pub fn open(location: &str) -> Result<Self, ArchiveError> {
        if !location.contains("://") {
            return Ok(Self::Directory(location.into()));
        }
        let address: Address = location.parse()?;
        let store = connect_by_environment(address.bucket())?;
        Ok(Self::Bucket(address, store))
    }

    /// Reads the gzip member of a record.
    pub(crate) async fn read(&self, row: &CaptureRow) -> Result<Bytes, ReadError> {
        let (offset, length) = (row.offset, row.length);
        let end = offset.checked_add(length).filter(|_| is_file(&row.file));
        let damaged = || ReadError::Damaged(format!("`{}`, {offset}, {length} is no location of a record", row.file));
        let end = end.ok_or_else(damaged)?;
        match self {
            Self::Directory(directory) => {
                let path = directory.join(&row.file);
                let read = tokio::task::spawn_blocking(move || part(&path, offset, length)).await;
                read.unwrap_or_else(|error| Err(ReadError::Failed(error.to_string())))
            }
            Self::Bucket(address, store) => {
                let read = store.get_range(&address.key(&row.file), offset..end).await;
                let bytes = read.map_err(|error| match error {
                    Error::NotFound { .. } => ReadError::Missing,
                    error => ReadError::Failed(format!("{address}/{}: {}", row.file, reason(&error))),
                })?;
                if bytes.len() as u64 == length { Ok(bytes) } else { Err(damaged()) }
            }
        }
    }
}

/// Returns `true` for the path of a file of an archive: that of a crawl and a name, neither of which leads elsewhere.
fn is_file(path: &str) -> bool {
    let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
    path.split_once('/')
        .is_some_and(|(directory, file)| is_name(directory) && is_name(file) && file.ends_with(EXTENSION))
}

fn part(path: &Path, offset: u64, length: u64) -> Result<Bytes, ReadError> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => ReadError::Missing,
        _ => ReadError::Failed(format!("{}: {error}", path.display())),
    };
    let mut file = File::open(path).map_err(failed)?;
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut bytes = vec![];
    file.take(length).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 == length {
        return Ok(bytes.into());
    }
    Err(ReadError::Damaged(format!("{} ends before the record at {offset}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use orbweaver_bucket::faulty::{Fault, Faulty, Objects};
    use orbweaver_url::Fingerprint;

    use super::*;

    fn row(file: &str, offset: u64, length: u64) -> CaptureRow {
        let file = file.to_owned();
        let fingerprint = Fingerprint([0; 16]);
        CaptureRow {
            fingerprint,
            at_ms: 0,
            epoch: 0,
            file,
            offset,
            length,
            status: 200,
            is_revisit: false,
            content_hash: None,
        }
    }

    /// Returns a directory and a bucket with the same file.
    async fn archives() -> (tempfile::TempDir, [Archive; 2]) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("docs")).unwrap();
        std::fs::write(dir.path().join("docs/a.warc.gz"), "0123456789").unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        let objects = Arc::new(Objects::default());
        let address: Address = "s3://archive/web".parse().unwrap();
        objects.memory.put(&address.key("docs/a.warc.gz"), "0123456789".into()).await.unwrap();
        let archives =
            [Archive::Directory(dir.path().to_owned()), Archive::Bucket(address, Faulty::new(&objects, Fault::None))];
        (dir, archives)
    }

    #[tokio::test]
    async fn a_record_is_the_part_of_its_file_from_a_directory_and_from_a_bucket() {
        let (_dir, archives) = archives().await;
        for archive in archives {
            assert_eq!(archive.read(&row("docs/a.warc.gz", 3, 4)).await.unwrap(), "3456");
            assert_eq!(archive.read(&row("docs/b.warc.gz", 3, 4)).await, Err(ReadError::Missing), "{archive:?}");
            assert!(archive.read(&row("docs/a.warc.gz", 8, 4)).await.is_err(), "{archive:?}");
        }
    }

    #[tokio::test]
    async fn a_path_that_leads_elsewhere_is_refused_before_anything_is_read() {
        let (_dir, archives) = archives().await;
        for file in
            ["secret", "../secret", "docs/../secret", "/etc/passwd", "docs/a", "docs/a.warc.gz.open", ".a/b.warc.gz"]
                .into_iter()
                .chain(["docs/x/a.warc.gz", "docs\\a/b.warc.gz", "docs/\0.warc.gz", "/a.warc.gz", "docs/", ""])
        {
            for archive in &archives {
                let read = archive.read(&row(file, 0, 1)).await;
                assert!(matches!(read, Err(ReadError::Damaged(_))), "{file}: {read:?}");
            }
        }
        let beyond = archives[0].read(&row("docs/a.warc.gz", u64::MAX, 1)).await;
        assert!(matches!(beyond, Err(ReadError::Damaged(_))), "{beyond:?}");
    }

    #[tokio::test]
    async fn a_store_that_fails_is_unavailable_and_no_file_is_missing() {
        let faulty = Faulty::new(&Arc::default(), Fault::KilledAt(0));
        let archive = Archive::Bucket("s3://archive".parse().unwrap(), faulty);
        let read = archive.read(&row("docs/a.warc.gz", 0, 1)).await;
        assert!(matches!(&read, Err(ReadError::Failed(reason)) if reason.contains("docs/a.warc.gz")), "{read:?}");
    }

    #[test]
    fn a_location_is_a_directory_or_a_prefix_in_a_bucket() {
        assert!(matches!(Archive::open("archive").unwrap(), Archive::Directory(path) if path == Path::new("archive")));
        assert!(Archive::open("http://a.example/").unwrap_err().to_string().contains("s3://bucket/prefix"));
    }
}
