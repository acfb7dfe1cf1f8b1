"""Records in the stages: what comes, what is done, what is due, and the budget. `by` is `service` or `instance`."""

from panel import each, time_series
from query import aggregate, chosen, largest, rate, total

PREFIX = "orbweaver_stage_"


def records_in(by="service"):
    return time_series(
        "Records in",
        [(rate(PREFIX + "records_in_total", by), each(by))],
        "cps",
        "Records received. Worry about the first service in the flow that receives none while the one before it produces.",
    )


def records_out(by="service"):
    return time_series(
        "Records out",
        [(rate(PREFIX + "records_out_total", by), each(by))],
        "cps",
        "Records appended and acknowledged. Worry when it is 0 while records go in.",
    )


def completed(by="service"):
    return time_series(
        "Completed",
        [(rate(PREFIX + "completed_total", by), each(by))],
        "cps",
        "Records completed. Worry when it stays below records in: work piles up.",
    )


def lag():
    return time_series(
        "Lag",
        [(total(PREFIX + "lag_records", "group, topic"), "{{group}} {{topic}}")],
        "short",
        "Records between commit point and log end. The frontier's is its queue, the fetcher's is politeness; worry when that of "
        "normalizer-dedup or extractor grows.",
    )


def incomplete(by="service"):
    return time_series(
        "Incomplete",
        [(total(PREFIX + "outstanding_records", by), each(by))],
        "short",
        "Records received and not complete, parked ones included. Worry about memory only.",
    )


def due(by="service"):
    return time_series(
        "Work that is due",
        [(total(PREFIX + "due_records", by), each(by))],
        "short",
        "Work that could progress now. Worry when it persists and the time for which it is stalled rises.",
    )


def stalled(by="service"):
    return time_series(
        "Stalled although work is due",
        [(largest(PREFIX + "stalled_seconds", by), each(by))],
        "s",
        "After `runtime.stall_after`, 5 minutes by default, the watchdog ends the process. Worry above a minute.",
    )


def budget_used(by="service"):
    return time_series(
        "Budget used",
        [(largest(PREFIX + "budget_used_ratio", by), each(by))],
        "percentunit",
        "Used share of the budget of uncommitted records. Worry when it is full for many minutes: the service, its log or its "
        "store is the bottleneck.",
    )


def budget_records(by="service"):
    return time_series(
        "Budget: records",
        [(total(PREFIX + "budget_records", by), each(by))],
        "short",
        "Records charged to the budget. Worry when it stays at its limit for minutes: the service is the bottleneck.",
    )


def budget_bytes(by="service"):
    return time_series(
        "Budget: bytes",
        [(total(PREFIX + "budget_bytes", by), each(by))],
        "bytes",
        "Bytes of records in flight and of plans that are not durable. Worry when it stays at its limit while log and store are available.",
    )


def paused(by="service"):
    return time_series(
        "Reading paused",
        [(aggregate("avg", f"avg_over_time({chosen(PREFIX + 'paused')}[$__rate_interval])", by), each(by))],
        "percentunit",
        "Share of the time in which the budget pauses reading. Worry when it is near one: work arrives faster than it completes.",
    )


def stage_cpu(by="service"):
    return time_series(
        "CPU of stages",
        [(rate(PREFIX + "cpu_seconds_total", by), each(by))],
        "short",
        "CPU seconds per second, loop and workers. Worry when a loop nears one core: add instances.",
    )
