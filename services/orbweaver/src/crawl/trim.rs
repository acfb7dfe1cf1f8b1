//! Removal of the state that a complete crawl no longer needs.

use std::{io, path::Path};

use crate::exit::Failure;

/// Directory of the files of the archive that are to be uploaded.
pub const UPLOADS: &str = "archive";

/// Removes the log and the indexes over it. The metadata of the pages, in the store, stays.
pub fn trim(state: &Path) -> Result<(), Failure> {
    for name in ["log", "frontier", "seen", "exported", "export.json", UPLOADS] {
        let path = state.join(name);
        let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Failure::Output(format!("{}: {error}", path.display())));
            }
            _ => {}
        }
    }
    Ok(())
}
