//! The commands.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption fails the test")]

mod command_line;
#[cfg(feature = "cluster")]
mod configuration;
mod crawl_export;
mod export;
mod replay;
mod secrets;
mod serve;
