"""Series of a healthy pipeline, and what has to change in them for each alert to fire.

A value is a level, or a start and an increase in each step of 15 seconds, or promtool's own notation; None means that the
series is not there.
"""

SERVICES = ["normalizer-dedup", "frontier", "rate-limiter", "fetcher", "extractor", "archiver"]


def s(name, service, **labels):
    """A series of one instance of a service."""
    pairs = {"service": service, "instance": f"{service}:1", **labels}
    inside = ",".join(f'{key}="{value}"' for key, value in pairs.items())
    return f"{name}{{{inside}}}"


def histogram(name, service, counts, **labels):
    """A histogram: the increase of each bucket in a step, cumulative."""
    return {s(f"{name}_bucket", service, **labels, le=bound): (0, count) for bound, count in counts.items()}


def healthy():
    series = {}
    for service in SERVICES:
        series |= {
            s("up", service): 1,
            s("orbweaver_process_ready", service): 1,
            s("orbweaver_process_reached", service, server="log"): 1,
            s("orbweaver_build_info", service, version="0.2.0", git="abc"): 1,
            s("process_start_time_seconds", service): 1000,
            s("process_open_fds", service): 50,
            s("process_max_fds", service): 1024,
            s("orbweaver_stage_records_in_total", service): (0, 1500),
            s("orbweaver_stage_records_out_total", service): (0, 1500),
            s("orbweaver_stage_completed_total", service): (0, 1500),
            s("orbweaver_stage_rejected_total", service): 0,
            s("orbweaver_stage_late_completions_total", service): 0,
            s("orbweaver_stage_repeated_completions_total", service): 0,
            s("orbweaver_stage_commits_total", service): (0, 30),
            s("orbweaver_stage_commit_failures_total", service): 0,
            s("orbweaver_stage_freezes_total", service): 0,
            s("orbweaver_stage_lag_records", service, group=service, topic="crawl.pages"): 500,
            s("orbweaver_stage_due_records", service): 3,
            s("orbweaver_stage_stalled_seconds", service): 0,
            s("orbweaver_stage_commit_stalled_seconds", service): 1,
            s("orbweaver_stage_commit_age_seconds", service): 1,
            s("orbweaver_stage_budget_used_ratio", service): 0.4,
            s("orbweaver_stage_restoring_seconds", service): 0,
            s("orbweaver_stage_partitions_open", service): 16,
        }
        for event in ("assigned", "revoked", "lost"):
            series[s("orbweaver_stage_partition_events_total", service, event=event)] = 0
        series |= histogram("orbweaver_stage_append_seconds", service, {"0.1": 100, "10": 100, "+Inf": 100})
    for service in ("normalizer-dedup", "frontier", "archiver"):
        series |= {
            s("orbweaver_process_disk_bytes", service): 100000000000,
            s("orbweaver_process_disk_free_bytes", service): 50000000000,
        }
    for store in ("fetcher", "extractor"):
        series |= {
            s("orbweaver_store_failing", store): 0,
            s("orbweaver_store_retries_total", store): 0,
            s("orbweaver_process_reached", store, server="store"): 1,
            s("orbweaver_store_errors_total", store, operation="write", kind="failed"): 0,
            s("orbweaver_store_errors_total", store, operation="write", kind="refused"): 0,
            s("orbweaver_store_errors_total", store, operation="write", kind="damaged"): 0,
        }
        series |= histogram("orbweaver_store_request_seconds", store, {"0.1": 100, "10": 100, "+Inf": 100}, operation="write")
    for cls, count in {"2xx": 1200, "3xx": 100, "4xx": 100, "dns": 50, "connect": 50, "internal": 0}.items():
        series[s("orbweaver_fetcher_requests_total", "fetcher", **{"class": cls})] = (0, count)
    for kind, count in {"fetched": 1200, "redirected": 100, "blocked": 5, "deferred": 20, "gone": 100}.items():
        series[s("orbweaver_fetcher_outcomes_total", "fetcher", kind=kind)] = (0, count)
        series[s("orbweaver_frontier_outcomes_total", "frontier", kind=kind)] = (0, count)
    for finding, count in {"stored": 100, "failing": 2}.items():
        series[s("orbweaver_fetcher_robots_total", "fetcher", finding=finding)] = (0, count)
    series |= histogram("orbweaver_fetcher_request_seconds", "fetcher", {"0.5": 1000, "10": 1400, "20": 1450, "30": 1500, "+Inf": 1500})
    series |= {
        s("orbweaver_fetcher_freezes_total", "fetcher"): 0,
        s("orbweaver_frontier_waiting_urls", "frontier"): 100000,
        s("orbweaver_frontier_capped_urls", "frontier"): 0,
        s("orbweaver_frontier_active_sites", "frontier"): 1000,
        s("orbweaver_frontier_dispatches_total", "frontier"): (0, 1500),
        s("orbweaver_frontier_expired_leases_total", "frontier"): 0,
        s("orbweaver_rate_limiter_blocked_sites", "rate-limiter"): 20,
        s("orbweaver_rate_limiter_passed_dispatches_total", "rate-limiter"): (0, 1500),
        s("orbweaver_rate_limiter_deferred_dispatches_total", "rate-limiter", reason="interval"): (0, 300),
        s("orbweaver_normalizer_dedup_links_total", "normalizer-dedup", end="new"): (0, 5000),
        s("orbweaver_normalizer_dedup_links_total", "normalizer-dedup", end="misplaced"): 0,
        s("orbweaver_normalizer_dedup_damaged_seen_records_total", "normalizer-dedup"): 0,
        s("orbweaver_normalizer_dedup_undefined_crawl_records", "normalizer-dedup"): 0,
        s("orbweaver_normalizer_dedup_refused_definitions_total", "normalizer-dedup"): 0,
        s("orbweaver_normalizer_dedup_definition_version", "normalizer-dedup", crawl="default"): 12,
        s("orbweaver_frontier_refused_definitions_total", "frontier"): 0,
        s("orbweaver_frontier_definition_version", "frontier", crawl="default"): 12,
        s("orbweaver_extractor_pages_total", "extractor", result="extracted"): (0, 1200),
        s("orbweaver_extractor_truncated_pages_total", "extractor"): (0, 1),
        s("orbweaver_archiver_responses_total", "archiver", result="archived"): (0, 1200),
    }
    return series


HEALTHY = healthy()


def requests(**counts):
    """Requests by class; `_2xx` is 2xx."""
    name = "orbweaver_fetcher_requests_total"
    return {s(name, "fetcher", **{"class": word.lstrip("_")}): (0, count) for word, count in counts.items()}


# By alert: what is planted, and which alerts rightly fire along with it.
PLANTS = {
    "CrawlStalled": (requests(_2xx=0, _3xx=0, _4xx=0, dns=0, connect=0), []),
    "OutboundRequestsFail": (requests(_2xx=300, dns=600, connect=600), []),
    "FetcherInternalErrors": (requests(internal=1), []),
    "AnswersAreSlow": (
        histogram("orbweaver_fetcher_request_seconds", "fetcher", {"0.5": 10, "10": 500, "20": 1450, "30": 1500, "+Inf": 1500}),
        [],
    ),
    "ManySitesBlocked": ({s("orbweaver_rate_limiter_blocked_sites", "rate-limiter"): 400}, []),
    "ManyOutcomesBlocked": ({s("orbweaver_fetcher_outcomes_total", "fetcher", kind="blocked"): (0, 30)}, []),
    "ManyDeferrals": (
        {s("orbweaver_rate_limiter_deferred_dispatches_total", "rate-limiter", reason="interval"): (0, 4000)},
        [],
    ),
    "FetcherDefers": ({s("orbweaver_fetcher_outcomes_total", "fetcher", kind="deferred"): (0, 400)}, []),
    "RobotsFail": ({s("orbweaver_fetcher_robots_total", "fetcher", finding="failing"): (0, 40)}, []),
    "LeasesExpire": ({s("orbweaver_frontier_expired_leases_total", "frontier"): (0, 40)}, []),
    "UrlsStuck": ({s("orbweaver_frontier_stuck_urls_total", "frontier"): (0, 1)}, []),
    "DeadLetters": ({s("orbweaver_stage_rejected_total", "extractor"): (0, 1)}, []),
    "LinksMisplaced": ({s("orbweaver_normalizer_dedup_links_total", "normalizer-dedup", end="misplaced"): (0, 1)}, []),
    "SeenRecordsDamaged": ({s("orbweaver_normalizer_dedup_damaged_seen_records_total", "normalizer-dedup"): (0, 1)}, []),
    "RecordsOfUndefinedCrawl": ({s("orbweaver_normalizer_dedup_undefined_crawl_records", "normalizer-dedup"): 7}, []),
    "DefinitionRefused": ({s("orbweaver_frontier_refused_definitions_total", "frontier"): (0, 1)}, []),
    "DefinitionsDiffer": ({s("orbweaver_frontier_definition_version", "frontier", crawl="default"): 9}, []),
    "ArchiveStalled": (
        {
            s("orbweaver_stage_lag_records", "archiver", group="crawl.archiver", topic="crawl.pages"): 500,
            s("orbweaver_archiver_responses_total", "archiver", result="archived"): 9000,
        },
        [],
    ),
    "PagesTruncated": ({s("orbweaver_extractor_truncated_pages_total", "extractor"): (0, 40)}, []),
    "CommitPointStalled": ({s("orbweaver_stage_commit_stalled_seconds", "fetcher"): (0, 15)}, []),
    "CommitsNotAccepted": ({s("orbweaver_stage_commit_age_seconds", "frontier"): (0, 15)}, []),
    "CommitsMissing": ({s("orbweaver_stage_commits_total", "extractor"): 1000}, []),
    "WorkDueStalled": ({s("orbweaver_stage_stalled_seconds", "extractor"): "0+0x225 60+15x15"}, []),
    "CommitsRefused": ({s("orbweaver_stage_commit_failures_total", "fetcher"): (0, 2)}, []),
    "StageFallsBehind": (
        {s("orbweaver_stage_lag_records", "extractor", group="crawl.extractor", topic="crawl.pages"): (5000, 500)},
        [],
    ),
    "BudgetFull": ({s("orbweaver_stage_budget_used_ratio", "rate-limiter"): 0.99}, []),
    "RestoreTakesLong": ({s("orbweaver_stage_restoring_seconds", "frontier"): (0, 15)}, []),
    "PartitionsNotServed": ({s("orbweaver_stage_partitions_open", "extractor"): 12}, []),
    "PartitionsLost": ({s("orbweaver_stage_partition_events_total", "fetcher", event="lost"): "0+0x225 16+0x15"}, []),
    "PartitionsKeepMoving": ({s("orbweaver_stage_partition_events_total", "fetcher", event="assigned"): (0, 1)}, []),
    "ProcessSuspended": ({s("orbweaver_stage_freezes_total", "frontier"): "0+0x225 1+0x15"}, []),
    "CompletedTwice": ({s("orbweaver_stage_repeated_completions_total", "frontier"): (0, 1)}, []),
    "DrainsTooShort": ({s("orbweaver_stage_late_completions_total", "fetcher"): (0, 60)}, []),
    "LogIsSlow": (histogram("orbweaver_stage_append_seconds", "frontier", {"0.1": 90, "10": 100, "+Inf": 100}), []),
    "LogUnavailable": ({s("orbweaver_process_reached", "frontier", server="log"): 0}, []),
    "StoreIsSlow": (
        histogram("orbweaver_store_request_seconds", "fetcher", {"0.1": 50, "10": 100, "+Inf": 100}, operation="write"),
        [],
    ),
    "StoreFails": ({s("orbweaver_store_failing", "fetcher"): 1}, []),
    "StoreRefuses": ({s("orbweaver_store_errors_total", "fetcher", operation="write", kind="refused"): (0, 1)}, []),
    "StoreRetries": ({s("orbweaver_store_retries_total", "extractor"): (0, 15)}, []),
    "InstanceDown": ({s("up", "fetcher"): 0}, []),
    "ServiceAbsent": ({s("up", "frontier"): None}, []),
    "NotReady": ({s("orbweaver_process_ready", "fetcher"): 0}, []),
    "ProcessRestarts": ({s("process_start_time_seconds", "fetcher"): "1000+0x180 2000+0x15 2300+0x15 2600+0x30"}, []),
    "VersionSkew": ({s("orbweaver_build_info", "fetcher", version="0.2.0", git="def"): 1}, []),
    "FilesRunOut": ({s("process_open_fds", "fetcher"): 1000}, []),
    "DiskFull": ({s("orbweaver_process_disk_free_bytes", "frontier"): 9000000000}, []),
}
