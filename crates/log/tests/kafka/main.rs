//! The log on real brokers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod append;
mod contract;
mod fixture;
mod group;
mod killed;
mod reading;
mod topics;
