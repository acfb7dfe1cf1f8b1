"""fetcher: requests, their time, and their results."""

from panel import each, time_series
from query import increase, quantiles, rate, share, total

PREFIX = "orbweaver_fetcher_"


def by_result():
    return time_series(
        "Requests by result",
        [(rate(PREFIX + "requests_total", "class"), "{{class}}")],
        "reqps",
        "Worry about any `internal`, and when dns or connect are over half: suspect the local network first.",
        stacked=True,
    )


def failed_share():
    failed = rate(PREFIX + "requests_total", more='class!~"2xx|3xx"')
    return time_series(
        "Failed share",
        [(share(failed, rate(PREFIX + "requests_total")), "failed")],
        "percentunit",
        "Requests that ended in neither success nor a redirect. Five to fifteen percent is normal; worry when it jumps.",
    )


def duration():
    return time_series(
        "Duration of requests",
        quantiles(PREFIX + "request_seconds", 0.5, 0.95),
        "s",
        "Time from the start of a request to the end of its response. Worry when the median is above ten seconds.",
    )


def first_byte():
    return time_series(
        "Time to the headers",
        quantiles(PREFIX + "first_byte_seconds", 0.5, 0.95),
        "s",
        "Time from the start of a request to the headers of its response. Worry when the median is above five seconds: sites or "
        "the local network are slow.",
    )


def connect():
    return time_series(
        "Time to connect",
        quantiles(PREFIX + "connect_seconds", 0.5, 0.95),
        "s",
        "Time in which connections were established, with TLS and a proxy. "
        "Worry when the median is above one second while that of lookups is low.",
    )


def lookup():
    return time_series(
        "Time of name lookups",
        quantiles(PREFIX + "lookup_seconds", 0.5, 0.9),
        "s",
        "Time of successful lookups of hosts, cache included. Worry when the 90th percentile is above one second: the name servers are slow, "
        "or `fetcher.dns_concurrency` is too low.",
    )


def in_flight():
    return time_series(
        "Requests at work",
        [
            (total(PREFIX + "in_flight_requests"), "in flight"),
            (total(PREFIX + "used_slots"), "not durable yet"),
            (total(PREFIX + "queued_requests"), "queued"),
        ],
        "short",
        "Requests in flight, those whose outcome is not durable, and those queued until they may be sent. Worry when those not durable stay at "
        "the configured concurrency while few are in flight (log or store are slow), or the queue grows without bound.",
    )


def known_sites():
    return time_series(
        "Sites at the fetcher",
        [(total(PREFIX + "known_sites"), "known")],
        "short",
        "Sites with requests, blocked, or requested within their interval. "
        "Worry when they are few: the intervals of few sites limit the speed.",
    )


def body_memory():
    return time_series(
        "Memory of bodies",
        [(total(PREFIX + "body_memory_bytes", "instance"), "{{instance}}")],
        "bytes",
        "Bodies in memory until they are durable. Worry when it stays at `fetcher.body_memory` while log and store are "
        "available: requests wait for memory.",
    )


def traffic():
    return time_series(
        "Traffic",
        [(rate(PREFIX + "received_bytes_total"), "received"), (rate(PREFIX + "body_bytes_total"), "pages, decoded")],
        "Bps",
        "Bytes of bodies as received, and of pages after decoding. Worry when the received bytes near the capacity of the network.",
    )


def by_crawl():
    return time_series(
        "Requests by crawl",
        [(rate(PREFIX + "crawl_requests_total", "crawl"), "{{crawl}}")],
        "reqps",
        "Requests per second, for robots.txt too. Worry when a crawl has many times its pages.",
    )


def duplicates():
    return time_series(
        "Duplicate dispatches",
        [(rate(PREFIX + "duplicates_total"), "not requested again")],
        "cps",
        "Dispatches delivered again and not requested again. Worry about a steady rate without restarts.",
    )


def clock_gaps(by="instance"):
    return time_series(
        "Suspensions of the fetcher",
        [(increase(PREFIX + "freezes_total", by), each(by))],
        "short",
        "Times that the fetcher was found to have been suspended; it restarts every politeness delay. Worry about any.",
    )


def archive_lag():
    return time_series(
        "Pages not archived",
        [(total(PREFIX + "archive_lag_bytes", "instance"), "{{instance}}")],
        "bytes",
        "Estimated bytes in crawl.pages before the archiver, if `fetcher.max_archive_lag` is set. "
        "Worry at that limit: archived crawls pause.",
    )
