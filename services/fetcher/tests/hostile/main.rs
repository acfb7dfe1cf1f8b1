//! Hostile servers: whatever they send, a request ends in time, with one of the known outcomes and bounded memory, and
//! the next request gets its own answer. All of them listen on loopback and end with the test. `docs/hostile.md` lists
//! all hostile input with its tests.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod certificates;
mod client;
mod connections;
mod content_types;
mod encodings;
mod headers;
mod lengths;
mod networks;
mod responses;
mod server;
mod slow;
