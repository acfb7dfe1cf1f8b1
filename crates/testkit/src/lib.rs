//! Real servers for tests: which are running, and sets of one's own to break.
//!
//! Tests that need them are ignored unless asked for; `tests/run` starts the servers and runs those tests too. By hand:
//! `eval "$(tests/stack up)"`, then `cargo nextest run --run-ignored all`.

mod stack;

pub use stack::{SESSION, Stack, StackError};

/// The brokers that tests share: `HOST:PORT[,HOST:PORT…]`.
///
/// # Panics
/// When no servers are running: the variable that `tests/stack up` prints is not set.
#[must_use]
pub fn brokers() -> String {
    variable("ORBWEAVER_TEST_BROKERS")
}

/// The CQL server that tests share: `HOST:PORT`.
///
/// # Panics
/// When no servers are running: the variable that `tests/stack up` prints is not set.
#[must_use]
pub fn cql() -> String {
    variable("ORBWEAVER_TEST_CQL")
}

/// A name that no other test uses, for a topic prefix or a keyspace: letters, digits and underscores.
#[must_use]
pub fn unique(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    // Process ids come round again; the time since boot of the process does not.
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
