"""One dashboard per service: its own metrics, then those of its runtime and processes, by instance."""

from board import dashboard, of_service
from panels import archiver, extractor, frontier, normalizer_dedup, rate_limiter, urlstore
from panels import crawl, kafka, politeness, process, requests, store, work

BY = "instance"


def all_stages():
    return [_normalizer_dedup(), _frontier(), _rate_limiter(), _fetcher(), _extractor(), _archiver(), _urlstore()]


def _normalizer_dedup():
    own = [
        (
            "Links",
            [
                normalizer_dedup.links(),
                normalizer_dedup.links_by_crawl(),
                normalizer_dedup.seeds(),
                normalizer_dedup.pending(),
                normalizer_dedup.refused_input(),
            ],
        ),
        (
            "Deduplication",
            [
                normalizer_dedup.recent_cache(),
                normalizer_dedup.cache_filled(),
                normalizer_dedup.index(),
                normalizer_dedup.known_urls(),
                normalizer_dedup.filters(),
                normalizer_dedup.sstables(),
            ],
        ),
    ]
    return _stage("normalizer-dedup", "Normalization, scope and deduplication of links.", own, disk=True)


def _frontier():
    own = [
        (
            "Queue",
            [
                frontier.waiting_and_leased(),
                frontier.sites(),
                crawl.ready_sites(),
                frontier.capped(),
                crawl.by_crawl_waiting(),
                crawl.sleeping(),
            ],
        ),
        (
            "Dispatches",
            [frontier.dispatches(), frontier.outcomes(), frontier.expired_leases(), frontier.stuck(), frontier.reappended()],
        ),
        (
            "URLs and visits",
            [
                frontier.similar_urls(),
                frontier.refused_urls(),
                frontier.refused_definitions(),
                frontier.page_changes(),
                frontier.listed_updates(),
            ],
        ),
    ]
    return _stage("frontier", "Queued URLs, their dispatches and outcomes.", own, disk=True)


def _rate_limiter():
    panels = [
        rate_limiter.dispatches(),
        rate_limiter.interval(),
        rate_limiter.blocked_sites(),
        rate_limiter.sites_in_memory(),
        rate_limiter.site_records(),
    ]
    return _stage("rate-limiter", "The schedule of requests to each site.", [("Schedule", panels)])


def _fetcher():
    own = [
        (
            "Requests",
            [
                requests.by_result(),
                requests.failed_share(),
                requests.in_flight(),
                requests.traffic(),
                requests.body_memory(),
                requests.known_sites(),
            ],
        ),
        ("Duration", [requests.duration(), requests.first_byte(), requests.connect(), requests.lookup()]),
        (
            "Outcomes",
            [politeness.outcomes(), politeness.robots(), politeness.substitutes(), politeness.deferred_share(), requests.duplicates()],
        ),
        (
            "Crawls and archive",
            [requests.by_crawl(), crawl.by_crawl_bytes(), requests.archive_lag(), requests.clock_gaps(), store.latency()],
        ),
    ]
    return _stage("fetcher", "Requests to sites.", own, effects=True)


def _extractor():
    own = [
        (
            "Pages",
            [
                extractor.pages(),
                extractor.not_extracted(),
                extractor.page_time(),
                extractor.pending(),
                extractor.page_memory(),
                extractor.bodies(),
            ],
        ),
        (
            "Content",
            [
                extractor.links(),
                extractor.links_not_followed(),
                extractor.charsets(),
                extractor.near_duplicates(),
                store.latency(),
            ],
        ),
    ]
    return _stage("extractor", "Documents and links of pages.", own, effects=True)


def _archiver():
    panels = [archiver.responses(), archiver.written(), archiver.files(), archiver.write_time(), archiver.upload_time()]
    return _stage("archiver", "WARC files.", [("Archive", panels)], disk=True)


def _urlstore():
    own = [
        (
            "API",
            [
                urlstore.by_route(),
                urlstore.by_status(),
                urlstore.latency(),
                urlstore.unavailable_share(),
                urlstore.at_work(),
                urlstore.amounts(),
                urlstore.content(),
            ],
        ),
        ("Store", [store.requests(), store.latency(), store.errors()]),
        ("Processes", _processes()),
    ]
    return dashboard("urlstore", "The API over the store.", own, of_service("urlstore"))


def _stage(name, description, own, effects=False, disk=False):
    runtime = [
        (
            "Throughput",
            [work.records_in(BY), work.records_out(BY), work.completed(BY), work.lag(), work.incomplete(BY), work.due(BY)],
        ),
        (
            "Budget, log and store",
            [
                work.budget_used(BY),
                work.budget_records(BY),
                work.budget_bytes(BY),
                work.paused(BY),
                kafka.append_time(BY),
                *([store.effects(BY)] if effects else []),
            ],
        ),
        (
            "Errors and stalls",
            [
                work.stalled(BY),
                kafka.commit_points(BY),
                kafka.dead_letters(BY),
                kafka.completions_out_of_order(BY),
                kafka.suspensions(BY),
                kafka.oldest_restore(BY),
            ],
        ),
        ("Processes", [work.stage_cpu(BY), *_processes(), *([store.disk_free()] if disk else [])]),
    ]
    return dashboard(name, description, own + runtime, of_service(name))


def _processes():
    return [process.cpu(), process.memory(), process.up_and_ready(BY), process.uptime()]
