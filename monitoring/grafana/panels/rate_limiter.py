"""rate-limiter: the schedule of requests."""

from panel import time_series
from query import quantiles, rate, total

PREFIX = "orbweaver_rate_limiter_"


def dispatches():
    return time_series(
        "Dispatches",
        [
            (rate(PREFIX + "passed_dispatches_total"), "passed"),
            (rate(PREFIX + "deferred_dispatches_total", "reason"), "deferred: {{reason}}"),
        ],
        "cps",
        "Worry when `interval` is twice what passes, or `late` is steady: dispatches wait too long for the rate-limiter.",
    )


def interval():
    return time_series(
        "Interval",
        quantiles(PREFIX + "interval_seconds", 0.5, 0.95),
        "s",
        "Interval between two requests to a site, as the site and its robots.txt allow. Worry when it grows without a change of settings: "
        "sites slow down or refuse.",
    )


def blocked_sites():
    return time_series(
        "Blocked sites",
        [(total(PREFIX + "blocked_sites"), "blocked"), (rate(PREFIX + "refusals_total"), "429 and 503 per second")],
        "short",
        "Sites in back-off, and the rate of 429 and 503. Worry when they grow across many sites: the crawler may be banned as a whole.",
    )


def sites_in_memory():
    return time_series(
        "Sites in memory",
        [(total(PREFIX + "sites"), "sites")],
        "short",
        "Sites whose state is kept. Worry when they grow without more dispatches.",
    )


def site_records():
    return time_series(
        "Records of sites",
        [
            (rate(PREFIX + "site_records_total"), "written"),
            (rate(PREFIX + "stale_site_records_total"), "of a previous owner"),
        ],
        "cps",
        "Records of crawl.sites. Worry when they are as many as the outcomes (states flap), and about a steady rate of a "
        "previous owner: it still runs.",
    )
