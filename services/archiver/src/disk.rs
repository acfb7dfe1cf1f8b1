//! Files on disk.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use orbweaver_messages::Millis;
use orbweaver_url::CrawlName;
use orbweaver_warc::{Info, WarcWriter, Written, index_line};
use sha2::{Digest as _, Sha256};

use crate::{
    capture::{capture, info, metadata},
    error::ArchiveError,
    file_name::{FileName, Numbers},
    index::OpenIndex,
    job::{Closed, Recovery, Size},
    page::Response,
    remote::Remote,
};

/// Buffer of an open file in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A file that is being written, with its index.
#[derive(Debug)]
pub(crate) struct OpenWarc {
    path: PathBuf,
    /// Final name within its directory.
    filename: String,
    writer: WarcWriter<Hashed<BufWriter<File>>>,
    index: OpenIndex,
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
    /// Creates a file with its `warcinfo` record, and its index.
    pub(crate) fn create(root: &Path, crawl: &CrawlName, name: &FileName, now: Millis) -> Result<Self, ArchiveError> {
        let directory = root.join(&name.directory);
        fs::create_dir_all(&directory).map_err(ArchiveError::io(&directory, "create the directory"))?;
        let path = root.join(name.open_path());
        let file = File::create(&path).map_err(ArchiveError::io(&path, "create"))?;
        let info = Info { filename: &name.file, date_ms: now, fields: &info(crawl) };
        let output = Hashed { output: BufWriter::with_capacity(BUFFER_BYTES, file), digest: Sha256::new() };
        let writer = WarcWriter::new(output, &info).map_err(ArchiveError::io(&path, "write"))?;
        let index = OpenIndex::create(root.join(name.open_index_path()))?;
        Ok(Self { path, filename: name.file.clone(), writer, index })
    }

    /// Appends a response. An inner error is the reason for a rejection, of which nothing is written.
    pub(crate) fn write(&mut self, response: &Response<'_>) -> Result<Result<Written, String>, ArchiveError> {
        let metadata = metadata(response);
        let capture = capture(response, &metadata);
        match self.writer.write(&capture) {
            Ok(written) => {
                self.index.add(&index_line(&self.filename, &capture, &written))?;
                Ok(Ok(written))
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(Err(error.to_string())),
            Err(error) => Err(ArchiveError::io(&self.path, "write")(error)),
        }
    }

    /// Returns the sizes, including bytes that are still in memory.
    pub(crate) fn size(&self) -> Size {
        Size { bytes: self.writer.bytes(), index_bytes: self.index.bytes() }
    }

    /// Makes the file and its index durable under their temporary names.
    pub(crate) fn finish(self, root: &Path) -> Result<Closed, ArchiveError> {
        let Self { path, writer, index, .. } = self;
        index.finish()?;
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
        self.index.abandon();
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

/// Marks a durable file, with its index, as one whose upload begins. Returns `false` if it does not exist.
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

/// Gives a durable file and its index their final names; deletes those that the store has. Returns `false` if the file
/// exists under no name.
pub(crate) fn publish(root: &Path, name: &FileName) -> Result<bool, ArchiveError> {
    if root.join(name.upload_path()).exists() {
        return delete_uploaded(root, name).map(|()| true);
    }
    if !root.join(name.open_path()).exists() && !root.join(name.path()).exists() {
        return delete_index(root, name).map(|()| false);
    }
    // The index first: a file with its final name has its index.
    rename(root, &name.open_index_path(), &name.index_path())?;
    rename(root, &name.open_path(), &name.path())?;
    if !root.join(name.path()).exists() {
        // The next owner has deleted it meanwhile.
        return delete_index(root, name).map(|()| false);
    }
    sync_directory(&root.join(&name.directory))?;
    Ok(true)
}

/// Renames a file, if it exists.
fn rename(root: &Path, from: &str, to: &str) -> Result<(), ArchiveError> {
    match fs::rename(root.join(from), root.join(to)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ArchiveError::io(root.join(from), "rename")(error)),
        _ => Ok(()),
    }
}

/// Deletes an unfinished file, its index and their objects, if they exist.
pub(crate) fn discard(root: &Path, name: &FileName, remote: Option<&Remote>) -> Result<(), ArchiveError> {
    if root.join(name.upload_path()).exists() {
        match remote {
            Some(remote) => remote.remove(root, name)?,
            None => tracing::warn!(file = name.path(), "without `archiver.upload` its object cannot be deleted"),
        }
        delete_uploaded(root, name)?;
    }
    delete(&root.join(name.open_path()))?;
    if root.join(name.path()).exists() { Ok(()) } else { delete_index(root, name) }
}

/// Deletes a file whose upload has begun, durably: a later owner would remove the object of a file that reappears.
fn delete_uploaded(root: &Path, name: &FileName) -> Result<(), ArchiveError> {
    // First, since nothing else shows that they exist.
    name.uploads().iter().try_for_each(|upload| delete(&root.join(&upload.id)))?;
    delete(&root.join(name.upload_path()))?;
    // Last: a former owner whose upload has not yet read it finds the file missing too.
    delete_index(root, name)?;
    sync_directory(&root.join(&name.directory))
}

/// Deletes the index of a file that does not exist, under each of its names.
fn delete_index(root: &Path, name: &FileName) -> Result<(), ArchiveError> {
    [name.open_index_path(), name.index_path()].iter().try_for_each(|path| delete(&root.join(path)))
}

fn delete(path: &Path) -> Result<(), ArchiveError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(ArchiveError::io(path, "delete")(error)),
        _ => Ok(()),
    }
}

/// A file that lacks its final name, or whose index does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenFile {
    pub(crate) name: FileName,
    pub(crate) numbers: Numbers,
}

/// Returns the files that lack their final names, or whose indexes do.
pub(crate) fn open_files(root: &Path) -> Result<Vec<OpenFile>, ArchiveError> {
    let mut files = HashMap::new();
    for directory in names_in(root)? {
        for file in names_in(&root.join(&directory))? {
            files.extend(FileName::of_unfinished(&directory, &file));
        }
    }
    Ok(files.into_iter().map(|(name, numbers)| OpenFile { name, numbers }).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates files, as a crash may leave them.
    fn leave(root: &Path, paths: &[&String]) {
        for path in paths {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "").unwrap();
        }
    }

    /// Returns the files below a directory, in order.
    fn left(root: &Path) -> Vec<String> {
        let names = |directory: &str| names_in(&root.join(directory)).unwrap();
        let mut left: Vec<String> = names("")
            .iter()
            .flat_map(|directory| names(directory).into_iter().map(move |file| format!("{directory}/{file}")))
            .collect();
        left.sort_unstable();
        left
    }

    #[test]
    fn whatever_a_crash_leaves_of_a_file_and_its_index_both_are_published_or_neither_is_left() {
        let name = FileName::new(&CrawlName::default(), 0, 3, 5, 0);
        let (open_index, index) = (name.open_index_path(), name.index_path());
        let (open, uploading, closed) = (name.open_path(), name.upload_path(), name.path());
        let ids = name.uploads().map(|upload| upload.id);
        let both = vec![index.clone(), closed.clone()];
        // Files, whether there is an entry, and the files after the recovery.
        let cases: &[(&[&String], bool, &[String])] = &[
            (&[&open], false, &[]),
            (&[&open_index], false, &[]),
            (&[&open, &open_index], false, &[]),
            (&[&open, &open_index], true, &both),
            // Of a version without indexes.
            (&[&open], true, std::slice::from_ref(&closed)),
            // Between the two names of a published file, with or without the entry after a power cut.
            (&[&open, &index], true, &both),
            (&[&open, &index], false, &[]),
            // After a power cut alone: names need not become durable in order.
            (&[&closed, &open_index], true, &both),
            (&[&uploading, &open_index], true, &[]),
            (&[&uploading, &open_index, &ids[0], &ids[1]], true, &[]),
            (&[&uploading], true, &[]),
            // The index of an uploaded file, which is deleted last.
            (&[&open_index], true, &[]),
            (&[&uploading, &open_index, &ids[0], &ids[1]], false, &[]),
        ];
        for (paths, has_entry, expected) in cases {
            let dir = tempfile::tempdir().unwrap();
            leave(dir.path(), paths);
            let files = open_files(dir.path()).unwrap();
            assert_eq!(files.len(), 1, "{paths:?}");
            let published = has_entry.then(|| name.path()).into_iter().collect();
            let recovery = Recovery { partition: 3, owner_epoch: 1, published };
            assert_eq!(recover(dir.path(), None, files, &[recovery]).unwrap(), []);
            assert_eq!(left(dir.path()), *expected, "{paths:?}, {has_entry}");
        }
    }

    #[test]
    fn an_owner_whose_successor_deleted_its_file_leaves_no_index() {
        let dir = tempfile::tempdir().unwrap();
        let name = FileName::new(&CrawlName::default(), 0, 3, 5, 0);
        leave(dir.path(), &[&name.open_index_path()]);
        assert!(!publish(dir.path(), &name).unwrap());
        assert_eq!(left(dir.path()), Vec::<String>::new());
        leave(dir.path(), &[&name.open_path(), &name.open_index_path()]);
        assert!(publish(dir.path(), &name).unwrap());
        assert!(publish(dir.path(), &name).unwrap(), "repeated");
        assert_eq!(left(dir.path()), [name.index_path(), name.path()]);
    }
}
