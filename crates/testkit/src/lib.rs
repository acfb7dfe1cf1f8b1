//! Real servers for tests: shared ones, and private ones to break.
//!
//! Tests that need servers are ignored by default; `tests/run` starts the servers and includes those tests. Manually:
//! `eval "$(tests/stack up)"`, then `cargo nextest run --run-ignored all`.

mod stack;

pub use stack::{SESSION, Stack, StackError};

/// Returns the brokers shared by tests: `HOST:PORT[,HOST:PORT…]`.
///
/// # Panics
/// If no servers are running: the variable printed by `tests/stack up` is not set.
#[must_use]
pub fn brokers() -> String {
    variable("ORBWEAVER_TEST_BROKERS")
}

/// Returns the CQL server shared by tests: `HOST:PORT`.
///
/// # Panics
/// If no servers are running: the variable printed by `tests/stack up` is not set.
#[must_use]
pub fn cql() -> String {
    variable("ORBWEAVER_TEST_CQL")
}

/// Returns a name that no other test uses, for a topic prefix or a keyspace: letters, digits and underscores.
#[must_use]
pub fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Process ids are reused, so the name also has the time of /proc/self.
    let nanos = std::fs::metadata("/proc/self").and_then(|proc| proc.modified()).ok();
    let started = nanos.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok()).map_or(0, |at| at.as_millis());
    format!("{prefix}_{:x}_{:x}_{next:x}", started & 0xff_ffff_ffff, std::process::id())
}

fn variable(name: &str) -> String {
    match std::env::var(name) {
        Ok(value) if !value.is_empty() => value,
        _ => panic!("{name} is not set: start the servers with  eval \"$(tests/stack up)\""),
    }
}
