//! The archiver: schedules of crashes on a simulated disk, and real files behind a real log.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption fails the test")]

mod fixture;
mod restarts;
mod runs;
mod schedules;
mod uploads;
mod warc;
mod world;
