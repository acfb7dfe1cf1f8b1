//! The command `orbweaver`.

use std::process::ExitCode;

fn main() -> ExitCode {
    orbweaver::run(std::env::args_os())
}
