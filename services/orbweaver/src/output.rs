//! Output of the commands: results on stdout, notices on stderr.

use std::{
    fmt,
    io::{self, BufWriter, Write},
};

use crate::exit::Failure;

/// Prints a formatted line to stderr, without the panic of `eprintln!` if stderr is closed.
macro_rules! notice {
    ($($arguments:tt)*) => { $crate::output::write_notice(format_args!($($arguments)*)) };
}

/// Prints a line to stderr. Errors are ignored: a reader that leaves early (`orbweaver … 2>&1 | head`) neither ends the
/// command nor changes its exit code.
pub(crate) fn write_notice(line: fmt::Arguments<'_>) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Passes a buffered stdout to `print`. A pipe that the reader has closed is not an error.
pub(crate) fn to_stdout(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    while_stdout_is_read(print).map(drop)
}

/// Returns `false` if the reader has closed the pipe; otherwise like [`to_stdout`].
pub(crate) fn while_stdout_is_read(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<bool, Failure> {
    let mut out = BufWriter::with_capacity(64 << 10, io::stdout().lock());
    match print(&mut out).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Output(format!("stdout: {error}"))),
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line<T: serde::Serialize>(out: &mut dyn Write, value: &T) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}
