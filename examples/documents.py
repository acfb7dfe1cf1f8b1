#!/usr/bin/env python3
"""Writes each document of crawl.documents to a file, and loses none. Needs `pip install confluent-kafka`.

    orbweaver consumers add files     # once: keeps documents until this group has committed them
    ORBWEAVER_KAFKA__BROKERS=localhost:9092 examples/documents.py files DIRECTORY [--idle SECONDS]

The first argument is the name of the group; start more processes with the same name to share the work. With --idle it
ends once it has partitions and no document has arrived for that long.

Each document arrives at least once: offsets are committed after the files are durable, so a crash in between repeats
documents. A repeated one replaces its own file, because the name of the file is the key of the document: the fingerprint
(of crawl and URL) and the visit.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

BATCH = 100


def write(directory, value):
    """Makes a document durable, completely or not at all."""
    document = json.loads(value)
    name = f"{document['fingerprint']}-{document.get('visit', 0)}.json"
    temporary = directory / f".{name}"
    with temporary.open("wb") as file:
        file.write(value)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(directory / name)


def sync(directory):
    """Makes the names of the files durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def commit(consumer, records):
    """Commits the offsets after these records, in partitions that this process still has."""
    owned = {(tp.topic, tp.partition) for tp in consumer.assignment()}
    ends = {(record.topic(), record.partition()): record.offset() + 1 for record in records}
    offsets = [TopicPartition(*tp, offset) for tp, offset in ends.items() if tp in owned]
    try:
        if offsets:
            consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        # Partitions have moved meanwhile: their new owner receives these documents again.
        print(f"not committed: {error}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("group")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--idle", type=float, metavar="SECONDS")
    given = parser.parse_args()
    brokers = os.environ.get("ORBWEAVER_KAFKA__BROKERS") or sys.exit("set ORBWEAVER_KAFKA__BROKERS to HOST:PORT of a broker")
    given.directory.mkdir(parents=True, exist_ok=True)
    prefix = os.environ.get("ORBWEAVER_KAFKA__PREFIX", "crawl")
    consumer = Consumer(
        {
            "bootstrap.servers": brokers,
            "group.id": f"{prefix}.{given.group}",
            "enable.auto.commit": False,
            # Used only without a commit; `orbweaver consumers add` commits a start. Never skip documents silently.
            "auto.offset.reset": "earliest",
            # After a crash, other processes of the group take over this soon. A batch must not take longer than
            # max.poll.interval.ms, 5 minutes by default.
            "session.timeout.ms": 10_000,
        }
    )
    consumer.subscribe([f"{prefix}.documents"])
    # A signal ends the process between two batches.
    stopping = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.append(True))
    received = 0
    try:
        while not stopping:
            # Partitions may arrive at the end of a wait, before their documents: only the next empty one shows that there are none.
            had_partitions = consumer.assignment()
            # Returns after a second at the latest if a batch is not full, and may then be empty.
            records = consumer.consume(BATCH, timeout=given.idle or 1)
            for record in records:
                if record.error():
                    raise KafkaException(record.error())
                write(given.directory, record.value())
            if records:
                sync(given.directory)
                commit(consumer, records)
                received += len(records)
            elif given.idle and had_partitions:
                break
    finally:
        consumer.close()
    print(f"{received} records; {len(list(given.directory.glob('[!.]*.json')))} documents in {given.directory}")


if __name__ == "__main__":
    main()
