//! The HTTP client.

use std::{error::Error, io, net::IpAddr, sync::Arc};

use futures::{FutureExt, TryStreamExt as _, future::BoxFuture};
use orbweaver_messages::{Millis, PageKind, ProxyUrl};
use orbweaver_stage::{Clock, Reservation};
use reqwest::{
    Certificate, Method, Response,
    header::{self, HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{
    Attempt, AuthoritiesError, Body, Client, Destination, FetchError, HttpResponse, Measured, Purpose, Request,
    capture,
    clients::{Clients, IDLE, builder},
    decoding::{self, ACCEPTED, Codings, Pieces},
    descriptors::raise_limit,
    hosts::{Hosts, InUse},
    idle::IdleConnections,
    measured::Meters,
    pace::LeastRate,
    pins::{ConnectionTimes, Pinned},
    proxies::{self, ProxyClients, ProxyHosts},
    read_authorities,
    resolver::Resolver,
};
use crate::{config::FetcherConfig, profile::RequestProfile, purposes, sniff::Candidates, substitute};

/// Maximum number of bytes read of a robots.txt (RFC 9309 section 2.5).
const MAX_ROBOTS_BYTES: usize = 500 << 10;
/// Minimum and maximum initial allocation for a body, in bytes, whatever its declared length.
pub(crate) const FIRST_BYTES: usize = 16 << 10;
const MOST_FIRST_BYTES: usize = 256 << 10;
/// Maximum number of cookies read from a response.
const MAX_COOKIES: usize = 20;
/// Maximum length of a header value that is read, in bytes.
const MAX_VALUE_BYTES: usize = 8192;

/// Failure to build the client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot build the HTTP client: {0}")]
    Http(#[from] reqwest::Error),
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    #[error("cannot build the resolver: {0}")]
    Resolver(#[from] hickory_resolver::net::NetError),
}

/// Client for HTTP/1.1 and HTTP/2, with rustls. Addresses are checked before they are dialled.
pub struct HttpClient {
    direct: Clients,
    proxied: ProxyClients,
    resolver: Resolver,
    hosts: Hosts,
    idle: IdleConnections,
    clock: Arc<dyn Clock>,
    config: FetcherConfig,
    least_rate: LeastRate,
    /// Trusted in addition to those of the system.
    authorities: Vec<Certificate>,
}

impl HttpClient {
    /// Builds the client. Reads the file of authorities, if one is configured, and raises the limit of open files of the
    /// process.
    pub fn new(config: &FetcherConfig, clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        let times = ConnectionTimes { connect: config.connect_timeout, request: config.request_timeout, idle: IDLE };
        // The other half is for requests in flight, lookups, and the log.
        let max_idle = raise_limit().map_or(usize::MAX, |limit| limit / 2).min(config.max_idle_connections);
        // A connection that was begun for a request, which then found another one free, is kept too.
        let idle = IdleConnections::new(max_idle, config.connect_timeout + IDLE);
        let hosts = Hosts::new(times);
        let authorities = read_authorities(config.tls_ca.as_deref())?;
        let direct = || Ok(builder(config, hosts.clone()).tls_certs_merge(authorities.clone()));
        let direct = Clients::build(direct)?;
        let (proxied, resolver) = (ProxyClients::default(), Resolver::new(config)?);
        let bytes_per_second = config.min_body_rate as u64;
        let least_rate = LeastRate { bytes_per_second, grace: config.body_grace };
        Ok(Self { direct, proxied, resolver, hosts, idle, clock, config: config.clone(), least_rate, authorities })
    }

    /// Returns the clients for a proxy, or those without.
    fn clients_for(&self, proxy: Option<&ProxyUrl>) -> Option<Clients> {
        let Some(proxy) = proxy else { return Some(self.direct.clone()) };
        self.proxied.get(proxy, |url| {
            let hosts = Arc::new(self.hosts.clone());
            Clients::build(|| {
                let resolver = ProxyHosts { proxy: url.host_str().unwrap_or_default().into(), hosts: hosts.clone() };
                let builder = builder(&self.config, resolver).tls_certs_merge(self.authorities.clone());
                Ok(builder.proxy(proxies::proxy(url.clone())?))
            })
        })
    }

    /// Returns the address to which the next request to a host goes, once no connection to another one is open.
    async fn address_of(&self, host: &str) -> Result<IpAddr, FetchError> {
        loop {
            let pinned = self.hosts.pins().next(host, Instant::now());
            let avoid = match pinned {
                Pinned::At(address) => return Ok(address),
                Pinned::Unknown { avoid } => avoid,
            };
            let started = Instant::now();
            let found = self.resolver.look_up(host, avoid).await.map_err(|error| {
                tracing::debug!(host, %error, "no address");
                error.failure()
            })?;
            let took = started.elapsed();
            let chosen = self.hosts.pins().choose(host, &found, Instant::now());
            match chosen {
                Ok(address) => {
                    self.hosts.pins().looked_up(host, took);
                    return Ok(address);
                }
                Err(quiet) => sleep_until(quiet).await,
            }
        }
    }

    /// Notes that the host of a request is in use at its address; `None` if the host is an address.
    async fn occupy(&self, request: &Request) -> Result<Option<InUse>, FetchError> {
        let host = request.url.domain();
        let address = match (request.destination, host) {
            (Destination::Failed(failure), _) => return Err(failure),
            (_, None) => return Ok(None),
            (Destination::At(address), Some(_)) => address,
            (Destination::Unlocated, Some(host)) => self.address_of(host).await?,
        };
        match host.and_then(|host| self.hosts.start(host, address)) {
            Some(in_use) => Ok(Some(in_use)),
            None => {
                tracing::warn!(host, %address, "the host is in use at another address; its request is repeated later");
                Err(FetchError::Dns)
            }
        }
    }

    /// Sends a request. Returns the time at which the headers arrived, if they did, and the response.
    async fn attempt(
        &self,
        request: Request,
        memory: &mut Reservation,
        meters: &Meters,
    ) -> (Option<Millis>, Result<HttpResponse, FetchError>) {
        let mut in_use = match self.occupy(&request).await {
            Ok(in_use) => in_use,
            Err(failure) => return (None, Err(failure)),
        };
        meters.add_lookup(in_use.as_ref().and_then(InUse::take_lookup));
        let deadline = Instant::now() + self.config.request_timeout;
        let (purpose, profile) = (request.purpose, Arc::clone(&request.profile));
        let Some(request) = self.prepare(request) else { return (None, Err(FetchError::Private)) };
        let proxy = profile.proxy.as_ref();
        let Some(clients) = self.clients_for(proxy) else { return (None, Err(FetchError::Proxy)) };
        let url = request.url().clone();
        let mut connection = self.idle.start(&url);
        let sent = profile.archive.then(|| capture::sent_headers(request.url(), request.headers()));
        let sending = meters.sending(clients.get(connection.reuse).execute(request));
        let mut response = match timeout(self.config.headers_timeout, sending).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let failure = failure_of(&error);
                connection.is_refused = failure == FetchError::Connect;
                if let Some(proxy) = proxy {
                    return (None, Err(proxies::failure_of(&error, proxy, &url, failure)));
                }
                if let Some(in_use) = &mut in_use {
                    in_use.is_refused = connection.is_refused;
                }
                return (None, Err(failure));
            }
            Err(_elapsed) => return (None, Err(FetchError::Timeout)),
        };
        if proxy.is_some_and(|proxy| proxies::refuses(proxy, &url, response.status())) {
            return (None, Err(FetchError::Proxy));
        }
        let answered_at_ms = self.clock.now();
        let mut answer = head(&response);
        // Of an external URL nothing is kept that a site could refuse.
        if purpose != Purpose::External {
            let headers = purposes::texts(response.headers());
            answer.refusal = purposes::by_headers(&profile, answer.content_type.as_deref(), headers);
        }
        let Some((max_bytes, candidates)) = wanted(purpose, &profile, &answer) else {
            return (Some(answered_at_ms), Ok(answer));
        };
        if !candidates.may_be_sitemap() && purposes::is_unread(&answer, purpose) {
            return (Some(answered_at_ms), Ok(answer));
        }
        answer.capture = sent.map(|sent| Box::new(capture::of(&response, sent, proxy.is_some())));
        let codings = Codings::of(response.headers());
        if codings.as_ref().is_some_and(|codings| !codings.is_empty()) {
            answer.content_encoding = codings.as_ref().and_then(Codings::names);
            // The body has neither once it is decoded.
            let headers = response.headers_mut();
            headers.remove(header::CONTENT_ENCODING);
            headers.remove(header::CONTENT_LENGTH);
        }
        if purpose != Purpose::Robots || profile.archive {
            answer.headers = kept_headers(response.headers(), self.config.max_header_bytes);
        }
        let length = response.content_length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        let received = decoding::received(response, self.least_rate, meters.clone());
        let read = read((received, length), codings, (max_bytes, candidates), memory);
        let ended = timeout_at(deadline, read).await;
        answer.encoded_bytes = answer.content_encoding.is_some().then(|| meters.so_far().received_bytes);
        let result = match ended {
            Ok(Ok((body, kind))) => Ok(HttpResponse { body, kind, ..answer }),
            // The response is complete for all but the archive.
            _ if candidates == Candidates::RESPONSE => Ok(HttpResponse { kind: PageKind::Response, ..answer }),
            // The deadline passed, or the server closed the connection, because reading was paused.
            _ if memory.has_waited() => Err(FetchError::Memory),
            Ok(Err(failure)) => Err(failure),
            Err(_elapsed) => Err(FetchError::Timeout),
        };
        (Some(answered_at_ms), result)
    }

    /// Builds the request; `None` if its address is not public.
    fn prepare(&self, request: Request) -> Option<reqwest::Request> {
        let Request { mut url, cookie, known, profile, .. } = request;
        if self.config.refuses(&url) {
            return None;
        }
        // User info before an `@` is never sent as a password. Neither call fails for a URL that has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let mut asked = reqwest::Request::new(Method::GET, url);
        *asked.headers_mut() = profile.request_headers(cookie.as_deref(), known.as_deref());
        asked.headers_mut().entry(header::ACCEPT_ENCODING).or_insert(HeaderValue::from_static(ACCEPTED));
        Some(asked)
    }
}

/// Returns the maximum number of body bytes to read, and the kinds that the body may be; `None` if it is not read.
fn wanted(purpose: Purpose, profile: &RequestProfile, answer: &HttpResponse) -> Option<(usize, Candidates)> {
    let (is_used, max_bytes) = match purpose {
        Purpose::Robots => ((200..300).contains(&answer.status), MAX_ROBOTS_BYTES),
        _ => (answer.status == 200, profile.max_body_bytes),
    };
    let candidates = match purpose {
        Purpose::External => None,
        _ if !is_used => profile.archive.then_some(Candidates::RESPONSE),
        Purpose::Robots => Some(Candidates::ALL),
        _ => Candidates::of(answer.content_type.as_deref(), purpose, profile),
    };
    candidates.map(|candidates| (max_bytes, candidates))
}

impl Client for HttpClient {
    fn locate<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Option<IpAddr>, FetchError>> {
        async move { self.address_of(host).await.map(Some) }.boxed()
    }

    fn ask<'a>(&'a self, request: Request, memory: &'a mut Reservation) -> BoxFuture<'a, Attempt> {
        async move {
            let requested_at_ms = self.clock.now();
            let meters = Meters::default();
            let (answered_at_ms, mut result) = self.attempt(request, memory, &meters).await;
            let measured = meters.so_far();
            let ended_at_ms = self.clock.now();
            let answered_at_ms = answered_at_ms.unwrap_or(ended_at_ms);
            if let Ok(HttpResponse { capture: Some(capture), .. }) = &mut result {
                (capture.requested_at_ms, capture.answered_at_ms) = (requested_at_ms, answered_at_ms);
                capture.lookup_ms = measured.lookup.map(Measured::millis);
                capture.connect_ms = measured.connect.map(Measured::millis);
            }
            Attempt { requested_at_ms, answered_at_ms, ended_at_ms, measured, result }
        }
        .boxed()
    }
}

/// Reads the decoded body up to a limit, which also bounds the growth by decompression, and determines its kind. Stops
/// reading once it is none of the candidates. `length` is the declared length or 0, `codings` is `None` if the body cannot
/// be decoded.
async fn read(
    (received, length): (Pieces, usize),
    codings: Option<Codings>,
    (max_bytes, candidates): (usize, Candidates),
    memory: &mut Reservation,
) -> Result<(Body, PageKind), FetchError> {
    let codings = codings.ok_or(FetchError::Body)?;
    let expected = if codings.is_empty() { length } else { 0 };
    let first = expected.clamp(FIRST_BYTES, MOST_FIRST_BYTES);
    let mut bytes = Vec::new();
    let mut kind = None;
    let broken = |error| decoding::failure_of(&error);
    let mut pieces = decoding::decoded(received, &codings, max_bytes).await.map_err(broken)?;
    while let Some(piece) = pieces.try_next().await.map_err(broken)? {
        // Decoding alone would never yield to other requests.
        tokio::task::coop::consume_budget().await;
        let room = max_bytes - bytes.len();
        let truncated = piece.len() > room;
        let more = piece.len().min(room);
        memory.grow(codings.memory(bytes.len() + more) - codings.memory(bytes.len())).await;
        make_room(&mut bytes, more, (first, max_bytes), memory).await;
        bytes.extend_from_slice(&piece[..more]);
        if kind.is_none() && (bytes.len() >= candidates.decisive_bytes() || truncated) {
            kind = candidates.kind(&bytes);
            if kind.is_none() {
                return Ok((Body::Unwanted, PageKind::default()));
            }
        }
        if truncated {
            return Ok((Body::Read { bytes, truncated }, kind.unwrap_or_default()));
        }
    }
    Ok(match kind.or_else(|| candidates.kind(&bytes)) {
        Some(kind) => (Body::Read { bytes, truncated: false }, kind),
        None => (Body::Unwanted, PageKind::default()),
    })
}

/// Grows the capacity for `more` bytes: to at least `first` bytes, then by half each time, to at most `max_bytes` in
/// total. The memory is reserved before it is allocated.
async fn make_room(bytes: &mut Vec<u8>, more: usize, (first, max_bytes): (usize, usize), memory: &mut Reservation) {
    let (needed, held) = (bytes.len() + more, bytes.capacity());
    if needed > held {
        let capacity = (held + held / 2).max(first).min(max_bytes).max(needed);
        memory.grow(capacity - held).await;
        bytes.reserve_exact(capacity - bytes.len());
    }
}

/// Reads the headers.
fn head(response: &Response) -> HttpResponse {
    let headers = response.headers();
    let text = |name: HeaderName| headers.get(name).filter(|value| value.len() <= MAX_VALUE_BYTES).map(text_of);
    let cookies = headers.get_all(header::SET_COOKIE).iter().take(MAX_COOKIES);
    HttpResponse {
        status: response.status().as_u16(),
        content_type: text(header::CONTENT_TYPE),
        location: text(header::LOCATION),
        cache_control: text(header::CACHE_CONTROL),
        retry_after: text(header::RETRY_AFTER),
        etag: text(header::ETAG),
        last_modified: text(header::LAST_MODIFIED),
        set_cookie: cookies.filter(|value| value.len() <= MAX_VALUE_BYTES).map(text_of).collect(),
        headers: vec![],
        body: Body::Unread,
        content_encoding: None,
        encoded_bytes: None,
        kind: PageKind::Html,
        substitute: substitute::by_headers(|name| headers.get(name).map(HeaderValue::as_bytes)),
        capture: None,
        refusal: None,
    }
}

/// Returns the headers in their original order, without those that exceed the remaining room.
fn kept_headers(headers: &HeaderMap, max_bytes: usize) -> Vec<(String, String)> {
    let mut room = max_bytes;
    let mut kept = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let size = name.as_str().len() + value.len();
        if size <= room {
            room -= size;
            kept.push((name.as_str().to_owned(), text_of(value)));
        }
    }
    kept
}

fn text_of(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Returns the reason why a request failed before the headers of its response arrived.
fn failure_of(error: &reqwest::Error) -> FetchError {
    let mut source = error.source();
    while let Some(cause) = source {
        if is_tls(cause) {
            return FetchError::Tls;
        }
        source = cause.source();
    }
    if error.is_connect() {
        FetchError::Connect
    } else if error.is_timeout() {
        FetchError::Timeout
    } else if error.is_builder() {
        FetchError::Internal
    } else {
        FetchError::Connection
    }
}

/// Returns `true` for a TLS error, or one that wraps it: the source of an I/O error is not the wrapped error, but that
/// error's source. TLS errors are wrapped twice (tokio-rustls, hyper-rustls).
fn is_tls(cause: &(dyn Error + 'static)) -> bool {
    if cause.is::<rustls::Error>() {
        return true;
    }
    let Some(mut wrapped) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) else { return false };
    while let Some(inner) = wrapped.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        wrapped = inner;
    }
    wrapped.is::<rustls::Error>()
}

#[cfg(test)]
mod tests;
