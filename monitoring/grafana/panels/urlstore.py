"""urlstore: the API over the store."""

from panel import time_series
from query import quantile, rate, share, total

PREFIX = "orbweaver_urlstore_"


def by_route():
    return time_series(
        "API requests by route",
        [(rate(PREFIX + "requests_total", "route"), "{{route}}")],
        "reqps",
        "Requests by route; any other path is `other`. Worry when a client that should be there sends none.",
    )


def by_status():
    return time_series(
        "API requests by status",
        [(rate(PREFIX + "requests_total", "status"), "{{status}}")],
        "reqps",
        "Answers by status. Worry about any 500: a stored value is damaged.",
        stacked=True,
    )


def unavailable_share():
    unavailable = rate(PREFIX + "requests_total", more='status="503"')
    return time_series(
        "API unavailable",
        [(share(unavailable, rate(PREFIX + "requests_total")), "503")],
        "percentunit",
        "Share of the requests answered with 503. Worry above a hundredth: the store or the archive is unavailable or too slow.",
    )


def latency():
    return time_series(
        "API, 99th",
        [(quantile(0.99, PREFIX + "request_seconds", "route"), "{{route}}")],
        "s",
        "Time from the head of a request to its answer. "
        "Worry when `/v1/url` is above 100 ms for minutes: the store is slow, or requests wait.",
    )


def at_work():
    return time_series(
        "API requests at work",
        [
            (total(PREFIX + "in_flight_requests", "instance"), "{{instance}}: requests"),
            (total(PREFIX + "connections", "instance"), "{{instance}}: connections"),
        ],
        "short",
        "Requests being answered, and open connections. "
        "Worry when requests stay at `urlstore.concurrency`, or connections at 256: others wait.",
    )


def amounts():
    return time_series(
        "URLs looked up",
        [(rate(PREFIX + "batch_urls_total"), "of /v1/urls")],
        "cps",
        "URLs of requests for many at once. Worry when they are the load that slows other requests down.",
    )


def content():
    return time_series(
        "Archived content read",
        [(rate(PREFIX + "content_bytes_total"), "read")],
        "Bps",
        "Bytes of contents and records read from the archive. Worry when it nears the bandwidth of the disk or bucket.",
    )
