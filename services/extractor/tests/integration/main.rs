//! The extractor from outside.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed assumption fails the test")]

mod charset;
mod fixture;
mod hostile;
mod near_duplicates;
mod passes;
mod requisites;
mod sitemaps;
mod stage;
mod vectors;
