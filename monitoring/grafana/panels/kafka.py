"""The log: appends, commits, partitions, restores, dead letters. `by` is `service` or `instance`."""

from panel import each, time_series
from query import increase, largest, quantile, rate, total

PREFIX = "orbweaver_stage_"


def append_time(by="service"):
    return time_series(
        "Append, 99th",
        [(quantile(0.99, PREFIX + "append_seconds", by), each(by))],
        "s",
        "Time from append to acknowledgement by the log. Worry above a second.",
    )


def append_median(by="service"):
    return time_series(
        "Append, median",
        [(quantile(0.5, PREFIX + "append_seconds", by), each(by))],
        "s",
        "Time from append to acknowledgement by the log. Worry when it rises for all services at once: the brokers are slow.",
    )


def commits(by="service"):
    return time_series(
        "Commits",
        [(rate(PREFIX + "commits_total", by), each(by))],
        "cps",
        "Accepted commits, counted per partition. Worry about none while records complete.",
    )


def commits_refused(by="service"):
    return time_series(
        "Commits refused",
        [(rate(PREFIX + "commit_failures_total", by), each(by))],
        "cps",
        "A few at a rebalance are normal. Worry about a steady rate: members are too slow for their group, or the coordinator moves.",
    )


def commit_points(by="service"):
    return time_series(
        "Commit points",
        [
            (largest(PREFIX + "commit_stalled_seconds", by), each(by, ": one record in flight")),
            (largest(PREFIX + "commit_age_seconds", by), each(by, ": not accepted")),
        ],
        "s",
        "Time for which one record in flight has blocked a commit point, and for which commits are not accepted. Worry above a minute.",
    )


def partitions_served(by="service"):
    return time_series(
        "Partitions served",
        [(total(PREFIX + "partitions_open", by), each(by))],
        "short",
        "Open partitions. Worry when a service serves fewer than another for minutes: those sites are not crawled.",
    )


def partitions_moved():
    return time_series(
        "Partitions moved",
        [(increase(PREFIX + "partition_events_total", "event"), "{{event}}")],
        "short",
        "Partitions assigned, revoked and lost; a few at a deployment. Worry about any that are lost, and when they keep moving.",
    )


def partitions_lost(by="service"):
    return time_series(
        "Partitions lost",
        [(increase(PREFIX + "partition_events_total", by, 'event="lost"'), each(by))],
        "short",
        "Partitions whose session ended before they were released. Worry about any: the process was too slow, suspended or cut off.",
    )


def restores(by="service"):
    return time_series(
        "Restores",
        [
            (total(PREFIX + "partitions_restoring", by), each(by, ": running")),
            (rate(PREFIX + "restored_records_total", by), each(by, ": records per second")),
        ],
        "short",
        "Restores of partitions before they open. Worry when one runs without records, or without a deployment.",
    )


def oldest_restore(by="service"):
    return time_series(
        "Oldest restore",
        [(largest(PREFIX + "restoring_seconds", by), each(by))],
        "s",
        "Age of the oldest running restore, including its wait for a free slot. Worry above five minutes.",
    )


def restore_time(by="service"):
    return time_series(
        "Restore, 95th",
        [(quantile(0.95, PREFIX + "restore_seconds", by), each(by))],
        "s",
        "Time from assignment to opening, per partition: the gap in the crawl of its sites. "
        "Worry when it nears your limit for a deployment.",
    )


def dead_letters(by="service"):
    return time_series(
        "Dead letters",
        [(increase(PREFIX + "rejected_total", by), each(by))],
        "short",
        "Records moved to the dead letters with their reason. Worry about any: `orbweaver dead-letters list` shows the reasons.",
    )


def completions_out_of_order(by="service"):
    return time_series(
        "Late and repeated completions",
        [
            (rate(PREFIX + "late_completions_total", by), each(by, ": late")),
            (rate(PREFIX + "repeated_completions_total", by), each(by, ": repeated")),
        ],
        "cps",
        "Completions after the partition has moved, and of records that were complete. Worry about a steady rate of late ones "
        "(drains are too short) and about any repeated one (a defect).",
    )


def suspensions(by="service"):
    return time_series(
        "Suspensions",
        [(increase(PREFIX + "freezes_total", by), each(by))],
        "short",
        "Times that a process was suspended for longer than `runtime.frozen_after`. Worry about any: its machine lacks CPU or memory.",
    )
