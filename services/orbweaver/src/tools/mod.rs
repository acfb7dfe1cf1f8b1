//! Small tools that show how parts of the crawler process an input.

pub mod extract;
pub mod robots;
pub mod url;

use std::{
    io::{self, BufWriter, Read as _, Write},
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

/// Passes a buffered stdout to `print`. A pipe that the reader has closed is not an error.
pub(crate) fn to_stdout(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    match print(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(format!("stdout: {error}"))),
        _ => Ok(()),
    }
}

pub(crate) fn json_line<T: serde::Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
