//! Urlstore: an HTTP API over all that the store knows of a URL, and the console.
//!
//! A request names a URL. Its canonical form and the name of the crawl give the fingerprint ([`identity`]), under which the
//! store has its rows. Pure functions from (state, row) decide the next lookup: [`resolution`] follows
//! redirects, `location` finds the archived record with the content of a page. Handlers perform these lookups.
//!
//! | module | contents |
//! |---|---|
//! | [`identity`], `parameters` | from the text of a URL, and from a query, to a key of the store (pure) |
//! | [`resolution`] | redirects: chains, loops, limits (pure) |
//! | `selection`, `listing` | lists of the pages of a site: which, from where, how many at once (pure) |
//! | `location`, `record` | the record with the content of a page; its gzip member (pure) |
//! | [`answers`], [`problem`], `cursor`, `validators` | bodies of answers; problem details; cursors; entity tags (pure) |
//! | `token` | the bearer token (pure) |
//! | `routes`, `lookup` | handlers, and the lookups of resolutions and lists |
//! | `router`, `guard`, `responses` | paths; token, limits and headers of all answers; HTTP responses |
//! | `openapi` | the generated description |
//! | `console` | the files of the console |
//! | [`live`] | a crawl next to the API: its figures and controls |
//! | [`archive`] | records from a directory or a bucket |
//! | [`server`] | connections |
//! | `service` | the service as a process of a cluster (feature `cluster`) |
//! | [`config`], [`metrics`] | settings; metrics |

mod allowance;
pub mod answers;
mod api;
pub mod archive;
pub mod config;
mod console;
mod contents;
mod cursor;
mod document;
mod guard;
pub mod identity;
mod listing;
pub mod live;
mod location;
mod lookup;
pub mod metrics;
mod openapi;
mod parameters;
pub mod problem;
mod record;
pub mod resolution;
mod responses;
mod router;
mod routes;
mod selection;
pub mod server;
#[cfg(feature = "cluster")]
pub mod service;
mod tokens;
mod validators;

pub use api::{Api, Sources};
pub use archive::Archive;
pub use config::UrlstoreConfig;
pub use metrics::UrlstoreMetrics;
pub use router::router;
pub use tokens::{Scope, Tokens, TokensError};
