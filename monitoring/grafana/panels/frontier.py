"""frontier: queued URLs, dispatches and their outcomes."""

from panel import time_series
from query import increase, rate, total

PREFIX = "orbweaver_frontier_"


def waiting_and_leased():
    return time_series(
        "Waiting and leased",
        [(total(PREFIX + "waiting_urls"), "waiting"), (total(PREFIX + "leased_urls"), "leased")],
        "short",
        "Queued URLs, and dispatched ones without an outcome yet. Worry when leased stays at its limit and no outcomes arrive.",
    )


def sites():
    return time_series(
        "Sites",
        [(total(PREFIX + "active_sites"), "with queued URLs")],
        "short",
        "Few active sites limit the speed, since each is requested at its own interval. Worry when there are none while URLs are queued.",
    )


def dispatches():
    return time_series(
        "Dispatched",
        [(rate(PREFIX + "dispatches_total"), "dispatches"), (rate(PREFIX + "outcomes_total"), "outcomes")],
        "cps",
        "Dispatches, and outcomes that were read. Worry when there are no dispatches while URLs are queued, or far fewer "
        "outcomes than dispatches.",
    )


def outcomes():
    return time_series(
        "Outcomes at the frontier",
        [(rate(PREFIX + "outcomes_total", "kind"), "{{kind}}")],
        "cps",
        "Outcomes by kind. Worry about a growing share of retry, blocked and gone.",
        stacked=True,
    )


def expired_leases():
    return time_series(
        "Leases expired",
        [(rate(PREFIX + "expired_leases_total"), "expired leases")],
        "cps",
        "Dispatches without an outcome in time. A burst after a kill is normal; worry about a steady rate.",
    )


def stuck():
    return time_series(
        "URLs stuck",
        [(increase(PREFIX + "stuck_urls_total"), "stuck")],
        "short",
        "URLs whose dispatches were lost ten times while later ones were answered. Worry about any: `orbweaver dead-letters list "
        "--stuck` names them.",
    )


def capped():
    return time_series(
        "Capped URLs",
        [(total(PREFIX + "capped_urls"), "capped")],
        "short",
        "URLs that wait until the cap of their crawl is raised. Worry when they are nearly all of the waiting ones: raise the "
        "cap, or the crawl is complete.",
    )


def reappended():
    return time_series(
        "Re-appended records",
        [(rate(PREFIX + "reappended_records_total"), "re-appended"), (rate(PREFIX + "outcomes_total"), "outcomes")],
        "cps",
        "Records appended again so that the commit point can advance. Worry above twice the rate of outcomes.",
    )


def refused_definitions():
    return time_series(
        "Unusable definitions",
        [(increase(PREFIX + "refused_definitions_total"), "definitions")],
        "short",
        "Definitions in crawl.control that are invalid; the previous ones still apply. Worry about any: the log has the reason.",
    )


def similar_urls():
    return time_series(
        "Similar URLs",
        [
            (total(PREFIX + "over_budget_patterns"), "patterns over budget"),
            (rate(PREFIX + "put_back_urls_total"), "demoted per second"),
        ],
        "short",
        "Patterns that yield links and no new content, and URLs demoted for them. "
        "Worry when few pages are new: the crawl may be in a trap.",
    )


def refused_urls():
    return time_series(
        "URLs refused by the frontier",
        [(rate(PREFIX + "refused_urls_total", "reason"), "{{reason}}")],
        "cps",
        "URLs that end without a request, by reason. Worry when a crawl lacks pages that it should have.",
    )


def page_changes():
    return time_series(
        "Changes of pages",
        [(rate(PREFIX + "page_changes_total", "kind"), "{{kind}}")],
        "cps",
        "New, changed and gone pages that visits found, in crawls with revisits. "
        "Worry when almost none has changed: visits could be rarer.",
    )


def listed_updates():
    return time_series(
        "Listed modifications",
        [(rate(PREFIX + "listed_updates_total", "result"), "{{result}}")],
        "cps",
        "Modifications that sitemaps and feeds list, by result. Worry when most are distrusted: sites list the time at which a "
        "sitemap was generated.",
    )
