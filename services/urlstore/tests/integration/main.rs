//! Urlstore: every route and status on a scripted store, on every store, and behind real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption fails the test")]

#[cfg(feature = "cluster")]
mod configuration;
mod hostile;
mod live;
mod pages;
mod resolve;
mod routes;
mod sockets;
mod statuses;
mod stores;
mod tokens;
mod world;
