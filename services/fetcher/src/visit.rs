//! A dispatch that the fetcher holds.

use std::sync::Arc;

use orbweaver_log::Partition;
use orbweaver_messages::{Dispatch, DispatchId, Millis, Ready};
use orbweaver_stage::Origin;
use orbweaver_url::{Url, WideDomains};

use crate::{classify::Asked, cookies::Cookies};

/// A dispatch on its way through robots.txt, the site's gate and the request, more than once when it is redirected to itself.
#[derive(Debug)]
pub(crate) struct Visit {
    /// The record that brought it.
    pub(crate) origin: Origin,
    /// The dispatch with its moment.
    pub(crate) ready: Ready,
    /// What is to be requested next.
    pub(crate) url: Url,
    /// The site of `url`: the dispatch's own, unless a redirect to itself led to another.
    pub(crate) site: Arc<str>,
    /// What was requested before, within this dispatch.
    pub(crate) before: Vec<String>,
    /// When the last of those was sent, and answered.
    pub(crate) asked_ms: Option<(Millis, Millis)>,
    /// What the answers to those set.
    pub(crate) cookies: Cookies,
    /// The crawl-delay of the authority of `url`, when known.
    pub(crate) crawl_delay_ms: Option<u64>,
    /// It holds one of the slots that bound the requests without a durable outcome.
    pub(crate) has_slot: bool,
}

impl Visit {
    /// A dispatch that nothing was done for yet.
    #[must_use]
    pub(crate) fn new(origin: Origin, ready: Ready, url: Url) -> Self {
        Self {
            origin,
            site: ready.dispatch.site.as_str().into(),
            ready,
            url,
            before: vec![],
            asked_ms: None,
            cookies: Cookies::default(),
            crawl_delay_ms: None,
            has_slot: false,
        }
    }

    /// The dispatch.
    #[must_use]
    pub(crate) fn dispatch(&self) -> &Dispatch {
        &self.ready.dispatch
    }

    /// What names it among all: an id alone names it within its partition only.
    #[must_use]
    pub(crate) fn name(&self) -> (Partition, DispatchId) {
        (self.origin.place.partition, self.ready.dispatch.id)
    }

    /// Past this moment nothing more is requested for it. One that has begun may go on to the end of its lease: the frontier
    /// counts on `LONGEST_FETCH_MS` after it.
    #[must_use]
    pub(crate) fn not_after_ms(&self) -> Millis {
        let dispatch = self.dispatch();
        if self.before.is_empty() { dispatch.not_after_ms.min(dispatch.expires_ms) } else { dispatch.expires_ms }
    }

    /// For the classification.
    #[must_use]
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { dispatch: &self.ready.dispatch, url: &self.url, before: &self.before }
    }

    /// The URLs that led to what is requested now, oldest first.
    #[must_use]
    pub(crate) fn chain(&self) -> Vec<String> {
        self.dispatch().chain.iter().chain(&self.before).cloned().collect()
    }

    /// Goes on to `target`.
    pub(crate) fn go_on(&mut self, target: Url, set_cookie: &[String], wide: &WideDomains) {
        self.cookies.set(set_cookie);
        self.cookies.move_on(&self.url, &target);
        // The first request was for the dispatch's URL as it is written there.
        let asked = if self.before.is_empty() { self.ready.dispatch.url.clone() } else { self.url.to_string() };
        self.before.push(asked);
        if target.host_str() != self.url.host_str() {
            self.site = wide.site_of(&target).into();
        }
        self.url = target;
    }

    /// What was requested last.
    #[must_use]
    pub(crate) fn requested(&self) -> &str {
        if self.before.is_empty() { &self.ready.dispatch.url } else { self.url.as_str() }
    }
}
