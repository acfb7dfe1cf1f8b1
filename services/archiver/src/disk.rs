//! Files on disk.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use orbweaver_messages::Millis;
use orbweaver_url::CrawlName;
use orbweaver_warc::{Info, WarcWriter};
use sha2::{Digest as _, Sha256};

use crate::{
    capture::{capture, info, metadata},
    error::ArchiveError,
    file_name::{FileName, Numbers},
    job::{Closed, Recovery},
    page::Response,
    remote::Remote,
};

/// Buffer of an open file in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct OpenWarc {
    path: PathBuf,
    writer: WarcWriter<Hashed<BufWriter<File>>>,
}

/// Output that is hashed.
#[derive(Debug)]
struct Hashed<W> {
    output: W,
    digest: Sha256,
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.output.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

impl OpenWarc {
    /// Creates a file with its `warcinfo` record.
    pub(crate) fn create(root: &Path, crawl: &CrawlName, name: &FileName, now: Millis) -> Result<Self, ArchiveError> {
        let directory = root.join(&name.directory);
        fs::create_dir_all(&directory).map_err(ArchiveError::io(&directory, "create the directory"))?;
        let path = root.join(name.open_path());
        let file = File::create(&path).map_err(ArchiveError::io(&path, "create"))?;
        let info = Info { filename: &name.file, date_ms: now, fields: &info(crawl) };
        let output = Hashed { output: BufWriter::with_capacity(BUFFER_BYTES, file), digest: Sha256::new() };
        let writer = WarcWriter::new(output, &info).map_err(ArchiveError::io(&path, "write"))?;
        Ok(Self { path, writer })
    }

    /// Appends a response. An inner error is the reason for a rejection, of which nothing is written.
    pub(crate) fn write(&mut self, response: &Response<'_>) -> Result<Result<(), String>, ArchiveError> {
        match self.writer.write(&capture(response, &metadata(response))) {
            Ok(_) => Ok(Ok(())),
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(Err(error.to_string())),
            Err(error) => Err(ArchiveError::io(&self.path, "write")(error)),
        }
    }

    /// Returns the size in bytes, including those that are still in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Makes the file durable under its temporary name.
    pub(crate) fn finish(self, root: &Path) -> Result<Closed, ArchiveError> {
        let Self { path, writer } = self;
        let bytes = writer.bytes();
        let Hashed { output, digest } = writer.into_inner();
        let file = output.into_inner().map_err(|error| error.into_error());
        let file = file.map_err(ArchiveError::io(&path, "write"))?;
        file.sync_all().map_err(ArchiveError::io(&path, "write"))?;
        path.parent().map_or(Ok(()), sync_directory)?;
        sync_directory(root)?;
        let sha256 = HEXLOWER.encode(&digest.finalize());
        Ok(Closed { bytes, sha256 })
    }

    /// Closes the file without writing the bytes that are still in memory.
    pub(crate) fn abandon(self) {
        let (_file, _unwritten) = self.writer.into_inner().output.into_parts();
    }
}

/// Creates a directory and its parents durably.
pub(crate) fn create_directory(directory: &Path) -> Result<(), ArchiveError> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if parent != directory {
        create_directory(parent)?;
    }
    match fs::create_dir(directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(ArchiveError::io(directory, "create the directory")(error))
        }
        _ => sync_directory(parent),
    }
}

/// Marks a durable file as one whose upload begins. Returns `false` if it does not exist.
pub(crate) fn begin_upload(root: &Path, name: &FileName) -> Result<bool, ArchiveError> {
    let open = root.join(name.open_path());
    match fs::rename(&open, root.join(name.upload_path())) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        renamed => renamed.map_err(ArchiveError::io(open, "rename"))?,
    }
    sync_directory(&root.join(&name.directory))?;
    Ok(true)
}

/// Writes a small file durably.
pub(crate) fn write_durably(root: &Path, path: &str, text: &str) -> Result<(), ArchiveError> {
    let path = root.join(path);
    let write = || {
        let mut file = File::create(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(ArchiveError::io(&path, "write"))?;
    path.parent().map_or(Ok(()), sync_directory)
}

/// Gives a durable file its final name; deletes one that the store has. Returns `false` if it exists under no name.
pub(crate) fn publish(root: &Path, name: &FileName) -> Result<bool, ArchiveError> {
    if root.join(name.upload_path()).exists() {
        return delete_uploaded(root, name).map(|()| true);
    }
    let (open, closed) = (root.join(name.open_path()), root.join(name.path()));
    match fs::rename(&open, &closed) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(closed.exists()),
        Err(error) => return Err(ArchiveError::io(open, "rename")(error)),
    }
    sync_directory(&root.join(&name.directory))?;
    Ok(true)
}

/// Deletes an unfinished file and its object, if they exist.
pub(crate) fn discard(root: &Path, name: &FileName, remote: Option<&Remote>) -> Result<(), ArchiveError> {
    if root.join(name.upload_path()).exists() {
        match remote {
            Some(remote) => remote.remove(root, name)?,
            None => tracing::warn!(file = name.path(), "without `archiver.upload` its object cannot be deleted"),
        }
        delete_uploaded(root, name)?;
    }
    delete(&root.join(name.open_path()))
}

/// Deletes a file whose upload has begun, durably: a later owner would remove the object of a file that reappears.
fn delete_uploaded(root: &Path, name: &FileName) -> Result<(), ArchiveError> {
    // First, since nothing else shows that it exists.
    delete(&root.join(name.upload_id_path()))?;
    delete(&root.join(name.upload_path()))?;
    sync_directory(&root.join(&name.directory))
}

fn delete(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ArchiveError::io(path, "delete")(error)),
        _ => Ok(()),
    }
}

/// A file without its final name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenFile {
    pub(crate) name: FileName,
    pub(crate) numbers: Numbers,
}

/// Returns the files without their final names.
pub(crate) fn open_files(root: &Path) -> Result<Vec<OpenFile>, ArchiveError> {
    let mut files = vec![];
    for directory in names_in(root)? {
        for file in names_in(&root.join(&directory))? {
            let open = FileName::of_unfinished(&directory, &file);
            files.extend(open.map(|(name, numbers)| OpenFile { name, numbers }));
        }
    }
    Ok(files)
}

/// Publishes the finished ones of these files, and deletes the unfinished ones, if they are those of earlier owners of
/// these partitions. Returns all others.
pub(crate) fn recover(
    root: &Path,
    remote: Option<&Remote>,
    files: Vec<OpenFile>,
    recoveries: &[Recovery],
) -> Result<Vec<OpenFile>, ArchiveError> {
    let published: HashSet<&str> = recoveries.iter().flat_map(|of| of.published.iter().map(String::as_str)).collect();
    let is_earlier = |OpenFile { numbers, .. }: &OpenFile| {
        recoveries.iter().any(|of| of.partition == numbers.partition && numbers.owner_epoch < of.owner_epoch)
    };
    let (earlier, others) = files.into_iter().partition::<Vec<_>, _>(is_earlier);
    for OpenFile { name, .. } in earlier {
        let is_published = published.contains(name.path().as_str());
        tracing::info!(
            file = name.path(),
            is_published,
            "file of an earlier owner recovered; without an entry it is deleted"
        );
        if is_published {
            publish(root, &name)?;
        } else {
            discard(root, &name, remote)?;
        }
    }
    Ok(others)
}

/// Returns the names in a directory; none if it does not exist or is a file.
fn names_in(directory: &Path) -> Result<Vec<String>, ArchiveError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(vec![]),
        entries => entries.map_err(ArchiveError::io(directory, "list"))?,
    };
    let mut names = vec![];
    for entry in entries {
        // A name that is not UTF-8 is none of the archiver's.
        names.extend(entry.map_err(ArchiveError::io(directory, "list"))?.file_name().into_string().ok());
    }
    Ok(names)
}

fn sync_directory(directory: &Path) -> Result<(), ArchiveError> {
    let synced = File::open(directory).and_then(|opened| opened.sync_all());
    synced.map_err(ArchiveError::io(directory, "synchronize the directory"))
}
