//! The frontier from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption fails the test")]

mod held;
mod narrowed;
mod order;
mod pages;
mod play;
mod probes;
mod profiles;
mod restart;
mod shares;
mod stopped;
