//! The service as a process of a cluster.

use std::process::ExitCode;

/// See ADR 14. Builds for tests keep the system allocator: with libfaketime, which sets their clocks, jemalloc deadlocks.
#[cfg(all(target_os = "linux", target_env = "gnu", not(debug_assertions)))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    orbweaver_process::main::<orbweaver_urlstore::service::UrlstoreService>()
}
