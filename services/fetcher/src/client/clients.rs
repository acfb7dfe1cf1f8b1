//! The clients of the library, and their settings.

use std::time::Duration;

use reqwest::{Client, ClientBuilder, dns::Resolve};

use super::{idle::Reuse, measured};
use crate::config::FetcherConfig;

/// Time for which an unused connection is kept: longer than the usual interval of a site, short enough that
/// connections to many sites with one page each do not accumulate.
pub(super) const IDLE: Duration = Duration::from_secs(5);
/// Maximum size of the headers of an HTTP/2 response, in bytes. (For HTTP/1, hyper reads at most about 400 KiB.)
const MAX_HEADER_LIST_BYTES: u32 = 256 << 10;
/// Receive window of an HTTP/2 stream, in bytes: h2 buffers this much of a body that is not read, outside of the memory
/// budget, while its reader waits for memory. Hyper's default is 2 MiB, that of the protocol one byte less than this. A
/// body takes one round trip per window.
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 << 10;

/// Two clients with the same settings, of which one keeps its connections for further requests.
///
/// The library bounds the connections that a client keeps by host, not in total.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    keeping: Client,
    closing: Client,
}

impl Clients {
    pub(super) fn build(builder: impl Fn() -> reqwest::Result<ClientBuilder>) -> reqwest::Result<Self> {
        Ok(Self { keeping: builder()?.build()?, closing: builder()?.pool_max_idle_per_host(0).build()? })
    }

    /// Returns the client for a request.
    pub(super) fn get(&self, reuse: Reuse) -> &Client {
        match reuse {
            Reuse::Kept => &self.keeping,
            Reuse::Closed => &self.closing,
        }
    }
}

/// Returns the settings of a client that keeps its connections.
pub(super) fn builder(config: &FetcherConfig, resolver: impl Resolve + 'static) -> ClientBuilder {
    // A connection has room for the full windows of all requests: streams that wait for memory would otherwise hold up
    // the stream that may exceed the budget, and each other. It takes no memory beyond the windows of its streams, and
    // is at most 64 MiB, by the limit of `concurrency`.
    let streams = u32::try_from(config.concurrency).ok();
    let connection_window = streams.map(|streams| streams.saturating_mul(STREAM_WINDOW_BYTES));
    measured::measuring(Client::builder())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        // A retry would violate the site's interval.
        .retry(reqwest::retry::never())
        // A proxy of the environment would dial unchecked addresses.
        .no_proxy()
        .dns_resolver(resolver)
        .connect_timeout(config.connect_timeout)
        .pool_max_idle_per_host(config.concurrency)
        .pool_idle_timeout(IDLE)
        .http1_max_headers(config.max_headers)
        .http1_ignore_invalid_headers_in_responses(true)
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(connection_window)
}
