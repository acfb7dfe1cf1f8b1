"""Panels of the overview, a topic per row, from the crawl as a whole down to the processes."""

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
        stat("Pages", pages, "reqps", "Pages fetched per second. Worry when it is 0 while URLs are queued and sites are not blocked."),
        stat("Documents", documents, "reqps", "Documents extracted per second. Worry when it stays below the pages: see the lag of the extractor."),
        stat("URLs waiting", waiting, "short", "Admitted URLs without a final outcome: the remaining work. No worry by itself."),
        stat("In flight", in_flight, "short", "Requests in flight to sites. Worry when it is 0 while dispatches pass the rate-limiter."),
        stat(
            "Blocked sites",
            f"sum({chosen('orbweaver_rate_limiter_blocked_sites')})",
            "short",
            "Sites in back-off after a 429 or 503. Worry when they are a growing share of the active sites.",
        ),
        stat(
            "Complete",
            complete,
            "none",
            "Whether every group is at the end of its topics, as read within the last fifteen seconds. `orbweaver status` confirms it by "
            "two snapshots; markers of transactions of other producers count as lag here, not there.",
            words=YES_NO,
        ),
        time_series(
            "Pages and documents",
            [(pages, "pages"), (documents, "documents")],
            "reqps",
            "Worry when documents stay below pages for minutes, or both fall while URLs are queued.",
        ),
        time_series(
            "Waiting and leased",
            [(waiting, "waiting"), (f"sum({chosen('orbweaver_frontier_leased_urls')})", "leased")],
            "short",
            "Queued URLs, and dispatched ones without an outcome yet. Worry when leased stays at its limit and no outcomes arrive.",
        ),
        time_series(
            "Sites",
            [
                (f"sum({chosen('orbweaver_frontier_active_sites')})", "with queued URLs"),
                (f"sum({chosen('orbweaver_rate_limiter_blocked_sites')})", "blocked"),
            ],
            "short",
            "Few active sites limit the speed: each is requested at its own interval. Worry when most of the active ones are blocked.",
        ),
        time_series(
            "Ready sites",
            [
                (quantile(0.5, "orbweaver_frontier_ready_seconds"), "until dispatch, median"),
                (quantile(0.95, "orbweaver_frontier_ready_seconds"), "until dispatch, 95th"),
                (f"max({chosen('orbweaver_frontier_oldest_ready_seconds')})", "not dispatched yet, longest"),
            ],
            "s",
            "Time for which sites could have been requested. Near zero, politeness limits the crawl. Worry above ten seconds: fetchers or a later stage do.",
        ),
    ]


def crawls():
    """The first hundred crawls of each process, then `other`."""
    pages = rate("orbweaver_frontier_crawl_outcomes_total", "crawl", 'kind=~"fetched|unchanged"')
    urls = f"sum by (crawl) ({chosen('orbweaver_frontier_crawl_waiting_urls')})"
    return [
        time_series(
            "Pages by crawl",
            [(pages, "{{crawl}}")],
            "reqps",
            "Pages fetched per second. Crawls whose sites are due divide them by their shares. Worry when one has none while it has URLs waiting.",
        ),
        time_series(
            "Waiting by crawl",
            [(urls, "{{crawl}}")],
            "short",
            "Queued and leased URLs. Worry when one stays the same while its crawl is neither paused nor at its cap.",
        ),
        time_series(
            "Bytes by crawl",
            [(rate("orbweaver_fetcher_crawl_body_bytes_total", "crawl"), "{{crawl}}")],
            "Bps",
            "Decoded bytes of pages: what each crawl costs the sites, and the store. Worry when one grows without more pages: it fetches large files.",
        ),
    ]


def flow():
    return [
        time_series(
            "Records in",
            [(rate("orbweaver_stage_records_in_total", "service"), "{{service}}")],
            "cps",
            "Records received by each service. Worry about the first service in the flow that receives none while the one before it produces.",
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
            "Records between commit point and log end. The frontier's is its queue, the fetcher's is politeness; worry when that of "
            "normalizer-dedup or extractor grows.",
            width=12,
        ),
        time_series(
            "Incomplete",
            [(f"sum by (service) ({chosen('orbweaver_stage_outstanding_records')})", "{{service}}")],
            "short",
            "Records received and not complete, parked ones included. Worry about memory only.",
            width=12,
        ),
        time_series(
            "Links",
            [(rate("orbweaver_normalizer_dedup_links_total", "end"), "{{end}}")],
            "cps",
            "Links by result. Worry about any that are misplaced; many malformed ones point to a defect of an extractor.",
            width=12,
        ),
        time_series(
            "Known URLs",
            [
                (f"sum({chosen('orbweaver_normalizer_dedup_known_urls')})", "known"),
                (f"sum({chosen('orbweaver_normalizer_dedup_unwritten_urls')})", "not written yet"),
            ],
            "short",
            "URLs admitted before, and those of them not yet written to the index. Worry when these are above a million "
            "per partition: the disk or the log is slow.",
            width=12,
        ),
    ]


def archive():
    return [
        time_series(
            "Archived responses",
            [(rate("orbweaver_archiver_responses_total", "result"), "{{result}}")],
            "cps",
            "Records of crawl.pages by result: in a closed file, passed over since their crawl is not archived, rejected. Worry about "
            "any rejected: each is a dead letter.",
            width=8,
        ),
        time_series(
            "Archive written",
            [(rate("orbweaver_archiver_file_bytes_total"), "compressed")],
            "Bps",
            "Bytes written to WARC files. Worry when the disk will be full before you add space.",
            width=8,
        ),
        time_series(
            "Files of the archive",
            [
                (f"sum({chosen('orbweaver_archiver_open_files')})", "open"),
                (rate("orbweaver_archiver_files_total"), "closed per second"),
                (quantile(0.99, "orbweaver_archiver_write_seconds"), "seconds per batch, 99th"),
                (quantile(0.99, "orbweaver_archiver_upload_seconds"), "seconds per upload, 99th"),
            ],
            "short",
            "Worry when open files stay at archiver.max_open_files: files are closed early, and remain small.",
            width=8,
        ),
    ]


def deduplication():
    """Tiers in the order of lookup."""
    prefix = "orbweaver_normalizer_dedup_"
    return [
        time_series(
            "Links by crawl",
            [(rate(prefix + "crawl_links_total", "crawl, seen"), "{{crawl}}: {{seen}}")],
            "cps",
            "Links seen for the first time, and again. Worry when almost all are new for hours: a site generates URLs.",
        ),
        time_series(
            "Recent cache",
            [(rate(prefix + "recent_hits_total"), "answered"), (rate(prefix + "recent_misses_total"), "passed on")],
            "cps",
            "Look-ups. Worry when it is full and misses more than a third: a larger cache costs 21 bytes per entry.",
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
            "Full is normal in a large crawl. Worry when it is full and misses more than a third.",
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
            "Worry when fruitless reads exceed a tenth of the unknown URLs: compaction does not keep up.",
        ),
        time_series(
            "Filters",
            [(f"sum by (instance) ({chosen(prefix + 'filter_bytes')})", "{{instance}}")],
            "bytes",
            "Memory: 1.5 bytes per known URL, 3.7 without verification. Worry near the memory limit of the process.",
        ),
        time_series(
            "Runs",
            [
                (f"sum by (instance) ({chosen(prefix + 'index_runs')})", "{{instance}}: SSTables"),
                (f"sum by (instance) ({chosen(prefix + 'unwritten_urls')})", "{{instance}}: URLs not written"),
            ],
            "short",
            "Worry above 16 SSTables per partition: compaction does not keep up.",
        ),
    ]


def politeness():
    return [
        time_series(
            "Blocked sites",
            [
                (f"sum({chosen('orbweaver_rate_limiter_blocked_sites')})", "blocked"),
                (rate("orbweaver_rate_limiter_refusals_total"), "429 and 503 per second"),
            ],
            "short",
            "Sites in back-off, and the rate of 429 and 503. Worry when they grow across many sites: the crawler may be banned as a whole.",
        ),
        time_series(
            "Dispatches",
            [
                (rate("orbweaver_rate_limiter_passed_dispatches_total"), "passed"),
                (rate("orbweaver_rate_limiter_deferred_dispatches_total", "reason"), "deferred: {{reason}}"),
            ],
            "cps",
            "Worry when `interval` is twice what passes, or `late` is steady: dispatches wait too long for the rate-limiter.",
        ),
        time_series(
            "Interval",
            [
                (quantile(0.5, "orbweaver_rate_limiter_interval_seconds"), "median"),
                (quantile(0.95, "orbweaver_rate_limiter_interval_seconds"), "95th"),
            ],
            "s",
            "Interval between two requests to a site, as the site and its robots.txt allow. Worry when it grows without a change of settings: sites slow down or refuse.",
        ),
        time_series(
            "robots.txt by finding",
            [(rate("orbweaver_fetcher_robots_total", "finding"), "{{finding}}")],
            "reqps",
            "Requests for robots.txt. Worry when `failing` is over a tenth: those sites are not crawled in the meantime.",
        ),
        time_series(
            "Outcomes",
            [(rate("orbweaver_fetcher_outcomes_total", "kind"), "{{kind}}")],
            "cps",
            "Outcomes of dispatches; `refused` is mostly robots.txt. Worry about a growing share of retry, blocked, deferred and gone.",
            stacked=True,
        ),
        time_series(
            "Leases expired",
            [
                (rate("orbweaver_frontier_expired_leases_total"), "expired leases"),
            ],
            "cps",
            "Dispatches without an outcome in time. A burst after a kill is normal; worry about a steady rate.",
        ),
        time_series(
            "Similar URLs",
            [
                (f"sum({chosen('orbweaver_frontier_over_budget_patterns')})", "patterns over budget"),
                (rate("orbweaver_frontier_put_back_urls_total"), "demoted per second"),
                (rate("orbweaver_frontier_refused_urls_total", "reason"), "refused per second: {{reason}}"),
            ],
            "short",
            "Patterns that yield links and no new content, and the demoted and refused URLs. Worry when few pages are new: the crawl may be in a trap.",
        ),
    ]


def errors():
    failed = rate("orbweaver_fetcher_requests_total", more='class!~"2xx|3xx"')
    return [
        time_series(
            "Requests by result",
            [(rate("orbweaver_fetcher_requests_total", "class"), "{{class}}")],
            "reqps",
            "Worry about any `internal`, and when dns or connect are over half: suspect the local network first.",
            width=12,
            stacked=True,
        ),
        time_series(
            "Failed share",
            [(f"{failed} / {rate('orbweaver_fetcher_requests_total')}", "failed")],
            "percentunit",
            "Requests that ended in neither success nor a redirect. Five to fifteen percent is normal; worry when it jumps.",
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
            "Records moved to the dead letters with their reason. Worry about any: `orbweaver dead-letters list` shows the reasons.",
            width=12,
        ),
        time_series(
            "Pages not extracted",
            [
                (rate("orbweaver_extractor_pages_total", more='result="rejected"'), "rejected"),
                (rate("orbweaver_extractor_truncated_pages_total"), "truncated"),
            ],
            "cps",
            "Pages that could not be extracted, or only in part. Worry about any rejected, and when over one in a hundred is truncated.",
            width=12,
        ),
    ]


def runtime():
    by_service = "{{service}}"
    return [
        time_series(
            "Commit points",
            [
                (f"max by (service) ({chosen('orbweaver_stage_commit_stalled_seconds')})", "{{service}}: one record in flight"),
                (f"max by (service) ({chosen('orbweaver_stage_commit_age_seconds')})", "{{service}}: not accepted"),
            ],
            "s",
            "Time for which one record in flight has blocked a commit point, and for which commits are not accepted. Worry above a minute.",
        ),
        time_series(
            "Work that is due",
            [(f"sum by (service) ({chosen('orbweaver_stage_due_records')})", by_service)],
            "short",
            "Work that could progress now. Worry when it persists and the next panel rises.",
        ),
        time_series(
            "Stalled although work is due",
            [(f"max by (service) ({chosen('orbweaver_stage_stalled_seconds')})", by_service)],
            "s",
            "After `runtime.stall_after`, 5 minutes by default, the watchdog ends the process. Worry above a minute.",
        ),
        time_series(
            "Budget used",
            [(f"max by (service) ({chosen('orbweaver_stage_budget_used_ratio')})", by_service)],
            "percentunit",
            "Used share of the budget of uncommitted records. Worry when it is full for many minutes: the service, its log or its store is the bottleneck.",
        ),
        time_series(
            "CPU by service",
            [(rate("orbweaver_stage_cpu_seconds_total", "service"), by_service)],
            "short",
            "CPU seconds per second, loop and workers. Worry when a loop nears one core: add instances.",
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
            "Worry when a service serves fewer than another for minutes: those sites are not crawled.",
        ),
        time_series(
            "Restores",
            [
                (f"sum by (service) ({chosen('orbweaver_stage_partitions_restoring')})", "{{service}}: running"),
                (rate("orbweaver_stage_restored_records_total", "service"), "{{service}}: records per second"),
            ],
            "short",
            "Restores of partitions before they open. Worry when one runs without records, or for over five minutes.",
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
            "Time from append to acknowledgement by the log. Worry above a second.",
        ),
        time_series(
            "Effects, 99th",
            [(quantile(0.99, "orbweaver_stage_perform_seconds", "service"), "{{service}}")],
            "s",
            "Time until a write to the store is durable, retries included. Worry above a second.",
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
            "Whether all processes reach the log and the store. Worry when one does not: see its /readyz.",
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
            "CPU seconds per second of the whole process. Worry when it stays at the limit of its container.",
        ),
        time_series(
            "File descriptors",
            [(f"{chosen('process_open_fds')} / {chosen('process_max_fds')}", "{{service}} {{instance}}")],
            "percentunit",
            "Share of the limit in use. Worry above four fifths.",
        ),
        time_series(
            "Free disk space",
            [
                (
                    f"{chosen('orbweaver_process_disk_free_bytes')} / {chosen('orbweaver_process_disk_bytes')}",
                    "{{service}} {{instance}}",
                )
            ],
            "percentunit",
            "Free share of the disk with the index or the archive of a service. Worry below a tenth.",
        ),
        time_series(
            "Uptime",
            [(f"time() - {chosen('process_start_time_seconds')}", "{{service}} {{instance}}")],
            "s",
            "Time since the start of each process. Worry about one that returns to zero repeatedly.",
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
        "The whole pipeline. Generated by monitoring/grafana/build.py; changes made here are lost at the next build.",
        [
            ("The crawl", crawl()),
            ("Crawls", crawls()),
            ("Flow", flow()),
            ("Deduplication", deduplication()),
            ("Archive", archive()),
            ("Politeness", politeness()),
            ("Errors and dead letters", errors()),
            ("Runtime", runtime()),
            ("Log and store", log_and_store()),
            ("Processes", process()),
        ],
    )
