//! The embedded log: the contract, and recovery from kills, damaged files, power cuts, full disks and failed syncs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod compaction;
mod contract;
mod damage;
mod disk_full;
mod failed_sync;
mod fixture;
mod kill;
mod opening;
mod power_cut;
mod segments;
