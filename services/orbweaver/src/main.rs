//! The command `orbweaver`.

use std::process::ExitCode;

/// Many threads that allocate and free buffers of all sizes leave the system's allocator with holes: see ADR 14.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    orbweaver::run(std::env::args_os())
}
