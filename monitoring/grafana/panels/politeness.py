"""fetcher: what sites permit and refuse."""

from panel import time_series
from query import rate, share, total

PREFIX = "orbweaver_fetcher_"


def outcomes():
    return time_series(
        "Outcomes",
        [(rate(PREFIX + "outcomes_total", "kind"), "{{kind}}")],
        "cps",
        "Outcomes of dispatches; `refused` is mostly robots.txt. Worry about a growing share of retry, blocked, deferred and gone.",
        stacked=True,
    )


def refusing_statuses():
    every = rate(PREFIX + "requests_total")
    statuses = ("403", "429")
    shares = [(share(rate(PREFIX + "requests_total", more=f'class="{status}"'), every), status) for status in statuses]
    return time_series(
        "403 and 429",
        shares,
        "percentunit",
        "Share of the requests. Worry above a hundredth: sites refuse the crawler, or its rate is too high.",
    )


def deferred_share():
    deferred = rate(PREFIX + "outcomes_total", more='kind="deferred"')
    return time_series(
        "Deferred share",
        [(share(deferred, rate(PREFIX + "outcomes_total")), "deferred by the fetcher")],
        "percentunit",
        "Dispatches that the fetcher returns without a request. Worry above a tenth: they arrive late, or their sites are blocked.",
    )


def robots():
    return time_series(
        "robots.txt by finding",
        [(rate(PREFIX + "robots_total", "finding"), "{{finding}}")],
        "reqps",
        "Requests for robots.txt. Worry when `failing` is over a tenth: those sites are not crawled in the meantime.",
    )


def robots_lookups():
    return time_series(
        "robots.txt by source",
        [(rate(PREFIX + "robots_lookups_total", "source"), "{{source}}")],
        "cps",
        "Lookups of robots.txt by the source of the answer. Worry when `store` is above a tenth for hours: raise "
        "`fetcher.robots_cache_bytes`.",
    )


def purposes():
    return time_series(
        "Refused purposes",
        [(rate(PREFIX + "purpose_refusals_total", "purpose, source"), "{{purpose}}: {{source}}")],
        "cps",
        "Pages that sites refuse for a purpose of the crawl, by purpose and source of the statement. "
        "Worry when they are most of the pages.",
    )


def substitutes():
    return time_series(
        "Substitutes",
        [(rate(PREFIX + "substitutes_total", "kind"), "{{kind}}")],
        "cps",
        "Pages sent instead of the requested ones. Worry when `challenge` is above a hundredth of the requests: sites take the "
        "crawler for an attack.",
    )


def addresses():
    return time_series(
        "Limit per address",
        [
            (total(PREFIX + "sites_waiting_for_address"), "sites that wait"),
            (rate(PREFIX + "address_deferrals_total"), "deferred per second"),
        ],
        "short",
        "Sites that share an address and wait for `fetcher.max_requests_per_address`. Worry when deferrals are a tenth of the outcomes.",
    )
