"""What the overview shows: one question a row, from the crawl as a whole down to the processes."""

from panels import chosen, dashboard, quantile, rate, stat, time_series

LAG = "orbweaver_stage_lag_records"
YES_NO = {0: ("no", "yellow"), 1: ("yes", "green")}


def crawl():
    pages = rate("orbweaver_frontier_outcomes_total", more='kind=~"fetched|unchanged"')
    documents = rate("orbweaver_extractor_pages_total", more='result="extracted"')
    waiting = f"sum({chosen('orbweaver_frontier_waiting_urls')})"
    in_flight = f"sum({chosen('orbweaver_fetcher_in_flight_requests')})"
    complete = (
        f"(sum({chosen(LAG)}) == bool 0) * (sum({chosen('orbweaver_stage_outstanding_records')}) == bool 0)"
        f" * (sum({chosen('orbweaver_stage_partitions_restoring')}) == bool 0)"
    )
    return [
        stat("Pages", pages, "reqps", "Pages fetched a second. Worry when it is 0 while URLs wait and sites are not blocked."),
        stat("Documents", documents, "reqps", "Documents extracted a second. Worry when it stays below the pages: see the lag of the extractor."),
        stat("URLs waiting", waiting, "short", "URLs that were let through and have not ended: the size of what is left. No worry by itself."),
        stat("In flight", in_flight, "short", "Requests on their way to sites. Worry when it is 0 while dispatches pass the rate-limiter."),
        stat(
            "Blocked sites",
            f"sum({chosen('orbweaver_rate_limiter_blocked_sites')})",
            "short",
            "Sites that asked to be left alone. Worry when it is a growing share of the active sites.",
        ),
        stat(
            "Complete",
            complete,
            "none",
            "Whether every group stands at the end of its topics, as read within the last fifteen seconds. `orbweaver status` proves it by "
            "two readings; markers of transactions of other producers count as lag here, not there.",
            words=YES_NO,
        ),
        time_series(
            "Pages and documents",
            [(pages, "pages"), (documents, "documents")],
            "reqps",
            "Worry when documents stay below pages for minutes, or both fall while URLs wait.",
        ),
        time_series(
            "Waiting and leased",
            [(waiting, "waiting"), (f"sum({chosen('orbweaver_frontier_leased_urls')})", "leased")],
            "short",
            "URLs that wait, and those that are dispatched without an outcome yet. Worry when leased stays at its limit and no outcomes come.",
        ),
        time_series(
            "Sites",
            [
                (f"sum({chosen('orbweaver_frontier_active_sites')})", "with URLs waiting"),
                (f"sum({chosen('orbweaver_rate_limiter_blocked_sites')})", "blocked"),
            ],
            "short",
            "Few active sites bound the speed: each is asked at its own pace. Worry when most of the active ones are blocked.",
        ),
    ]


def flow():
    return [
        time_series(
            "Records in",
            [(rate("orbweaver_stage_records_in_total", "service"), "{{service}}")],
            "cps",
            "Records handed to each service. Worry about the first service in the flow that takes none while the one before it gives.",
        ),
        time_series(
            "Records out",
            [(rate("orbweaver_stage_records_out_total", "service"), "{{service}}")],
            "cps",
            "Records appended and acknowledged. Worry when it is 0 while records go in.",
        ),
        time_series(
            "Completed",
            [(rate("orbweaver_stage_completed_total", "service"), "{{service}}")],
            "cps",
            "Records completed. Worry when it stays below records in: work piles up.",
        ),
        time_series(
            "Lag",
            [(f"sum by (group, topic) ({chosen(LAG)})", "{{group}} {{topic}}")],
            "short",
            "Records between commit point and log end. The frontier's is what waits, the fetcher's is politeness; worry when that of "
            "normalizer-dedup or extractor grows.",
            width=12,
        ),
        time_series(
            "Incomplete",
            [(f"sum by (service) ({chosen('orbweaver_stage_outstanding_records')})", "{{service}}")],
            "short",
            "Records taken and not complete, those set aside for later among them. Worry about memory only.",
            width=12,
        ),
        time_series(
            "Links",
            [(rate("orbweaver_normalizer_dedup_links_total", "end"), "{{end}}")],
            "cps",
            "What became of links. Worry about any that are misplaced; many that are malformed point to a fault of an extractor.",
            width=12,
        ),
        time_series(
            "Known URLs",
            [
                (f"sum({chosen('orbweaver_normalizer_dedup_known_urls')})", "known"),
                (f"sum({chosen('orbweaver_normalizer_dedup_unwritten_urls')})", "not written yet"),
            ],
            "short",
            "URLs that were let through before, and those of them that are not written to the index yet. Worry when these are above a million "
            "a partition: the disk or the log is slow.",
            width=12,
        ),
    ]


def deduplication():
    """Tiers in the order in which they are asked."""
    prefix = "orbweaver_normalizer_dedup_"
    return [
        time_series(
            "Links by crawl",
            [(rate(prefix + "crawl_links_total", "crawl, seen"), "{{crawl}}: {{seen}}")],
            "cps",
            "Links that were met for the first time, and again. Worry when almost all are first for hours: a site makes up URLs.",
        ),
        time_series(
            "Recent cache",
            [(rate(prefix + "recent_hits_total"), "answered"), (rate(prefix + "recent_misses_total"), "passed on")],
            "cps",
            "Look-ups. Worry when it is full and passes more than a third on: more places cost 21 bytes each.",
        ),
        time_series(
            "Cache filled",
            [
                (
                    f"sum({chosen(prefix + 'recent_filled_places')}) / sum({chosen(prefix + 'recent_places')})",
                    "share of places",
                )
            ],
            "percentunit",
            "Full is as it should be in a large crawl. Worry when it is full and passes more than a third on.",
        ),
        time_series(
            "Index",
            [
                (rate(prefix + "index_hits_total"), "known"),
                (rate(prefix + "index_misses_total"), "not known"),
                (rate(prefix + "disk_lookups_total"), "read from disk"),
                (rate(prefix + "filter_false_positives_total"), "read in vain"),
                (rate(prefix + "unverified_urls_total"), "known by a filter alone"),
            ],
            "cps",
            "Worry when what is read in vain is above a tenth of what is not known: merging does not keep up.",
        ),
        time_series(
            "Filters",
            [(f"sum by (instance) ({chosen(prefix + 'filter_bytes')})", "{{instance}}")],
            "bytes",
            "Memory: 1.5 bytes a known URL, 3.7 where nothing is verified. Worry near the memory that a process may take.",
        ),
        time_series(
            "Runs",
            [
                (f"sum by (instance) ({chosen(prefix + 'index_runs')})", "{{instance}}: runs"),
                (f"sum by (instance) ({chosen(prefix + 'unwritten_urls')})", "{{instance}}: URLs not written"),
            ],
            "short",
            "Worry above 16 runs a partition: merging does not keep up with the disk.",
        ),
    ]


def politeness():
    return [
        time_series(
            "Blocked sites",
            [
                (f"sum({chosen('orbweaver_rate_limiter_blocked_sites')})", "blocked"),
                (rate("orbweaver_rate_limiter_refusals_total"), "429 and 503 a second"),
            ],
            "short",
            "Sites that asked to be left alone, and how often we are told so. Worry when they grow across many sites: we may be banned as a whole.",
        ),
        time_series(
            "Dispatches",
            [
                (rate("orbweaver_rate_limiter_passed_dispatches_total"), "passed"),
                (rate("orbweaver_rate_limiter_deferred_dispatches_total", "reason"), "deferred: {{reason}}"),
                (rate("orbweaver_rate_limiter_expired_dispatches_total"), "expired"),
            ],
            "cps",
            "Worry when `interval` is twice what passes, or `late` and expired are steady: dispatches wait too long before the rate-limiter.",
        ),
        time_series(
            "Interval",
            [
                (quantile(0.5, "orbweaver_rate_limiter_interval_seconds"), "median"),
                (quantile(0.95, "orbweaver_rate_limiter_interval_seconds"), "95th"),
            ],
            "s",
            "Time between two requests to one site, as sites and their robots.txt let us. Worry when it grows on its own: sites get slower or refuse.",
        ),
        time_series(
            "robots.txt by finding",
            [(rate("orbweaver_fetcher_robots_total", "finding"), "{{finding}}")],
            "reqps",
            "Requests for robots.txt. Worry when `failing` is over a tenth: those sites are not crawled meanwhile.",
        ),
        time_series(
            "Outcomes",
            [(rate("orbweaver_fetcher_outcomes_total", "kind"), "{{kind}}")],
            "cps",
            "How dispatches end; `refused` is robots.txt above all. Worry about a growing share of retry, blocked, deferred and gone.",
            stacked=True,
        ),
        time_series(
            "Leases expired",
            [
                (rate("orbweaver_frontier_expired_leases_total"), "expired leases"),
                (rate("orbweaver_fetcher_expired_total"), "dropped by fetchers"),
            ],
            "cps",
            "Dispatches without an outcome in time. A burst after a kill is normal; worry about a steady rate.",
        ),
        time_series(
            "Similar URLs",
            [
                (f"sum({chosen('orbweaver_frontier_over_budget_patterns')})", "patterns over budget"),
                (rate("orbweaver_frontier_put_back_urls_total"), "put back a second"),
                (rate("orbweaver_frontier_refused_urls_total", "reason"), "refused a second: {{reason}}"),
            ],
            "short",
            "Patterns that lead on and bring nothing new, and what becomes of their URLs. Worry when few pages are new: the crawl walks in circles.",
        ),
    ]


def errors():
    failed = rate("orbweaver_fetcher_requests_total", more='class!~"2xx|3xx"')
    return [
        time_series(
            "Requests by result",
            [(rate("orbweaver_fetcher_requests_total", "class"), "{{class}}")],
            "reqps",
            "Worry about any `internal`, and when dns or connect are over half: our own network more likely than theirs.",
            width=12,
            stacked=True,
        ),
        time_series(
            "Failed share",
            [(f"{failed} / {rate('orbweaver_fetcher_requests_total')}", "failed")],
            "percentunit",
            "Requests that ended neither well nor in a redirect. Five to fifteen percent is the web; worry when it jumps.",
            width=6,
        ),
        time_series(
            "Duration of requests",
            [
                (quantile(0.5, "orbweaver_fetcher_request_seconds"), "median"),
                (quantile(0.95, "orbweaver_fetcher_request_seconds"), "95th"),
            ],
            "s",
            "Time from the start of a request to the end of its response. Worry when the median is above ten seconds.",
            width=6,
        ),
        time_series(
            "Dead letters",
            [(f"sum by (service) (increase({chosen('orbweaver_stage_rejected_total')}[$__rate_interval]))", "{{service}}")],
            "short",
            "Records that were put aside with their reason. Worry about any: `orbweaver dead-letters list` says why.",
            width=12,
        ),
        time_series(
            "Pages not extracted",
            [
                (rate("orbweaver_extractor_pages_total", more='result="rejected"'), "rejected"),
                (rate("orbweaver_extractor_truncated_pages_total"), "cut"),
            ],
            "cps",
            "Pages that could not be extracted, or only in part. Worry about any rejected, and when over one in a hundred is cut.",
            width=12,
        ),
    ]


def runtime():
    by_service = "{{service}}"
    return [
        time_series(
            "Commit points",
            [
                (f"max by (service) ({chosen('orbweaver_stage_commit_standstill_seconds')})", "{{service}}: one record in work"),
                (f"max by (service) ({chosen('orbweaver_stage_commit_age_seconds')})", "{{service}}: not accepted"),
            ],
            "s",
            "For how long a commit point has stood at one record in work, and for how long commits are not accepted. Worry above a minute.",
        ),
        time_series(
            "Work that is due",
            [(f"sum by (service) ({chosen('orbweaver_stage_due_records')})", by_service)],
            "short",
            "Work that is due and could progress now. Worry when it stays and the next panel rises.",
        ),
        time_series(
            "Nothing moves although work is due",
            [(f"max by (service) ({chosen('orbweaver_stage_still_seconds')})", by_service)],
            "s",
            "After `runtime.stall_after`, 5 minutes by default, the watchdog ends the process. Worry above a minute.",
        ),
        time_series(
            "Budget used",
            [(f"max by (service) ({chosen('orbweaver_stage_budget_used_ratio')})", by_service)],
            "percentunit",
            "Share of what may be uncommitted. Worry when it is full for many minutes: the service, its log or its store is the bottleneck.",
        ),
        time_series(
            "CPU by service",
            [(rate("orbweaver_stage_cpu_seconds_total", "service"), by_service)],
            "short",
            "CPU seconds a second, loop and workers. Worry when a loop nears one core: add instances.",
        ),
        time_series(
            "Commits",
            [
                (rate("orbweaver_stage_commits_total", "service"), by_service),
                (rate("orbweaver_stage_commit_failures_total", "service"), "{{service}}: refused"),
            ],
            "cps",
            "Accepted commits, counted per partition, and refused ones. Worry about none while records complete, and about a steady rate of refusals.",
        ),
        time_series(
            "Partitions served",
            [(f"sum by (service) ({chosen('orbweaver_stage_partitions_open')})", by_service)],
            "short",
            "Worry when a service serves fewer than another for minutes: those sites stand still.",
        ),
        time_series(
            "Restores",
            [
                (f"sum by (service) ({chosen('orbweaver_stage_partitions_restoring')})", "{{service}}: running"),
                (rate("orbweaver_stage_restored_records_total", "service"), "{{service}}: records a second"),
            ],
            "short",
            "Partitions that are replayed before they are served. Worry when one runs and no records come, or for over five minutes.",
        ),
        time_series(
            "Partitions moved",
            [(f"sum by (event) (increase({chosen('orbweaver_stage_partition_events_total')}[$__rate_interval]))", "{{event}}")],
            "short",
            "A few at a deployment. Worry about any that are lost, and when they keep moving.",
        ),
    ]


def log_and_store():
    return [
        time_series(
            "Append, 99th",
            [(quantile(0.99, "orbweaver_stage_append_seconds", "service"), "{{service}}")],
            "s",
            "From append to acknowledgement by the log. Worry above a second.",
        ),
        time_series(
            "Effects, 99th",
            [(quantile(0.99, "orbweaver_stage_perform_seconds", "service"), "{{service}}")],
            "s",
            "From a write to the store, retries included, to durable. Worry above a second.",
        ),
        time_series(
            "Store, 99th",
            [(quantile(0.99, "orbweaver_store_request_seconds", "operation"), "{{operation}}")],
            "s",
            "One request to the store. Worry when `write` is above a second.",
        ),
        time_series(
            "Store errors",
            [
                (rate("orbweaver_store_errors_total", "kind"), "{{kind}}"),
                (rate("orbweaver_store_cql_errors_total", "kind"), "CQL: {{kind}}"),
                (rate("orbweaver_store_retries_total"), "retries"),
            ],
            "cps",
            "Worry about any refused, damaged, unauthorized or invalid, and about a steady rate of the others.",
        ),
        time_series(
            "Rows written",
            [(rate("orbweaver_store_rows_written_total", "table"), "{{table}}")],
            "wps",
            "Rows acknowledged by the store. Worry when there are none while pages are fetched.",
        ),
        time_series(
            "Servers reached",
            [(f"min by (server) ({chosen('orbweaver_process_reached')})", "{{server}}")],
            "bool_yes_no",
            "Whether all processes reach the log and the store. Worry when one does not: see what it names in /readyz.",
        ),
    ]


def process():
    return [
        time_series(
            "Instances up and ready",
            [
                (f"sum by (service) ({chosen('up')})", "{{service}}: up"),
                (f"sum by (service) ({chosen('orbweaver_process_ready')})", "{{service}}: ready"),
            ],
            "short",
            "Worry when fewer are ready than up for minutes, or a service has none.",
        ),
        time_series(
            "Memory",
            [(chosen("process_resident_memory_bytes"), "{{service}} {{instance}}")],
            "bytes",
            "Resident memory by instance. Worry when it grows without more URLs, or nears the limit of its container.",
        ),
        time_series(
            "CPU by process",
            [(rate("process_cpu_seconds_total", "service, instance"), "{{service}} {{instance}}")],
            "short",
            "CPU seconds a second of the whole process. Worry when it stays at the limit of its container.",
        ),
        time_series(
            "File descriptors",
            [(f"{chosen('process_open_fds')} / {chosen('process_max_fds')}", "{{service}} {{instance}}")],
            "percentunit",
            "Share of the limit in use. Worry above four fifths.",
        ),
        time_series(
            "Uptime",
            [(f"time() - {chosen('process_start_time_seconds')}", "{{service}} {{instance}}")],
            "s",
            "Since the start of each process. Worry about one that keeps falling back to zero.",
        ),
        time_series(
            "Builds",
            [(f"count by (version, git) ({chosen('orbweaver_build_info')})", "{{version}} {{git}}")],
            "short",
            "Instances by build. Worry when there is more than one for longer than a deployment takes.",
        ),
    ]


def overview():
    """The dashboard."""
    return dashboard(
        "orbweaver-overview",
        "Orbweaver: overview",
        "The whole pipeline. Made by monitoring/grafana/build.py; what is changed here is lost at the next build.",
        [
            ("The crawl", crawl()),
            ("Flow", flow()),
            ("Deduplication", deduplication()),
            ("Politeness", politeness()),
            ("Errors and dead letters", errors()),
            ("Runtime", runtime()),
            ("Log and store", log_and_store()),
            ("Processes", process()),
        ],
    )
