//! The runtime, with stages that play a part.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption fails the test")]

mod commits;
mod effects;
mod kafka;
mod measured;
mod play;
mod quarantine;
mod rebalance;
mod refused;
mod restore;
mod tails;
mod trials;
mod watch;
