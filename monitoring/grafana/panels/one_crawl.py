"""One crawl: the one that is chosen."""

from panel import number, time_series
from query import largest, of_crawl, rate, share, total

FRONTIER = "orbweaver_frontier_"
FETCHER = "orbweaver_fetcher_"
DEDUP = "orbweaver_normalizer_dedup_"
FETCHED = 'kind=~"fetched|unchanged"'


def pages_now():
    return number(
        "Pages of the crawl",
        rate(FRONTIER + "crawl_outcomes_total", more=of_crawl(FETCHED)),
        "reqps",
        "Pages fetched per second. Worry when it is 0 while URLs are queued and the crawl is neither paused nor at its cap.",
    )


def queued_now():
    return number(
        "Queued",
        total(FRONTIER + "crawl_waiting_urls", more=of_crawl()),
        "short",
        "Queued and leased URLs: the remaining work. No worry by itself.",
    )


def sleeping_now():
    return number(
        "Sleeping",
        total(FRONTIER + "sleeping_urls", more=of_crawl()),
        "short",
        "URLs that sleep until their next visit, if the crawl has revisits. No worry by itself.",
    )


def version_now():
    return number(
        "Version of the definition",
        largest(FRONTIER + "definition_version", more=of_crawl()),
        "none",
        "The latest version that a frontier applies. Worry when it is not that of `orbweaver crawls show`.",
    )


def pages():
    return time_series(
        "Pages over time",
        [(rate(FRONTIER + "crawl_outcomes_total", more=of_crawl(FETCHED)), "pages")],
        "reqps",
        "Pages fetched per second. Worry when they fall while URLs are queued: see the dashboard politeness.",
    )


def outcomes():
    return time_series(
        "Outcomes of the crawl",
        [(rate(FRONTIER + "crawl_outcomes_total", "kind", of_crawl()), "{{kind}}")],
        "cps",
        "Outcomes by kind; `refused` is mostly robots.txt. Worry about a growing share of retry, blocked, deferred and gone.",
        stacked=True,
    )


def fetched_share():
    fetched = rate(FRONTIER + "crawl_outcomes_total", more=of_crawl(FETCHED))
    return time_series(
        "Share of pages",
        [(share(fetched, rate(FRONTIER + "crawl_outcomes_total", more=of_crawl())), "pages among outcomes")],
        "percentunit",
        "Outcomes that are pages. Worry when it falls: the outcomes by kind show the cause.",
    )


def queued():
    return time_series(
        "Queued and sleeping",
        [
            (total(FRONTIER + "crawl_waiting_urls", more=of_crawl()), "queued"),
            (total(FRONTIER + "sleeping_urls", more=of_crawl()), "sleeping"),
        ],
        "short",
        "URLs with a visit ahead. Worry when queued ones stay the same while the crawl is neither paused nor at its cap.",
    )


def links():
    return time_series(
        "Links of the crawl",
        [(rate(DEDUP + "crawl_links_total", "seen", of_crawl()), "{{seen}}")],
        "cps",
        "Links seen for the first time, and again. Worry when almost all are new for hours: a site generates URLs.",
    )


def requests():
    return time_series(
        "Requests of the crawl",
        [(rate(FETCHER + "crawl_requests_total", more=of_crawl()), "requests")],
        "reqps",
        "Requests per second, those for robots.txt and failed ones included. Worry when they are many times the pages.",
    )


def bytes_received():
    return time_series(
        "Bytes of the crawl",
        [(rate(FETCHER + "crawl_body_bytes_total", more=of_crawl()), "decoded")],
        "Bps",
        "Decoded bytes of pages. Worry when they grow without more pages: the crawl fetches large files.",
    )


def definition():
    return time_series(
        "Version by instance",
        [
            (largest(DEDUP + "definition_version", "instance", of_crawl()), "{{instance}}, links"),
            (largest(FRONTIER + "definition_version", "instance", of_crawl()), "{{instance}}, queue"),
        ],
        "none",
        "Version of the definition that each instance applies. Worry when they differ for minutes: one does not read `crawl.control`.",
    )


def cap():
    return time_series(
        "Pages until the cap",
        [(largest(FRONTIER + "capped_pages", "instance", of_crawl()), "{{instance}}")],
        "short",
        "Pages counted for the cap of the crawl, by each frontier; empty without a cap. Worry when instances differ for minutes.",
    )
