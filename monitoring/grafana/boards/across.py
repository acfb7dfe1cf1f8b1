"""Dashboards across services, each on one topic."""

from board import dashboard, of_all_services, of_crawl
from panels import crawl, frontier, kafka, one_crawl, politeness, process, rate_limiter, requests, store, work


def all_across():
    return [_services(), _crawl(), _politeness(), _stores(), _kafka()]


def _services():
    rows = [
        ("Flow", [work.records_in(), work.records_out(), work.completed(), work.lag(), work.incomplete()]),
        (
            "Bottlenecks",
            [work.budget_used(), work.stage_cpu(), work.paused(), work.due(), work.stalled(), kafka.commit_points()],
        ),
        (
            "Crawls",
            [crawl.by_crawl_pages(), crawl.by_crawl_waiting(), crawl.by_crawl_bytes(), crawl.definitions(), crawl.capped_pages()],
        ),
        (
            "Processes",
            [
                process.up_and_ready(),
                store.servers_reached(),
                kafka.suspensions(),
                process.cpu(),
                process.memory(),
                process.file_descriptors(),
                store.disk_free(),
                process.uptime(),
                process.builds(),
            ],
        ),
    ]
    return dashboard("services", "All services next to each other: flow, bottlenecks, processes.", rows, of_all_services())


def _crawl():
    panels = [
        one_crawl.pages_now(),
        one_crawl.queued_now(),
        one_crawl.sleeping_now(),
        one_crawl.version_now(),
        one_crawl.pages(),
        one_crawl.outcomes(),
        one_crawl.fetched_share(),
        one_crawl.queued(),
        one_crawl.links(),
        one_crawl.requests(),
        one_crawl.bytes_received(),
        one_crawl.definition(),
        one_crawl.cap(),
    ]
    description = "One crawl. The first hundred crawls of a process have names, others are `other`."
    return dashboard("crawl", description, [("The crawl", panels)], of_crawl())


def _politeness():
    rows = [
        (
            "Intervals and sites",
            [rate_limiter.interval(), crawl.ready_sites(), frontier.sites(), rate_limiter.blocked_sites(), rate_limiter.sites_in_memory()],
        ),
        ("Deferrals", [rate_limiter.dispatches(), politeness.deferred_share(), politeness.addresses(), requests.known_sites()]),
        (
            "Answers of sites",
            [politeness.outcomes(), politeness.refusing_statuses(), politeness.substitutes(), requests.failed_share(), requests.duration()],
        ),
        ("Permissions", [politeness.robots(), politeness.robots_lookups(), politeness.purposes()]),
    ]
    return dashboard("politeness", "Requests to sites as the sites see them.", rows, of_all_services())


def _stores():
    rows = [
        ("Requests", [store.requests(), store.latency(), store.median(), store.rows(), store.effects()]),
        ("Errors", [store.errors(), store.errors_by_operation(), store.cql_errors(), store.failing(), store.servers_reached()]),
        ("Embedded indexes and archives", [store.disk_free(), store.disk_used()]),
    ]
    return dashboard("stores", "The store as its services see it, and the disks with indexes and archives.", rows, of_all_services())


def _kafka():
    rows = [
        ("Appends", [work.records_out(), kafka.append_time(), kafka.append_median(), work.records_in(), work.lag()]),
        ("Commits", [kafka.commits(), kafka.commits_refused(), kafka.commit_points()]),
        ("Partitions", [kafka.partitions_served(), kafka.partitions_moved(), kafka.partitions_lost()]),
        ("Restores", [kafka.restores(), kafka.oldest_restore(), kafka.restore_time()]),
        (
            "Errors",
            [kafka.dead_letters(), kafka.completions_out_of_order(), kafka.suspensions(), store.servers_reached(), work.incomplete()],
        ),
    ]
    return dashboard("kafka", "The log as its services see it.", rows, of_all_services())
