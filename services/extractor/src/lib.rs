//! The extractor: links, text and metadata of pages.
//!
//! A record of `crawl.pages` becomes part of a job; a job runs on a blocking thread, with several pages. For each page
//! the body is decompressed ([`body`]), its encoding chosen and decoded ([`charset`]), and its markup read in one pass
//! without a tree (`scan`); the links are resolved and grouped by site (`links`). The result becomes a plan of two
//! steps: the links to the store, then the document to `crawl.documents` and, for each linked site, a record to
//! `crawl.discovered`. When those are durable, the page is complete. A record that is not a page is rejected with its
//! reason; nothing stops the stage.
//!
//! The core is [`extract()`]: bytes in, [`Extracted`] out, without clock, I/O or failure. `orbweaver extract` calls it
//! through [`document::standalone`].
//!
//! | module | contents |
//! |---|---|
//! | [`extract`](mod@extract) | the pure core, and the choice of links to follow |
//! | [`charset`], `prescan` | choice of the encoding, and decoding |
//! | `scan`, `tag`, `attributes` | the pass over the markup, driven by html5gum |
//! | `text` | folding of white space, bounded |
//! | `refresh`, `robots` | small grammars: meta refresh, robots directives |
//! | `sitemap` | sitemaps and feeds, whose entries are links |
//! | `updates` | entries that were modified since the last reading |
//! | `facts` | facts that the page states, such as dates and authors |
//! | `links` | resolution, sites |
//! | `resources` | the URLs that elements and style sheets name: `requisites`, `other_links` |
//! | [`document`](mod@document) | the messages: document, discovered URLs, links for the store |
//! | [`body`] | decompression, bounded |
//! | `signature` | signatures of main texts (pure) |
//! | `originals`, `near_duplicates` | pages with which others are compared (pure); marks of documents, records of originals |
//! | `cut` | cutting of documents to the record limit |
//! | [`pass`] | passes over pages with many links |
//! | [`job`], [`worker`], [`stage`] | from record to verdict, the blocking threads, the glue to the runtime |
//! | `service` | the service as a process of a cluster (feature `cluster`) |
//! | [`config`], [`metrics`] | settings; metrics |

mod attributes;
pub mod body;
pub mod charset;
pub mod config;
mod css;
mod cut;
pub mod document;
pub mod extract;
mod facts;
pub mod job;
mod links;
pub mod metrics;
mod near_duplicates;
mod originals;
mod other_links;
pub mod pass;
mod prescan;
mod refresh;
mod requisites;
mod resources;
mod robots;
mod scan;
#[cfg(feature = "cluster")]
pub mod service;
mod signature;
mod sitemap;
pub mod stage;
mod tag;
mod text;
mod updates;
pub mod worker;

pub use config::ExtractorConfig;
pub use extract::{Extracted, PageInput, extract};
pub use links::{Link, Requisite};
pub use metrics::ExtractorMetrics;
pub use stage::ExtractorStage;
pub use worker::BlockingWorker;
