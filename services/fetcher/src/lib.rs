//! The fetcher: sends page requests politely.
//!
//! A dispatch from `crawl.ready` becomes an active dispatch (`ActiveDispatch`). Before any request, the robots.txt of
//! the authority is looked up for the agent of the crawl: in memory, else in the store, else from the site, as a
//! request to that site like any other. Then the dispatch waits at its site's gate until its scheduled time has come and the site's interval since
//! its last response has passed. The request itself, and everything else that takes time, runs in tasks of the
//! [`FetchWorker`]; the stage only decides.
//!
//! A response is classified and leads to one outcome: store rows first, then the page (`crawl.pages`) or a redirect's
//! target (`crawl.discovered`), the outcome last. Only when all are durable is the record complete and its request
//! slot free; so after a crash at most as many pages are requested again as there are slots. Outcomes of the last
//! lease are read back before a partition is opened: a dispatch that ended durably is not requested again, and blocks
//! remain in force.
//!
//! | module | contents |
//! |---|---|
//! | `gates`, `site_gate`, `crawl_clocks` | when a request may be sent: pure, time is a value |
//! | `addresses`, `address_gate`, `refusals` | when a request may be sent to its address: pure, time is a value |
//! | `profile` | settings of the requests of each crawl |
//! | `classify` | meaning of a response: pure |
//! | `substitute` | pages sent instead of the requested one, by headers and content: pure |
//! | `text_hash` | hash of the text of a page, which distinguishes changes of the text from others (pure) |
//! | `robots` | meaning of the response to a request for robots.txt: pure |
//! | `dispatches`, `requests`, `robots_lookups`, `ownership` | parts of its state: pure |
//! | `sitemaps` | discovery of the sitemaps of sites: pure |
//! | `robots_cache`, `completed_dispatches` | known robots.txt files and completed dispatches: bounded |
//! | `sniff`, `address`, `cookies` | kinds of bodies; addresses that may be dialled; cookies of one dispatch: pure |
//! | `reason` | reasons of outcomes, a closed set: pure |
//! | `records` | records and rows of an outcome: pure |
//! | `archive` | responses that are page records for the archive alone: pure |
//! | `archive_lag` | lag of the archiver, above which archived crawls pause |
//! | `active_dispatch` | an active dispatch |
//! | `stage` | glue to the runtime; `request_flow` sends requests, `fetch_flow` (pages) and `robots_flow` (robots.txt) are their two halves |
//! | `service` | the service as a process of a cluster (feature `cluster`) |
//! | `client` | the trait [`Client`], the real [`HttpClient`], which decodes bodies; for tests, one with a script |
//! | `purposes` | refusals of the purposes of a crawl, by headers and `meta` elements |
//! | `worker` | tasks for requests and the store; `body` packs pages in them |
//! | `config`, `metrics` | settings; metrics for operators |

mod active_dispatch;
mod address;
mod address_gate;
mod addresses;
mod archive;
mod archive_lag;
mod body;
mod classify;
mod client;
mod completed_dispatches;
mod config;
mod cookies;
mod crawl_clocks;
mod dispatches;
mod fetch_flow;
mod gates;
mod metrics;
mod ownership;
mod profile;
mod purposes;
mod reason;
mod records;
mod refusals;
mod request_flow;
mod requests;
mod robots;
mod robots_cache;
mod robots_flow;
mod robots_lookups;
#[cfg(feature = "cluster")]
pub mod service;
mod site_gate;
mod sitemaps;
mod sniff;
mod stage;
mod substitute;
mod text_hash;
mod worker;

pub use address::{Network, NetworkError, Networks};
pub use body::PackedBody;
pub use client::{
    Attempt, AuthoritiesError, Body, Client, ClientError, Destination, FetchError, HttpClient, HttpResponse, Measured,
    Purpose, Request, read_authorities,
};
pub use config::{FetcherConfig, MAX_HEADER_BYTES};
pub use metrics::FetcherMetrics;
pub use profile::RequestProfile;
pub use purposes::{PurposeRefusal, StatementSource};
pub use stage::FetcherStage;
pub use worker::{Done, FetchWorker, Job};
