//! Files on disk.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{BufWriter, ErrorKind},
    path::{Path, PathBuf},
};

use orbweaver_messages::Millis;
use orbweaver_url::CrawlName;
use orbweaver_warc::{Info, WarcWriter};

use crate::{
    capture::{capture, info, metadata},
    error::ArchiveError,
    file_name::{FileName, Numbers},
    job::Recovery,
    page::Response,
};

/// Buffer of an open file in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct OpenWarc {
    path: PathBuf,
    writer: WarcWriter<BufWriter<File>>,
}

impl OpenWarc {
    /// Creates a file with its `warcinfo` record.
    pub(crate) fn create(root: &Path, crawl: &CrawlName, name: &FileName, now: Millis) -> Result<Self, ArchiveError> {
        let directory = root.join(&name.directory);
        fs::create_dir_all(&directory).map_err(ArchiveError::io(&directory, "create the directory"))?;
        let path = root.join(name.open_path());
        let file = File::create(&path).map_err(ArchiveError::io(&path, "create"))?;
        let info = Info { filename: &name.file, date_ms: now, fields: &info(crawl) };
        let writer = WarcWriter::new(BufWriter::with_capacity(BUFFER_BYTES, file), &info);
        let writer = writer.map_err(ArchiveError::io(&path, "write"))?;
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

    /// Makes the file durable under its temporary name; returns its size in bytes.
    pub(crate) fn finish(self, root: &Path) -> Result<u64, ArchiveError> {
        let Self { path, writer } = self;
        let bytes = writer.bytes();
        let file = writer.into_inner().into_inner().map_err(|error| error.into_error());
        let file = file.map_err(ArchiveError::io(&path, "write"))?;
        file.sync_all().map_err(ArchiveError::io(&path, "write"))?;
        path.parent().map_or(Ok(()), sync_directory)?;
        sync_directory(root)?;
        Ok(bytes)
    }

    /// Closes the file without writing the bytes that are still in memory.
    pub(crate) fn abandon(self) {
        let (_file, _unwritten) = self.writer.into_inner().into_parts();
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

/// Gives a durable file its final name. Returns `false` if it exists under neither name.
pub(crate) fn publish(root: &Path, name: &FileName) -> Result<bool, ArchiveError> {
    let (open, closed) = (root.join(name.open_path()), root.join(name.path()));
    match fs::rename(&open, &closed) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(closed.exists()),
        Err(error) => return Err(ArchiveError::io(open, "rename")(error)),
    }
    sync_directory(&root.join(&name.directory))?;
    Ok(true)
}

/// Deletes an unfinished file, if it exists.
pub(crate) fn discard(root: &Path, name: &FileName) -> Result<(), ArchiveError> {
    let path = root.join(name.open_path());
    match fs::remove_file(&path) {
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
            let open = FileName::of_open(&directory, &file);
            files.extend(open.map(|(name, numbers)| OpenFile { name, numbers }));
        }
    }
    Ok(files)
}

/// Gives the finished ones of these files their final names, and deletes the unfinished ones, if they are those of earlier
/// owners of these partitions. Returns all others.
pub(crate) fn recover(
    root: &Path,
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
            discard(root, &name)?;
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
