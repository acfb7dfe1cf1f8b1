"""Processes."""

from panel import each, time_series
from query import aggregate, chosen, rate, share, total

OF_PROCESS = "{{service}} {{instance}}"


def up_and_ready(by="service"):
    return time_series(
        "Instances up and ready",
        [(total("up", by), each(by, ": up")), (total("orbweaver_process_ready", by), each(by, ": ready"))],
        "short",
        "Worry when fewer are ready than up for minutes (`/readyz` names the reasons), or a service has none.",
    )


def memory():
    return time_series(
        "Memory",
        [(chosen("process_resident_memory_bytes"), OF_PROCESS)],
        "bytes",
        "Resident memory by instance. Worry when it grows without more URLs, or nears the limit of its container.",
    )


def cpu():
    return time_series(
        "CPU by process",
        [(rate("process_cpu_seconds_total", "service, instance"), OF_PROCESS)],
        "short",
        "CPU seconds per second of the whole process. Worry when it stays at the limit of its container.",
    )


def file_descriptors():
    return time_series(
        "File descriptors",
        [(share(chosen("process_open_fds"), chosen("process_max_fds")), OF_PROCESS)],
        "percentunit",
        "Share of the limit in use. Worry above four fifths.",
    )


def uptime():
    return time_series(
        "Uptime",
        [(f"time() - {chosen('process_start_time_seconds')}", OF_PROCESS)],
        "s",
        "Time since the start of each process. Worry about one that returns to zero repeatedly.",
    )


def builds():
    return time_series(
        "Builds",
        [(aggregate("count", chosen("orbweaver_build_info"), "version, git"), "{{version}} {{git}}")],
        "short",
        "Instances by build. Worry when there is more than one for longer than a deployment takes.",
    )
