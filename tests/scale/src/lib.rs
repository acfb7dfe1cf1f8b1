//! Balance in simulation: a web of 10^9 URLs on the real slots, 1,000 instances, and the cost of 10^9 pages a day.
//! `docs/scale.md` has the results.
//!
//! | module | contents |
//! |---|---|
//! | `web` | a synthetic web: names and sizes of sites |
//! | `spread` | load by slot, partition and instance |
//! | `assign` | assignment of partitions to members, and the partitions that move |
//! | `records` | records and bytes by topic in the log of a crawl |
//! | `cluster` | measured cost per page, and the cluster for a rate |
//! | `chart` | charts as SVG |
//! | `report` | the tables and charts of `docs/scale.md` |

pub mod assign;
pub mod chart;
pub mod cluster;
pub mod records;
pub mod report;
pub mod spread;
pub mod web;
