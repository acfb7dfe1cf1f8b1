//! Around each request: token, limits, metrics, and the headers of all answers.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header},
    middleware::Next,
    response::Response,
};
use tokio::time::{Instant, timeout};

use crate::{
    api::Api,
    problem::{Kind, Problem},
    responses,
    tokens::{Caller, Scope},
};

/// Headers of all answers: none may run scripts, be taken for another type, or be stored by others.
const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "private, no-cache"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Maximum length of the target of a request in the log.
const MAX_LOGGED_BYTES: usize = 300;

/// Answers a request, unless it is not admitted.
pub(crate) async fn guard(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let counted = InFlight::new(&api);
    let caller = caller(&api, request.headers(), &uri);
    let name = caller.as_ref().map(|caller| Arc::clone(&caller.name)).ok();
    let mut response = match caller.and_then(|caller| admitted(&api, caller, (&method, uri.path()))) {
        Err(problem) => responses::problem(&problem),
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            let answered = async {
                // Never closed.
                let _permit = api.requests.acquire().await.ok();
                next.run(request).await
            };
            timeout(api.timeout, answered).await.unwrap_or_else(|_| responses::problem(&late(&api)))
        }
    };
    drop(counted);
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let status = response.status().as_u16();
    if required(&method, uri.path()) > Scope::Read {
        let token = name.as_deref().unwrap_or("none");
        let path = shortened(uri.path_and_query().map_or("", |path| path.as_str()));
        tracing::info!(target: "audit", token, %method, path, status, "a request to change a crawl was answered");
    }
    api.metrics.answered(uri.path(), status, begun.elapsed());
    response
}

/// Returns the beginning of a target, for the log: clients without a token must not fill the disk.
fn shortened(target: &str) -> &str {
    &target[..target.floor_char_boundary(MAX_LOGGED_BYTES)]
}

/// Returns the scope that a request requires: all methods other than these change something.
fn required(method: &Method, path: &str) -> Scope {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method) || path == "/v1/urls";
    if reads { Scope::Read } else { Scope::Admin }
}

/// Request that is being answered; a client may disconnect before it is.
struct InFlight<'a>(&'a Api);

impl<'a> InFlight<'a> {
    fn new(api: &'a Api) -> Self {
        api.metrics.in_flight.inc();
        Self(api)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.metrics.in_flight.dec();
    }
}

fn late(api: &Api) -> Problem {
    let limit = api.timeout.as_secs_f64();
    Problem::new(Kind::Unavailable, format!("the request was not answered within {limit} s"))
}

/// Checks the scope of a token, and its rate.
fn admitted(api: &Api, caller: Caller, (method, path): (&Method, &str)) -> Result<Caller, Problem> {
    let required = required(method, path);
    if caller.scope < required {
        let Caller { name, scope } = &caller;
        let detail = format!("the token `{name}` has the scope `{scope}`; {method} {path} requires `{required}`");
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    match api.admit(&caller.name) {
        Ok(()) => Ok(caller),
        Err(seconds) => {
            let detail =
                format!("the token `{}` exceeds its rate; the next request is admitted in {seconds} s", caller.name);
            Err(Problem { retry_after: Some(seconds), ..Problem::new(Kind::TooManyRequests, detail) })
        }
    }
}

/// Returns the token of a request. Without one, the request has to name this machine: the browser of a user would also send one
/// for another site whose name leads here (DNS rebinding).
fn caller(api: &Api, headers: &HeaderMap, uri: &Uri) -> Result<Caller, Problem> {
    let Some(tokens) = &api.tokens else {
        let host =
            headers.get(header::HOST).and_then(|host| host.to_str().ok()).or(uri.authority().map(|a| a.as_str()));
        let is_own = host.is_some_and(is_loopback);
        let detail = "without a token the API is for this machine; allowed hosts: `localhost` and loopback addresses";
        return if is_own { Ok(Caller::local()) } else { Err(Problem::new(Kind::Misdirected, detail)) };
    };
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let missing = "the header `Authorization: Bearer TOKEN` is missing, or its token is wrong";
    tokens.caller(authorization).cloned().ok_or_else(|| Problem::new(Kind::Unauthorized, missing))
}

/// Returns `true` if the value of a `Host` names this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_a_long_target_is_logged() {
        let long = format!("/v1/site?site={}", "a".repeat(60_000));
        assert_eq!((shortened("/v1/site?site=a"), shortened(&long)), ("/v1/site?site=a", &long[..300]));
        assert_eq!(shortened(&"é".repeat(151)).len(), 300);
        assert_eq!(shortened(&format!("/{}", "é".repeat(151))).len(), 299);
    }

    #[test]
    fn only_names_that_always_mean_this_machine_are_loopback() {
        for host in ["localhost", "LOCALHOST:9480", "127.0.0.1", "127.1.2.3:80", "[::1]:9480", "[::1]"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in
            ["", "a.example", "localhost.example:9480", "127.0.0.1.example", "10.0.0.1", "[::2]:1", "::1", "0.0.0.0"]
        {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
