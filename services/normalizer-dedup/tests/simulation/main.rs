//! Tests of the stage on an in-memory log: crashes between every two writes, and random schedules.

#![allow(clippy::expect_used, reason = "a test says what it expects")]

mod awaited;
mod bounds;
mod changed;
mod crashes;
mod examples;
mod external;
mod flow;
mod schedules;
mod updates;
mod world;
