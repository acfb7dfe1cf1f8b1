"""normalizer-dedup: links by result, and the tiers of deduplication in the order of lookup."""

from panel import time_series
from query import increase, rate, share, total

PREFIX = "orbweaver_normalizer_dedup_"


def links():
    return time_series(
        "Links",
        [(rate(PREFIX + "links_total", "end"), "{{end}}")],
        "cps",
        "Links by result. Worry about any that are misplaced; many malformed ones point to a defect of an extractor.",
    )


def links_by_crawl():
    return time_series(
        "Links by crawl",
        [(rate(PREFIX + "crawl_links_total", "crawl, seen"), "{{crawl}}: {{seen}}")],
        "cps",
        "Links seen for the first time, and again. Worry when almost all are new for hours: a site generates URLs.",
    )


def seeds():
    return time_series(
        "Seeds",
        [(rate(PREFIX + "seeds_total"), "forwarded")],
        "cps",
        "Seeds forwarded to the partition of their site. Worry when there are none while seeds are submitted.",
    )


def pending():
    return time_series(
        "Pending",
        [
            (total(PREFIX + "pending_plans"), "plans not durable"),
            (total(PREFIX + "undefined_crawl_records"), "records of undefined crawls"),
        ],
        "short",
        "Worry when plans stay constant above zero (the log does not acknowledge), or records wait for minutes for the "
        "definition of their crawl.",
    )


def refused_input():
    return time_series(
        "Unusable input",
        [
            (increase(PREFIX + "refused_definitions_total"), "definitions"),
            (increase(PREFIX + "damaged_seen_records_total"), "records of crawl.seen"),
        ],
        "short",
        "Definitions in crawl.control that are invalid, and records of crawl.seen that cannot be decoded. "
        "Worry about any: the log names them.",
    )


def known_urls():
    return time_series(
        "Known URLs",
        [(total(PREFIX + "known_urls"), "known"), (total(PREFIX + "unwritten_urls"), "not written yet")],
        "short",
        "URLs admitted before, and those of them not yet written to the index. Worry when these are above a million "
        "per partition: the disk or the log is slow.",
    )


def recent_cache():
    return time_series(
        "Recent cache",
        [(rate(PREFIX + "recent_hits_total"), "answered"), (rate(PREFIX + "recent_misses_total"), "passed on")],
        "cps",
        "Look-ups. Worry when it is full and misses more than a third: a larger cache costs 21 bytes per entry.",
    )


def cache_filled():
    return time_series(
        "Cache filled",
        [(share(total(PREFIX + "recent_filled_places"), total(PREFIX + "recent_places")), "share of entries")],
        "percentunit",
        "Full is normal in a large crawl. Worry when it is full and misses more than a third.",
    )


def index():
    return time_series(
        "Index",
        [
            (rate(PREFIX + "index_hits_total"), "known"),
            (rate(PREFIX + "index_misses_total"), "not known"),
            (rate(PREFIX + "disk_lookups_total"), "read from disk"),
            (rate(PREFIX + "filter_false_positives_total"), "false positives of filters"),
            (rate(PREFIX + "unverified_urls_total"), "known by a filter alone"),
        ],
        "cps",
        "Look-ups. Worry when false positives exceed a tenth of the unknown URLs: compaction does not keep up.",
    )


def filters():
    return time_series(
        "Filters",
        [(total(PREFIX + "filter_bytes", "instance"), "{{instance}}")],
        "bytes",
        "Memory: 1.5 bytes per known URL, 3.7 without verification. Worry near the memory limit of the process.",
    )


def sstables():
    return time_series(
        "SSTables",
        [(total(PREFIX + "index_runs", "instance"), "{{instance}}")],
        "short",
        "SSTables of the index on disk. Worry above 16 per partition for minutes: compaction does not keep up.",
    )
