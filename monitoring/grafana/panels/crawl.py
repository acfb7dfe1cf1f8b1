"""The crawl as a whole, and each crawl."""

from panel import number, time_series
from query import chosen, largest, quantile, rate, total

FRONTIER = "orbweaver_frontier_"
FETCHER = "orbweaver_fetcher_"
DEDUP = "orbweaver_normalizer_dedup_"
STAGE = "orbweaver_stage_"
FETCHED = 'kind=~"fetched|unchanged"'


def pages_now():
    return number(
        "Pages",
        rate(FRONTIER + "outcomes_total", more=FETCHED),
        "reqps",
        "Pages fetched per second. Worry when it is 0 while URLs are queued and sites are not blocked.",
    )


def waiting_now():
    return number(
        "URLs waiting",
        total(FRONTIER + "waiting_urls"),
        "short",
        "Admitted URLs without a final outcome: the remaining work. No worry by itself.",
    )


def in_flight_now():
    return number(
        "In flight",
        total(FETCHER + "in_flight_requests"),
        "short",
        "Requests in flight to sites. Worry when it is 0 while dispatches pass the rate-limiter.",
    )


def blocked_now():
    return number(
        "Blocked sites now",
        total("orbweaver_rate_limiter_blocked_sites"),
        "short",
        "Sites in back-off after a 429 or 503. Worry when they are a growing share of the active sites.",
    )


def not_ready_now():
    return number(
        "Instances not ready",
        f"sum({chosen('up')} == bool 0) + (sum({chosen('orbweaver_process_ready')} == bool 0) or vector(0))",
        "short",
        "Instances that do not answer or are not ready. Worry about any for longer than a restart takes: `/readyz` names the reasons.",
        red_from=1,
    )


def complete_now():
    return number(
        "Complete",
        " * ".join(f"({total(STAGE + name)} == bool 0)" for name in ("lag_records", "outstanding_records", "partitions_restoring")),
        "none",
        "Whether every group is at the end of its topics, as read within the last fifteen seconds. `orbweaver status` confirms it by "
        "two snapshots; markers of transactions of other producers count as lag here, not there.",
        words={0: ("no", "yellow"), 1: ("yes", "green")},
    )


def pages_and_documents():
    pages = rate(FRONTIER + "outcomes_total", more=FETCHED)
    documents = rate("orbweaver_extractor_pages_total", more='result="extracted"')
    return time_series(
        "Pages and documents",
        [(pages, "pages"), (documents, "documents")],
        "reqps",
        "Pages fetched and documents extracted. Worry when documents stay below pages for minutes, or both fall while URLs are queued.",
    )


def by_crawl_pages():
    return time_series(
        "Pages by crawl",
        [(rate(FRONTIER + "crawl_outcomes_total", "crawl", FETCHED), "{{crawl}}")],
        "reqps",
        "Pages fetched per second. Crawls whose sites are due divide them by their shares. "
        "Worry when one has none while it has URLs waiting.",
    )


def by_crawl_waiting():
    return time_series(
        "Waiting by crawl",
        [(total(FRONTIER + "crawl_waiting_urls", "crawl"), "{{crawl}}")],
        "short",
        "Queued and leased URLs. Worry when one stays the same while its crawl is neither paused nor at its cap.",
    )


def by_crawl_bytes():
    return time_series(
        "Bytes by crawl",
        [(rate(FETCHER + "crawl_body_bytes_total", "crawl"), "{{crawl}}")],
        "Bps",
        "Decoded bytes of pages: the load of each crawl on its sites, and on the store. Worry when one grows without more pages: "
        "it fetches large files.",
    )


def sleeping():
    return time_series(
        "Sleeping by crawl",
        [(total(FRONTIER + "sleeping_urls", "crawl"), "{{crawl}}")],
        "short",
        "URLs that sleep until their next visit, of crawls with revisits. Worry when they shrink to none: nothing is visited again.",
    )


def definitions():
    return time_series(
        "Versions of definitions",
        [
            (largest(DEDUP + "definition_version", "crawl, instance"), "{{crawl}} {{instance}}, links"),
            (largest(FRONTIER + "definition_version", "crawl, instance"), "{{crawl}} {{instance}}, queue"),
        ],
        "none",
        "Version of the definition that each instance applies. Worry when instances differ for minutes: one does not read `crawl.control`.",
    )


def capped_pages():
    return time_series(
        "Pages counted for the cap",
        [(largest(FRONTIER + "capped_pages", "crawl, instance"), "{{crawl}} {{instance}}")],
        "short",
        "Pages of crawls that have a cap, in all partitions, as each instance counts them. Worry when instances differ for minutes by more than "
        "a sixteenth of the remaining pages: one does not read `crawl.control`.",
    )


def ready_sites():
    return time_series(
        "Ready sites",
        [
            (quantile(0.5, FRONTIER + "ready_seconds"), "until dispatch, median"),
            (quantile(0.95, FRONTIER + "ready_seconds"), "until dispatch, 95th"),
            (largest(FRONTIER + "oldest_ready_seconds"), "not dispatched yet, longest"),
        ],
        "s",
        "Time for which sites could have been requested. Near zero, politeness limits the crawl. Worry above ten seconds: "
        "fetchers or a later stage do.",
    )
