//! Generated web for crawl tests, with known ground truth.
//!
//! Pages, links, sizes and hosts are functions of a seed and a number, so a web of a hundred million pages needs
//! neither disk nor memory, and the correct result of a crawl is known without crawling. In addition to plain pages
//! there are special places (redirects, robots.txt of every kind, failures, odd markup; see [`Kind`]), each with a
//! known [`Fate`].
//!
//! Flow: [`WebConfig`] and a port make a [`Web`]; [`Web::answer`] maps a request to a [`Reply`], purely; [`ToyWeb`]
//! serves it on loopback sockets with a [`RequestLog`]; [`truth`] lists every URL with its expected result.
//!
//! | module | contents |
//! |---|---|
//! | `config` | configuration of a web, and its checks |
//! | `graph`, `hosts`, `text`, `hash` | the generator: links, addresses, prose |
//! | `special` | special places, by theme: `bulk`, `redirects`, `failures`, `markup`, `robots`, `traps` |
//! | `web`, `reply`, `truth` | responses to requests; ground truth |
//! | `demo`, `heavy`, `greedy`, `directory` | other webs: a demo, heavy pages, memory-intensive pages, files |
//! | `log`, `content`, `server`, `toyweb` | the edge: request log, sockets, handle |

mod config;
mod content;
mod demo;
mod directory;
mod graph;
mod greedy;
mod hash;
mod heavy;
mod hosts;
mod log;
mod reply;
mod server;
mod special;
mod text;
mod toyweb;
mod truth;
mod web;

pub use config::{ConfigError, WebConfig};
pub use greedy::GreedyConfig;
pub use heavy::{heavy_links, heavy_paths};
pub use hosts::HostId;
pub use log::{Entry, Logging, RequestLog};
pub use reply::{Ending, Reply};
pub use special::Kind;
pub use toyweb::{Serving, StartError, ToyWeb};
pub use truth::{Expected, Fate, truth};
pub use web::{Asked, Web};
