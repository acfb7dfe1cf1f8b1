//! All keys, in listing order. Dependencies between keys are documented where their values are read.

mod connections;
mod services;

use std::sync::LazyLock;

use super::key::Key;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| [connections::KEYS, services::KEYS].concat());

#[cfg(test)]
mod tests;
