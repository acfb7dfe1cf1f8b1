//! Files and directories that survive a power cut: the content is synced, and so is the directory entry that names it.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

use crate::exit::Failure;

/// Creates a directory and its missing parents, and makes their names durable.
pub fn create_dir(path: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Output(format!("{}: {error}", path.display()));
    let missing = path.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).count();
    fs::create_dir_all(path).map_err(failed)?;
    // At least the parent: an earlier process may have been killed between creating the directory and syncing its name.
    for dir in path.ancestors().take(missing.max(1)) {
        sync_dir(parent(dir)).map_err(failed)?;
    }
    Ok(())
}

/// Makes the names in a directory durable.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Reads a JSON file; returns `None` if there is none.
pub fn read_whole<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Failure> {
    let failed = |error: io::Error| Failure::Output(format!("{}: {error}", path.display()));
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Writes a JSON file atomically and durably: a crash leaves the old or the new content, and after this returns, the
/// new one.
pub fn write_whole<T: Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Output(format!("{}: {error}", path.display()));
    let new = path.with_extension("json.new");
    let mut text = serde_json::to_vec_pretty(value).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    let mut file = File::create(&new).map_err(failed)?;
    file.write_all(&text).and_then(|()| file.sync_data()).map_err(failed)?;
    fs::rename(&new, path).and_then(|()| sync_dir(parent(path))).map_err(failed)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Copies a directory with its content, such as what a killed process leaves behind.
    pub(crate) fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy(&entry.path(), &to);
            } else {
                fs::copy(entry.path(), to).unwrap();
            }
        }
    }

    #[test]
    fn a_directory_is_created_with_its_parents_and_may_exist() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out/state");
        create_dir(&path).unwrap();
        create_dir(&path).unwrap();
        write_whole(&path.join("crawl.json"), &7).unwrap();
        assert_eq!(fs::read_to_string(path.join("crawl.json")).unwrap(), "7\n");
        let error = create_dir(&path.join("crawl.json/state")).unwrap_err().to_string();
        assert!(error.contains("crawl.json/state"), "{error}");
    }

    #[test]
    fn a_name_without_a_directory_is_one_in_the_working_directory() {
        assert_eq!(parent(Path::new("out")), Path::new("."));
        assert_eq!(parent(Path::new("./out")), Path::new("."));
        assert_eq!(parent(Path::new("/")), Path::new("."));
    }
}
