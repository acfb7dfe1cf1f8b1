//! A client with scripted responses.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use futures::{FutureExt, future::BoxFuture};
use orbweaver_messages::{Millis, PageKind};
use orbweaver_stage::{Clock, Reservation};

use super::{Attempt, Body, Client, Destination, FetchError, HttpResponse, Measured, Request};
use crate::purposes::by_headers;

type Script = HashMap<String, VecDeque<Result<HttpResponse, FetchError>>>;

/// Client that answers at once, with the results given for a URL, in order; the last one is repeated, and a URL
/// without results gets 404. Records its requests.
pub(crate) struct ScriptedClient {
    clock: Arc<dyn Clock>,
    script: Mutex<Script>,
    asked: Mutex<Vec<Request>>,
    addresses: Mutex<HashMap<String, Result<IpAddr, FetchError>>>,
}

impl ScriptedClient {
    /// Creates a client without results.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, script: Mutex::default(), asked: Mutex::default(), addresses: Mutex::default() }
    }

    /// Adds a result for a URL.
    pub(crate) fn on(&self, url: &str, result: Result<HttpResponse, FetchError>) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.entry(url.to_owned()).or_default().push_back(result);
    }

    /// Sets the address of a host; others have none.
    pub(crate) fn at(&self, host: &str, address: Result<IpAddr, FetchError>) {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).insert(host.to_owned(), address);
    }

    /// Returns the requests so far, in order.
    pub(crate) fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers a request without a future.
    pub(crate) fn answer(&self, request: Request) -> Attempt {
        if let Destination::Failed(failure) = request.destination {
            let now = self.clock.now();
            return at_once(now, Err(failure));
        }
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match script.get_mut(request.url.as_str()) {
            Some(answers) if answers.len() > 1 => answers.pop_front(),
            Some(answers) => answers.front().cloned(),
            None => None,
        };
        let mut result = result.unwrap_or_else(|| Ok(HttpResponse { status: 404, ..HttpResponse::default() }));
        if let (false, Ok(answer)) = (request.profile.archive, &mut result) {
            // The real client reads such a body only for the archive.
            if answer.kind == PageKind::Response {
                answer.body = Body::Unread;
            }
            answer.capture = None;
        }
        if let Ok(answer) = &mut result {
            let headers = answer.headers.iter().map(|(name, value)| (name.as_str(), Cow::from(value)));
            answer.refusal = by_headers(&request.profile, answer.content_type.as_deref(), headers);
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        let now = self.clock.now();
        at_once(now, result)
    }
}

/// Returns a result without a duration.
fn at_once(now: Millis, result: Result<HttpResponse, FetchError>) -> Attempt {
    let measured = Measured::default();
    Attempt { requested_at_ms: now, answered_at_ms: now, ended_at_ms: now, measured, result }
}

impl Client for ScriptedClient {
    fn locate<'a>(&'a self, host: &'a str) -> BoxFuture<'a, Result<Option<IpAddr>, FetchError>> {
        let address = self.addresses.lock().unwrap_or_else(PoisonError::into_inner).get(host).copied();
        async move { address.transpose() }.boxed()
    }

    fn ask<'a>(&'a self, request: Request, _: &'a mut Reservation) -> BoxFuture<'a, Attempt> {
        let attempt = self.answer(request);
        async move { attempt }.boxed()
    }
}
