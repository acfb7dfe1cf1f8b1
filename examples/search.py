#!/usr/bin/env python3
"""An index of documents in SQLite, with full-text search. Needs only Python, and for Kafka `pip install confluent-kafka`.

    examples/search.py pages.db load DIR/documents.jsonl           # the results of a crawl
    zstdcat DIR/shards/documents-*.zst | examples/search.py pages.db load -      # an export
    ORBWEAVER_KAFKA__BROKERS=localhost:9092 examples/search.py pages.db follow GROUP [--idle SECONDS]
    examples/search.py pages.db find 'orb AND silk'                # https://sqlite.org/fts5.html#full_text_query_syntax

A document is inserted, or replaces an earlier version of its page: loading the same documents again changes nothing, so
that records that Kafka delivers twice do no harm. See documents.py for groups.
"""

import argparse
import json
import os
import sqlite3
import sys
from itertools import islice

BATCH = 100
TABLES = """
CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE,  -- of crawl and URL
    visit INTEGER NOT NULL,
    fetched_at TEXT NOT NULL,
    url TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL
);
-- The index has no copy of the texts; triggers keep it up to date.
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (title, text, content = documents, content_rowid = id);
CREATE TRIGGER IF NOT EXISTS inserted AFTER INSERT ON documents BEGIN
    INSERT INTO words (rowid, title, text) VALUES (new.id, new.title, new.text);
END;
CREATE TRIGGER IF NOT EXISTS updated AFTER UPDATE ON documents BEGIN
    INSERT INTO words (words, rowid, title, text) VALUES ('delete', old.id, old.title, old.text);
    INSERT INTO words (rowid, title, text) VALUES (new.id, new.title, new.text);
END;
"""
# An earlier version never replaces a later one, whatever the order of arrival.
UPSERT = """
INSERT INTO documents (fingerprint, visit, fetched_at, url, title, text) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (fingerprint) DO UPDATE SET
    visit = excluded.visit, fetched_at = excluded.fetched_at, url = excluded.url, title = excluded.title, text = excluded.text
WHERE (excluded.visit, excluded.fetched_at) > (documents.visit, documents.fetched_at)
"""
FIND = """
SELECT documents.title, documents.url, snippet(words, 1, '[', ']', '…', 8)
FROM words JOIN documents ON documents.id = words.rowid WHERE words MATCH ? ORDER BY rank LIMIT 10
"""


def store(database, values):
    """Stores documents in one transaction, which is durable when this returns."""
    documents = [json.loads(value) for value in values]
    rows = [(d["fingerprint"], d.get("visit", 0), d["fetched_at"], d["url"], d["title"], d["text"]) for d in documents]
    with database:
        database.executemany(UPSERT, rows)


def load(database, lines):
    while batch := list(islice(lines, BATCH)):
        store(database, batch)


def follow(database, group, idle):
    from confluent_kafka import Consumer, KafkaException

    prefix = os.environ.get("ORBWEAVER_KAFKA__PREFIX", "crawl")
    brokers = os.environ.get("ORBWEAVER_KAFKA__BROKERS") or sys.exit("set ORBWEAVER_KAFKA__BROKERS to HOST:PORT of a broker")
    config = {"bootstrap.servers": brokers, "group.id": f"{prefix}.{group}", "auto.offset.reset": "earliest", "session.timeout.ms": 10_000}
    # Offsets are committed in the background, but only those that are stored: of documents that are in the database.
    consumer = Consumer({**config, "enable.auto.commit": True, "enable.auto.offset.store": False})
    consumer.subscribe([f"{prefix}.documents"])
    try:
        while True:
            # Partitions may arrive at the end of a wait, before their documents: only the next empty one shows that there are none.
            had_partitions = consumer.assignment()
            records = consumer.consume(BATCH, timeout=idle or 1)
            if idle and had_partitions and not records:
                break
            for record in records:
                if record.error():
                    raise KafkaException(record.error())
            store(database, [record.value() for record in records])
            owned = {(tp.topic, tp.partition) for tp in consumer.assignment()}
            for record in records:
                if (record.topic(), record.partition()) in owned:
                    consumer.store_offsets(record)
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()  # commits the stored offsets


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("database")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("load").add_argument("file", type=argparse.FileType(encoding="utf-8"))
    of_kafka = commands.add_parser("follow")
    of_kafka.add_argument("group")
    of_kafka.add_argument("--idle", type=float, metavar="SECONDS")
    commands.add_parser("find").add_argument("words")
    given = parser.parse_args()
    database = sqlite3.connect(given.database)
    database.executescript(TABLES)
    if given.command == "find":
        try:
            for title, url, snippet in database.execute(FIND, (given.words,)):
                print(f"{title}\n  {url}\n  {snippet}")
        except sqlite3.OperationalError as error:
            sys.exit(f"{given.words}: {error}")
        return
    if given.command == "load":
        load(database, given.file)
    else:
        follow(database, given.group, given.idle)
    print(f"{database.execute('SELECT count(*) FROM documents').fetchone()[0]} documents in {given.database}")


if __name__ == "__main__":
    main()
