//! The fetcher: asks for pages, politely.
//!
//! A dispatch comes from `crawl.ready` and becomes a *visit*. Before anything is sent, the robots.txt of its authority is
//! known: from memory, else from the store, else it is asked for, as a request of that site like any other. Then the visit
//! waits at its site's gate until its moment has come and the site's interval has passed since its last answer. The request
//! itself, and everything else that takes time, runs in tasks of the [`FetchWorker`]; the stage only decides.
//!
//! What comes back is classified, and ends as one outcome: store rows first, then the page (`crawl.pages`) or a redirect's
//! target (`crawl.discovered`), the outcome last. Only when all are durable is the record complete and its slot free; so at
//! most as many pages as there are slots are asked for again after a crash. Outcomes of the last lease are read back before a
//! partition is served: what ended durably is not asked again, and blocks hold on.
//!
//! | module | contents |
//! |---|---|
//! | `gates`, `site_gate` | when a request may be sent: pure, time is a value |
//! | `classify` | what an answer means: pure |
//! | `robots` | what the answer to a request for robots.txt means: pure |
//! | `robots_cache`, `ended` | what is known of robots.txt files, and which dispatches have ended: bounded |
//! | `sniff`, `address`, `cookies` | is it HTML; may it be dialled; cookies of one dispatch: pure |
//! | `records` | the records and rows of an outcome: pure |
//! | `visit` | a dispatch that is held |
//! | `stage` | the glue to the runtime; `visiting` (pages) and `robots_desk` (robots.txt) are its two halves |
//! | `service` | the service as a process of a cluster (feature `cluster`) |
//! | `client` | the trait [`Client`], the real [`HttpClient`], the [`ScriptedClient`] |
//! | `worker` | tasks for requests and the store; `body` packs pages in them |
//! | `config`, `metrics`, `view` | settings; figures for operators; figures for a display |

pub mod address;
mod body;
pub mod classify;
mod client;
mod config;
mod cookies;
mod ended;
pub mod gates;
pub mod metrics;
mod records;
mod robots;
mod robots_cache;
mod robots_desk;
#[cfg(feature = "cluster")]
pub mod service;
mod site_gate;
mod sniff;
mod stage;
mod view;
mod visit;
mod visiting;
mod worker;

pub use body::{PackedBody, pack};
pub use client::{Answer, Attempt, Body, Client, ClientError, Failure, HttpClient, Purpose, Request, ScriptedClient};
pub use config::{ConfigError, FetcherConfig, MAX_BODY_BYTES, MAX_CONCURRENCY, MAX_HEADER_BYTES};
pub use metrics::FetcherMetrics;
pub use stage::FetcherStage;
pub use view::{FetcherView, SiteLoad};
pub use worker::{Done, FetchWorker, Job};
