"""extractor: pages, documents and links."""

from panel import time_series
from query import quantiles, rate, total

PREFIX = "orbweaver_extractor_"


def pages():
    return time_series(
        "Pages by result",
        [(rate(PREFIX + "pages_total", "result"), "{{result}}")],
        "cps",
        "Pages by result; other types than pages, sitemaps and feeds are passed over. Worry about any rejected: each is a page "
        "lost to the dead letters.",
        stacked=True,
    )


def not_extracted():
    return time_series(
        "Pages not extracted",
        [
            (rate(PREFIX + "pages_total", more='result="rejected"'), "rejected"),
            (rate(PREFIX + "truncated_pages_total"), "truncated"),
            (rate(PREFIX + "unrendered_pages_total"), "need a browser"),
        ],
        "cps",
        "Pages that could not be extracted, or only in part. Worry about any rejected, when over one in a hundred is truncated, "
        "and when over a tenth needs a browser.",
    )


def page_time():
    return time_series(
        "Time per page",
        quantiles(PREFIX + "page_seconds", 0.5, 0.99),
        "s",
        "CPU-bound time per pass over a page. Worry when the 99th percentile is above one second.",
    )


def pending():
    return time_series(
        "Pages pending",
        [(total(PREFIX + "pending_pages", "instance"), "{{instance}}")],
        "short",
        "Pages received and not yet extracted. "
        "Worry when they exceed the records of the budget for minutes while the time per page is flat.",
    )


def page_memory():
    return time_series(
        "Memory of pages",
        [(total(PREFIX + "memory_bytes", "instance"), "{{instance}}")],
        "bytes",
        "Pages being extracted and results that are not durable. "
        "Worry when it stays at `extractor.memory` while log and store are available.",
    )


def bodies():
    return time_series(
        "Bodies",
        [(rate(PREFIX + "body_bytes_total"), "decoded")],
        "Bps",
        "Decoded bytes of bodies. Worry when the bytes stay the same and the pages fall: pages get larger.",
    )


def links():
    return time_series(
        "Links found",
        [(rate(PREFIX + "links_total"), "links"), (rate(PREFIX + "discovered_urls_total"), "URLs discovered")],
        "cps",
        "Links including duplicates, and URLs put into crawl.discovered. Worry when none are discovered while pages are extracted.",
    )


def links_not_followed():
    return time_series(
        "Links not followed",
        [
            (rate(PREFIX + "nofollow_links_total"), "rel=nofollow"),
            (rate(PREFIX + "nofollow_pages_total"), "pages with nofollow"),
            (rate(PREFIX + "unfollowed_links_total"), "too many bytes"),
        ],
        "cps",
        "Links and pages that ask robots not to follow, and links of pages whose resolved links are many times their body. Worry "
        "when the last are many: traps.",
    )


def charsets():
    return time_series(
        "Encodings by source",
        [(rate(PREFIX + "charset_pages_total", "source"), "{{source}}")],
        "cps",
        "Pages by source of their encoding. Worry when `detected` is above half: texts may be garbled.",
        stacked=True,
    )


def near_duplicates():
    return time_series(
        "Near duplicates",
        [(rate(PREFIX + "near_duplicates_total"), "marked per second"), (total(PREFIX + "original_pages"), "pages to compare with")],
        "short",
        "Documents marked as near duplicates, and the pages with which others are compared. Worry when over half of the "
        "documents are marked for hours.",
    )
