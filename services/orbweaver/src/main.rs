//! The command `orbweaver`.

use std::process::ExitCode;

/// Many threads that allocate and free buffers of all sizes fragment the system allocator's memory: see ADR 14.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    orbweaver::run(std::env::args_os())
}
