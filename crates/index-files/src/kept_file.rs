//! Files that are kept open as far as their number allows: an instance may hold hundreds of partitions with a dozen
//! files each, and a process has 1,024 by default.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// Maximum number of files of indexes that this process keeps open; others are opened for each access, which costs 2 µs
/// more.
const KEPT_OPEN: usize = if cfg!(test) { 4 } else { 512 };
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A file that is kept open if the limit allows.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    /// Keeps the file at this path open, unless there are too many.
    #[must_use]
    pub fn new(path: PathBuf, file: File) -> Self {
        let more = |open: usize| (open < KEPT_OPEN).then_some(open + 1);
        Self { path, file: OPEN.fetch_update(Relaxed, Relaxed, more).is_ok().then_some(file) }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `access` with the file, open for reading and writing.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or if `access` fails.
    pub fn with<T>(&self, access: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match &self.file {
            Some(file) => access(file),
            None => access(&File::options().read(true).write(true).open(&self.path)?),
        }
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            OPEN.fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn a_file_beyond_the_limit_is_read_and_written_like_the_others_and_not_kept_open() {
        let directory = tempfile::tempdir().unwrap();
        let kept = |number: usize| {
            let path = directory.path().join(number.to_string());
            let file = File::create_new(&path).unwrap();
            drop(file);
            KeptFile::new(path.clone(), File::options().read(true).write(true).open(&path).unwrap())
        };
        let mut files: Vec<_> = (0..6).map(kept).collect();
        for file in &files {
            file.with(|file| file.write_all_at(b"text", 3)).unwrap();
            let mut text = [0; 4];
            file.with(|file| file.read_exact_at(&mut text, 3)).unwrap();
            assert_eq!(&text, b"text");
        }
        let is_kept = |files: &[KeptFile]| files.iter().map(|file| file.file.is_some()).collect::<Vec<_>>();
        assert_eq!(is_kept(&files), [true, true, true, true, false, false]);
        std::fs::remove_file(files[5].path()).unwrap();
        assert_eq!(files[5].with(|_| Ok(())).unwrap_err().kind(), io::ErrorKind::NotFound);
        files.remove(0);
        files.push(kept(6));
        assert_eq!(is_kept(&files), [true, true, true, false, false, true]);
    }
}
