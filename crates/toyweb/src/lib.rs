//! A web to crawl that knows its own truth.
//!
//! Pages, links, sizes and hosts are functions of a seed and a number, so a web of a hundred million pages needs neither
//! disk nor memory, and what a crawl of it must find is known without crawling it. Besides plain pages there are special
//! places (redirects, robots.txt of every kind, failures, odd markup; see [`Kind`]), each with its known [`Fate`].
//!
//! Flow: [`WebConfig`] and a port make a [`Web`]; [`Web::answer`] maps a request to a [`Reply`], purely; [`ToyWeb`] puts
//! it on loopback sockets with a [`RequestLog`]; [`truth`] lists every URL and how it must end.
//!
//! | module | contents |
//! |---|---|
//! | `config` | what web to generate, checked |
//! | `graph`, `hosts`, `text`, `hash` | the generator: links, addresses, prose |
//! | `special` | the special places, by theme: `bulk`, `redirects`, `failures`, `markup`, `robots`, `traps` |
//! | `web`, `reply`, `truth` | request to answer, and what is true |
//! | `demo`, `heavy`, `greedy`, `directory` | other webs: a pleasant small one, heavy pages, many that take much memory, a folder of files |
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

pub use config::{ConfigError, MAX_ADDRESS_HOSTS, MAX_SPECIALS, WebConfig};
pub use greedy::GreedyConfig;
pub use heavy::{heavy_links, heavy_paths};
pub use hosts::HostId;
pub use log::{Entry, Logging, RequestLog};
pub use reply::{Ending, Reply};
pub use special::Kind;
pub use toyweb::{Serving, StartError, ToyWeb};
pub use truth::{Expected, Fate, truth};
pub use web::{Asked, Web};
