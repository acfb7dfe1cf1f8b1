"""archiver: responses and files."""

from panel import time_series
from query import quantiles, rate, total

PREFIX = "orbweaver_archiver_"


def responses():
    return time_series(
        "Archived responses",
        [(rate(PREFIX + "responses_total", "result"), "{{result}}")],
        "cps",
        "Records of crawl.pages by result: in a closed file, passed over since their crawl is not archived, rejected. Worry about "
        "any rejected: each is a dead letter.",
    )


def written():
    return time_series(
        "Archive written",
        [(rate(PREFIX + "file_bytes_total"), "compressed")],
        "Bps",
        "Bytes written to WARC files. Worry when the disk will be full before you add space.",
    )


def files():
    return time_series(
        "Files of the archive",
        [
            (total(PREFIX + "open_files", "instance"), "{{instance}}: open"),
            (rate(PREFIX + "files_total", "instance"), "{{instance}}: closed per second"),
        ],
        "short",
        "Worry when open files stay at archiver.max_open_files: files are closed early, and remain small.",
    )


def write_time():
    return time_series(
        "Time per batch",
        quantiles(PREFIX + "write_seconds", 0.5, 0.99),
        "s",
        "Time per batch of responses that is written to one file. "
        "Worry when the 99th percentile is above ten seconds: the disk is too slow.",
    )


def upload_time():
    return time_series(
        "Time per upload",
        quantiles(PREFIX + "upload_seconds", 0.5, 0.99),
        "s",
        "Time per uploaded file, failed ones included. Worry when the 99th percentile is above five minutes: responses remain in "
        "crawl.pages meanwhile.",
    )
