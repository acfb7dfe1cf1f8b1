//! Names of the metrics, and their alert conditions.

use std::time::Duration;

use orbweaver_messages::{CrawlPurpose, Millis, OutcomeKind};
use orbweaver_scope::CrawlLabels;
use orbweaver_url::CrawlName;
use prometheus::{
    Histogram, IntCounter, IntCounterVec, IntGauge, Registry, register_histogram_with_registry as histogram,
    register_int_counter_vec_with_registry as counters, register_int_counter_with_registry as counter,
    register_int_gauge_with_registry as gauge,
};

use crate::{
    client::{Attempt, FetchError, HttpResponse, Measured},
    purposes::{PurposeRefusal, StatementSource},
    substitute::Substitute,
};

/// Requests by result: `2xx` to `5xx` (`403` and `429` apart from the other `4xx`), `other`, or the word of a failure (`dns`,
/// `connect`, `tls`, `timeout`, `slow_body`, `connection`, `body`, `private_address`, `memory`, `proxy`, `internal`). Alert:
/// `403` or `429` above a hundredth of all: sites refuse the crawler, or its rate is too high; any `internal`; `proxy` for
/// minutes: the proxy of a crawl cannot be used, and its URLs wait; `memory` while log and store are available: raise
/// `fetcher.body_memory`; `slow_body` above a tenth of all: slow sites, or a `fetcher.min_body_rate` that is too high for the
/// network of the crawler; `dns` or `connect` above half of all, whose cause is more likely the crawler's network than the
/// sites'.
pub(crate) const REQUESTS: &str = "orbweaver_fetcher_requests_total";
/// Time from the start of a request to the end of its response. Alert: the median above ten seconds.
pub(crate) const REQUEST_SECONDS: &str = "orbweaver_fetcher_request_seconds";
/// Time from the start of a request to the headers of its response. Alert: the median above five seconds: sites or the
/// crawler's network are slow.
pub(crate) const FIRST_BYTE_SECONDS: &str = "orbweaver_fetcher_first_byte_seconds";
/// Time of successful lookups of hosts, each before a request; answers from the cache included. Alert: the 90th
/// percentile above one second: the name servers are slow, or `fetcher.dns_concurrency` is too low.
pub(crate) const LOOKUP_SECONDS: &str = "orbweaver_fetcher_lookup_seconds";
/// Time in which connections were established, with TLS and a proxy. Alert: the median above one second, while that of
/// lookups is low: the crawler's network or its proxy is slow.
pub(crate) const CONNECT_SECONDS: &str = "orbweaver_fetcher_connect_seconds";
/// Bytes of bodies that were received, before they are decoded; of all responses and robots.txt, also if they fail later.
/// Alert: none; together with the rate of the pages it is the traffic of the crawl, without headers and TLS.
pub(crate) const RECEIVED_BYTES: &str = "orbweaver_fetcher_received_bytes_total";
/// Decoded bytes of pages. Alert: none; it is the load of the crawl on others.
pub(crate) const BODY_BYTES: &str = "orbweaver_fetcher_body_bytes_total";
/// Requests by crawl (label `crawl`: the first hundred crawls, then `other`). Alert: none.
pub(crate) const CRAWL_REQUESTS: &str = "orbweaver_fetcher_crawl_requests_total";
/// Decoded bytes of pages by crawl (label `crawl`, as before). Alert: none.
pub(crate) const CRAWL_BODY_BYTES: &str = "orbweaver_fetcher_crawl_body_bytes_total";
/// Pages sent instead of the requested ones, by kind: `challenge`, `firewall`, `soft_404`, `parked`. Alert: `challenge`
/// above a hundredth of the requests: sites take the crawler for an attack; a lower rate or a word with them may help.
pub(crate) const SUBSTITUTES: &str = "orbweaver_fetcher_substitutes_total";
/// Requests for robots.txt by result: `stored`, `redirected`, `failing`, `blocked`, `private`, `unknown_host`,
/// `stale`. Alert: `failing` above a tenth of all.
pub(crate) const ROBOTS: &str = "orbweaver_fetcher_robots_total";
/// Lookups of robots.txt by the source of the answer: `memory`, `store`, or `site` if it has to be requested; dispatches that
/// wait for the same file count once. Alert: `store` above a tenth of all for hours: raise `fetcher.robots_cache_bytes`.
pub(crate) const ROBOTS_LOOKUPS: &str = "orbweaver_fetcher_robots_lookups_total";
/// Outcomes by kind. Alert: `blocked` above a hundredth of all: the crawl rate is too high; `deferred` above a tenth:
/// rate-limiter and fetcher disagree on the scheduled times.
pub(crate) const OUTCOMES: &str = "orbweaver_fetcher_outcomes_total";
/// Pages that their sites refuse for a purpose of the crawl, by purpose and source of the statement; one that is refused
/// for two purposes counts for both. Alert: none.
pub(crate) const PURPOSE_REFUSALS: &str = "orbweaver_fetcher_purpose_refusals_total";
/// Bytes of page records that the archiver has not archived, estimated, if `fetcher.max_archive_lag` is set. Alert: above
/// that limit: archived crawls pause until the archiver has caught up.
#[cfg(feature = "cluster")]
pub(crate) const ARCHIVE_LAG_BYTES: &str = "orbweaver_fetcher_archive_lag_bytes";
/// Dispatches delivered again and not requested again. Alert: a steady increase without restarts.
pub(crate) const DUPLICATES: &str = "orbweaver_fetcher_duplicates_total";
/// Requests in flight. Alert: none.
pub(crate) const IN_FLIGHT: &str = "orbweaver_fetcher_in_flight_requests";
/// Requests whose outcome is not yet durable. Alert: at the configured concurrency for minutes while `in_flight` is
/// low: log or store are slow.
pub(crate) const SLOTS: &str = "orbweaver_fetcher_used_slots";
/// Bytes of bodies in memory, from their first byte until they are durable. Alert: at `fetcher.body_memory` for
/// minutes while log and store are available: requests wait for memory, not for sites.
pub(crate) const MEMORY: &str = "orbweaver_fetcher_body_memory_bytes";
/// Requests queued until they may be sent. Alert: unbounded growth.
pub(crate) const HELD: &str = "orbweaver_fetcher_queued_requests";
/// Known sites: with requests queued or in flight, blocked, or requested within their interval. Alert: none.
pub(crate) const SITES: &str = "orbweaver_fetcher_known_sites";
/// Sites whose next request waits for a place at its address. Alert: none; many of them for hours: sites of one server,
/// which `fetcher.max_requests_per_address` slows down.
pub(crate) const ADDRESS_WAITS: &str = "orbweaver_fetcher_sites_waiting_for_address";
/// Dispatches deferred because their address had no place in time. Alert: a tenth of the outcomes: the frontier
/// dispatches more for some addresses than the bound allows.
pub(crate) const ADDRESS_DEFERRALS: &str = "orbweaver_fetcher_address_deferrals_total";
/// Number of times that the process was found to have been suspended. Alert: any.
pub(crate) const SUSPENSIONS: &str = "orbweaver_fetcher_freezes_total";

/// Labels of [`REQUESTS`] (with the words of failures), [`ROBOTS_LOOKUPS`] and [`ROBOTS`].
const STATUSES: [&str; 7] = ["2xx", "3xx", "403", "429", "4xx", "5xx", "other"];
const SOURCES: [&str; 3] = ["memory", "store", "site"];
const FINDINGS: [&str; 7] = ["stored", "redirected", "failing", "blocked", "private", "unknown_host", "stale"];
#[derive(Debug, Clone)]
pub struct FetcherMetrics {
    requests: IntCounterVec,
    seconds: Histogram,
    first_byte: Histogram,
    lookups: Histogram,
    connects: Histogram,
    received: IntCounter,
    bytes: IntCounter,
    crawl_requests: IntCounterVec,
    crawl_bytes: IntCounterVec,
    labels: CrawlLabels,
    substitutes: IntCounterVec,
    robots: IntCounterVec,
    robots_lookups: IntCounterVec,
    outcomes: IntCounterVec,
    refusals: IntCounterVec,
    pub(crate) duplicates: IntCounter,
    #[cfg(feature = "cluster")]
    pub(crate) archive_lag: IntGauge,
    pub(crate) in_flight: IntGauge,
    pub(crate) slots: IntGauge,
    pub(crate) memory: IntGauge,
    pub(crate) held: IntGauge,
    pub(crate) sites: IntGauge,
    pub(crate) address_waits: IntGauge,
    pub(crate) address_deferrals: IntCounter,
    pub(crate) freezes: IntCounter,
}

impl FetcherMetrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let buckets = vec![0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0];
        let fine = vec![0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
        let first = "Time from the start of a request to the headers of its response";
        let took = "Time from the start of a request to the end of its response";
        let deferred = "Dispatches deferred because their address had no place in time";
        let refused = "Pages refused for a purpose of the crawl, by source of the statement";
        let suspended = "Number of times that the process was found to have been suspended";
        let metrics = Self {
            requests: counters!(REQUESTS, "Requests by result", &["class"], registry)?,
            seconds: histogram!(REQUEST_SECONDS, took, buckets.clone(), registry)?,
            first_byte: histogram!(FIRST_BYTE_SECONDS, first, buckets, registry)?,
            lookups: histogram!(LOOKUP_SECONDS, "Time of successful lookups of hosts", fine.clone(), registry)?,
            connects: histogram!(CONNECT_SECONDS, "Time in which connections were established", fine, registry)?,
            received: counter!(RECEIVED_BYTES, "Bytes of bodies as received, before they are decoded", registry)?,
            bytes: counter!(BODY_BYTES, "Decoded bytes of pages", registry)?,
            crawl_requests: counters!(CRAWL_REQUESTS, "Requests by crawl", &["crawl"], registry)?,
            crawl_bytes: counters!(CRAWL_BODY_BYTES, "Decoded bytes of pages by crawl", &["crawl"], registry)?,
            labels: CrawlLabels::default(),
            substitutes: counters!(SUBSTITUTES, "Pages sent instead of the requested ones", &["kind"], registry)?,
            robots: counters!(ROBOTS, "Requests for robots.txt by result", &["finding"], registry)?,
            robots_lookups: counters!(ROBOTS_LOOKUPS, "Lookups of robots.txt by source", &["source"], registry)?,
            outcomes: counters!(OUTCOMES, "Outcomes by kind", &["kind"], registry)?,
            refusals: counters!(PURPOSE_REFUSALS, refused, &["purpose", "source"], registry)?,
            duplicates: counter!(DUPLICATES, "Dispatches delivered again and not requested again", registry)?,
            #[cfg(feature = "cluster")]
            archive_lag: gauge!(ARCHIVE_LAG_BYTES, "Estimated bytes of page records that are not archived", registry)?,
            in_flight: gauge!(IN_FLIGHT, "Requests in flight", registry)?,
            slots: gauge!(SLOTS, "Requests whose outcome is not yet durable", registry)?,
            memory: gauge!(MEMORY, "Bytes of bodies in memory that are not yet durable", registry)?,
            held: gauge!(HELD, "Requests queued until they may be sent", registry)?,
            sites: gauge!(SITES, "Known sites: queued, in flight, blocked or within their interval", registry)?,
            address_waits: gauge!(
                ADDRESS_WAITS,
                "Sites whose next request waits for a place at its address",
                registry
            )?,
            address_deferrals: counter!(ADDRESS_DEFERRALS, deferred, registry)?,
            freezes: counter!(SUSPENSIONS, suspended, registry)?,
        };
        // A sum over errors that have not yet occurred should be 0, not absent.
        let classes = STATUSES.into_iter().chain(FetchError::ALL.map(FetchError::reason));
        classes.for_each(|class| drop(metrics.requests.with_label_values(&[class])));
        FINDINGS.iter().for_each(|finding| drop(metrics.robots.with_label_values(&[finding])));
        SOURCES.iter().for_each(|source| drop(metrics.robots_lookups.with_label_values(&[source])));
        Substitute::ALL.iter().for_each(|kind| drop(metrics.substitutes.with_label_values(&[kind.reason()])));
        OutcomeKind::ALL.iter().for_each(|kind| drop(metrics.outcomes.with_label_values(&[kind.name()])));
        for (purpose, source) in
            CrawlPurpose::ALL.iter().flat_map(|purpose| StatementSource::ALL.map(|it| (purpose, it)))
        {
            metrics.refusals.with_label_values(&[purpose.name(), source.name()]);
        }
        Ok(metrics)
    }

    pub(crate) fn asked(&mut self, crawl: &CrawlName, attempt: &Attempt, bytes: u64) {
        self.requests.with_label_values(&[class_of(attempt)]).inc();
        let since_start = |end_ms: Millis| {
            let took_ms = end_ms.saturating_sub(attempt.requested_at_ms).max(0).unsigned_abs();
            Duration::from_millis(took_ms).as_secs_f64()
        };
        self.seconds.observe(since_start(attempt.ended_at_ms));
        if attempt.result.is_ok() {
            self.first_byte.observe(since_start(attempt.answered_at_ms));
        }
        let Measured { received_bytes, lookup, connect } = attempt.measured;
        lookup.iter().for_each(|took| self.lookups.observe(took.as_secs_f64()));
        connect.iter().for_each(|took| self.connects.observe(took.as_secs_f64()));
        self.received.inc_by(received_bytes);
        self.bytes.inc_by(bytes);
        if let Ok(HttpResponse { substitute: Some(substitute), .. }) = &attempt.result {
            self.substitutes.with_label_values(&[substitute.reason()]).inc();
        }
        let crawl = self.labels.of(crawl);
        self.crawl_requests.with_label_values(&[crawl]).inc();
        self.crawl_bytes.with_label_values(&[crawl]).inc_by(bytes);
    }

    pub(crate) fn robots(&self, finding: &str) {
        self.robots.with_label_values(&[finding]).inc();
    }

    /// Counts a lookup of a robots.txt that this source has.
    pub(crate) fn robots_found(&self, source: &str) {
        self.robots_lookups.with_label_values(&[source]).inc();
    }

    #[cfg(test)]
    pub(crate) fn robots_lookups(&self) -> [u64; 3] {
        SOURCES.map(|source| self.robots_lookups.with_label_values(&[source]).get())
    }

    pub(crate) fn refusal(&self, refusal: PurposeRefusal) {
        let source = refusal.source.name();
        refusal.purposes.iter().for_each(|purpose| self.refusals.with_label_values(&[purpose.name(), source]).inc());
    }

    #[cfg(test)]
    pub(crate) fn refusals(&self, purpose: &str, source: &str) -> u64 {
        self.refusals.with_label_values(&[purpose, source]).get()
    }

    pub(crate) fn outcome(&self, kind: OutcomeKind) {
        self.outcomes.with_label_values(&[kind.name()]).inc();
    }
}

/// Returns the class of a request's result.
pub(crate) fn class_of(attempt: &Attempt) -> &'static str {
    match &attempt.result {
        Err(failure) => failure.reason(),
        Ok(answer) => match answer.status {
            200..=299 => "2xx",
            300..=399 => "3xx",
            403 => "403",
            429 => "429",
            400..=499 => "4xx",
            500..=599 => "5xx",
            _ => "other",
        },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use prometheus::proto::MetricFamily;

    use super::*;

    /// Returns the values of the label of a metric before anything is counted.
    pub(crate) fn labels(name: &str) -> Vec<String> {
        let registry = Registry::new();
        FetcherMetrics::register(&registry).unwrap();
        let families = registry.gather();
        let family: &MetricFamily = families.iter().find(|family| family.name() == name).unwrap();
        family.get_metric().iter().map(|metric| metric.get_label()[0].value().to_owned()).collect()
    }

    #[test]
    fn the_times_of_a_request_are_counted_where_it_had_them() {
        let registry = Registry::new();
        let mut metrics = FetcherMetrics::register(&registry).unwrap();
        let second = Some(Duration::from_secs(1));
        let mut attempt = Attempt {
            requested_at_ms: 1000,
            answered_at_ms: 3000,
            ended_at_ms: 6000,
            measured: Measured { received_bytes: 7, lookup: second, connect: second },
            result: Ok(HttpResponse { status: 404, ..HttpResponse::default() }),
        };
        metrics.asked(&CrawlName::default(), &attempt, 0);
        (attempt.measured, attempt.result) = (Measured::default(), Err(FetchError::Connect));
        metrics.asked(&CrawlName::default(), &attempt, 0);
        let sums = [&metrics.seconds, &metrics.first_byte, &metrics.lookups, &metrics.connects]
            .map(|histogram| (histogram.get_sample_count(), histogram.get_sample_sum()));
        assert_eq!(sums, [(2, 10.0), (1, 2.0), (1, 1.0), (1, 1.0)]);
        assert_eq!((metrics.received.get(), metrics.bytes.get()), (7, 0));
    }

    #[test]
    fn responses_have_the_class_of_their_status_and_refusals_one_of_their_own() {
        let mut attempt = Attempt {
            requested_at_ms: 0,
            answered_at_ms: 0,
            ended_at_ms: 0,
            measured: Measured::default(),
            result: Err(FetchError::Dns),
        };
        assert_eq!(class_of(&attempt), "dns");
        for (status, class) in
            [(204, "2xx"), (304, "3xx"), (403, "403"), (404, "4xx"), (429, "429"), (503, "5xx"), (999, "other")]
        {
            attempt.result = Ok(HttpResponse { status, ..HttpResponse::default() });
            assert_eq!(class_of(&attempt), class, "{status}");
        }
    }

    #[test]
    fn what_has_not_happened_yet_is_counted_as_zero() {
        assert_eq!((labels(REQUESTS).len(), labels(ROBOTS).len()), (18, FINDINGS.len()));
        assert_eq!(labels(ROBOTS_LOOKUPS).len(), SOURCES.len());
        assert_eq!(
            (labels(OUTCOMES).len(), labels(SUBSTITUTES).len()),
            (OutcomeKind::ALL.len(), Substitute::ALL.len())
        );
        assert_eq!((labels(OUTCOMES).len(), labels(PURPOSE_REFUSALS).len()), (OutcomeKind::ALL.len(), 12));
    }
}
