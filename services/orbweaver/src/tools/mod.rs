//! Small tools that show how parts of the crawler process an input.

pub mod extract;
pub mod robots;
pub mod url;

use std::{
    io::{self, Read as _},
    path::Path,
};

use crate::exit::Failure;

/// Maximum size of a file that a tool reads, in bytes.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Reads a file, or stdin for `-`.
fn read_input(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::Input(format!("{}: {error}", path.display()));
    let mut bytes = vec![];
    if path == Path::new("-") {
        io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(path).map_err(failed)?.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(Failure::Input(format!("{}: the input is larger than {MAX_INPUT_BYTES} bytes", path.display())));
    }
    Ok(bytes)
}
