//! The log on real brokers.

mod append;
mod contract;
mod fixture;
mod group;
mod killed;
mod reading;
mod speed;
mod topics;
