//! Clients for the proxies of crawls.

use std::{
    error::Error,
    sync::{Arc, Mutex, PoisonError},
};

use orbweaver_messages::ProxyUrl;
use reqwest::{
    Proxy, StatusCode,
    dns::{Addrs, Name, Resolve, Resolving},
};
use url::Url;

use super::{FetchError, clients::Clients};

/// Maximum number of proxies with clients: these have their own connections and TLS sessions. With more proxies in
/// use, those that are used least recently connect again.
const MAX_CLIENTS: usize = 16;

/// Failures to connect, as text, that are the proxy's own. The types of these errors are private.
const OF_PROXY: [&str; 6] = [
    "tunnel error: failed to create underlying connection",
    "tunnel error: proxy authorization required",
    "SOCKS error: failed to create underlying connection",
    "SOCKS error: credentials not accepted",
    "SOCKS error: server does not support user/pass authentication",
    "SOCKS error: server implements authentication incorrectly",
];

/// Clients that were used last, the latest first.
#[derive(Debug, Default)]
pub(super) struct ProxyClients(Mutex<Vec<(ProxyUrl, Clients)>>);

impl ProxyClients {
    /// Returns the clients for a proxy, which are built if they are not there; `None` if that fails.
    pub(super) fn get(&self, proxy: &ProxyUrl, build: impl FnOnce(Url) -> reqwest::Result<Clients>) -> Option<Clients> {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = clients.iter().position(|(known, _)| known == proxy) {
            clients[..=at].rotate_right(1);
        } else {
            let built = build(proxy.url()?).inspect_err(|_| tracing::error!(%proxy, "cannot use the proxy")).ok()?;
            clients.truncate(MAX_CLIENTS - 1);
            clients.insert(0, (proxy.clone(), built));
        }
        clients.first().map(|(_, built)| built.clone())
    }
}

/// Resolver for a client with a proxy: the proxy's own name is looked up by the system, and may be private; others have
/// the addresses that were chosen for them.
pub(super) struct ProxyHosts<R> {
    pub(super) proxy: Box<str>,
    pub(super) hosts: Arc<R>,
}

impl<R: Resolve> Resolve for ProxyHosts<R> {
    fn resolve(&self, name: Name) -> Resolving {
        if !name.as_str().eq_ignore_ascii_case(&self.proxy) {
            return self.hosts.resolve(name);
        }
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Returns the settings of a proxy for a client.
pub(super) fn proxy(url: Url) -> reqwest::Result<Proxy> {
    Proxy::all(url)
}

/// Returns `true` if the proxy reads a request: it is neither encrypted for the site nor sent by SOCKS.
fn is_read(proxy: &ProxyUrl, url: &Url) -> bool {
    url.scheme() == "http" && proxy.as_str().starts_with("http")
}

/// Returns `true` if the proxy answers a request itself, since it does not accept the user or password.
pub(super) fn refuses(proxy: &ProxyUrl, url: &Url, status: StatusCode) -> bool {
    is_read(proxy, url) && status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
}

/// Returns the reason why a request through a proxy failed, which is `failure` without one. A failure that may be due to
/// the site counts as its own: a URL would otherwise be deferred without end.
pub(super) fn failure_of(error: &reqwest::Error, proxy: &ProxyUrl, url: &Url, failure: FetchError) -> FetchError {
    let mut causes = std::iter::successors(error.source(), |cause| (*cause).source());
    let is_own = is_read(proxy, url) || causes.any(|cause| OF_PROXY.contains(&&*cause.to_string()));
    match failure {
        FetchError::Connect | FetchError::Tls if is_own => FetchError::Proxy,
        failure => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_of_the_proxies_that_were_used_last_are_kept() {
        let clients = ProxyClients::default();
        let is_built = |number: usize| {
            let mut is_built = false;
            let build = |url: Url| {
                is_built = true;
                Clients::build(|| Ok(reqwest::Client::builder().proxy(proxy(url.clone())?)))
            };
            clients.get(&format!("http://proxy{number}.example").into(), build).unwrap();
            is_built
        };
        assert!((0..MAX_CLIENTS).all(is_built));
        assert!(!is_built(0), "it is used again");
        assert!(is_built(MAX_CLIENTS));
        assert!(!is_built(0) && is_built(1), "the one that was not used for longest is gone");
        assert_eq!(clients.0.lock().unwrap().len(), MAX_CLIENTS);
    }
}
