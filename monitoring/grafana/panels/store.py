"""The store: requests, latency, errors, rows, and the disks of embedded indexes."""

from panel import each, time_series
from query import aggregate, chosen, largest, quantile, rate, share

PREFIX = "orbweaver_store_"
CQL = PREFIX + "cql_"


def requests():
    return time_series(
        "Store requests",
        [(rate(PREFIX + "request_seconds_count", "operation"), "{{operation}}")],
        "reqps",
        "Requests to the store by operation. Worry when there are no writes while pages are fetched.",
    )


def latency():
    return time_series(
        "Store, 99th",
        [(quantile(0.99, PREFIX + "request_seconds", "operation"), "{{operation}}")],
        "s",
        "Time of one request to the store. Worry when `write` is above a second.",
    )


def median():
    return time_series(
        "Store, median",
        [(quantile(0.5, PREFIX + "request_seconds", "operation"), "{{operation}}")],
        "s",
        "Time of one request to the store. Worry when it rises with constant load: compactions, or a node that is unavailable.",
    )


def effects(by="service"):
    return time_series(
        "Effects, 99th",
        [(quantile(0.99, "orbweaver_stage_perform_seconds", by), each(by))],
        "s",
        "Time until a write to the store is durable, retries included. Worry above a second.",
    )


def errors():
    return time_series(
        "Store errors",
        [(rate(PREFIX + "errors_total", "kind"), "{{kind}}"), (rate(PREFIX + "retries_total"), "retries of writes")],
        "cps",
        "Failed requests by kind, and retried writes. Worry about any refused or damaged, and about a steady rate of the others.",
    )


def errors_by_operation():
    return time_series(
        "Store errors by operation",
        [(rate(PREFIX + "errors_total", "operation, kind"), "{{operation}}: {{kind}}")],
        "cps",
        "Failed requests. Worry about any refused or damaged: it has ended a stage.",
    )


def cql_errors():
    return time_series(
        "CQL errors",
        [(rate(CQL + "errors_total", "kind"), "{{kind}}"), (rate(CQL + "sessions_renewed_total"), "sessions renewed")],
        "cps",
        "Failed requests to the servers by kind, and sessions replaced because they did not reconnect. Worry about any unauthorized or invalid, "
        "and about a steady rate of the others.",
    )


def failing(by="service"):
    return time_series(
        "Store fails",
        [(largest(PREFIX + "failing", by), each(by))],
        "bool_yes_no",
        "Whether every request of an instance fails. Worry after a minute: nothing is committed until the store recovers.",
    )


def rows():
    return time_series(
        "Rows written",
        [(rate(PREFIX + "rows_written_total", "table"), "{{table}}")],
        "wps",
        "Rows acknowledged by the store. Worry when there are none while pages are fetched.",
    )


def servers_reached():
    return time_series(
        "Servers reached",
        [(aggregate("min", chosen("orbweaver_process_reached"), "server"), "{{server}}")],
        "bool_yes_no",
        "Whether all processes reach the log and the store. Worry when one does not: see its /readyz.",
    )


def disk_free():
    free, size = (chosen(f"orbweaver_process_disk_{name}bytes") for name in ("free_", ""))
    return time_series(
        "Free disk space",
        [(share(free, size), "{{service}} {{instance}}")],
        "percentunit",
        "Free share of the disk with the index or the archive of a service. Worry below a tenth.",
    )


def disk_used():
    free, size = (chosen(f"orbweaver_process_disk_{name}bytes") for name in ("free_", ""))
    return time_series(
        "Used disk space",
        [(f"{size} - {free}", "{{service}} {{instance}}")],
        "bytes",
        "Used bytes of that disk, by all of its users. "
        "Worry when it grows faster than the known and queued URLs: something else fills the disk.",
    )
