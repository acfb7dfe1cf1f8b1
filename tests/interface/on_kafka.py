"""The examples and schemas/asyncapi.yaml on real servers: the services crawl the demo web from seeds of an example.

ORBWEAVER_TEST_BROKERS, ORBWEAVER_TEST_CQL   the servers, as tests/stack prints them

Topics and keyspace have names of their own and are deleted afterwards.
"""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import yaml
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

import asyncapi
import cluster
import page

SERVICES = ["normalizer-dedup", "frontier", "rate-limiter", "fetcher", "extractor"]
PARTITIONS = 4
SEEDS = re.search(r"^```text\n(.*?)^```$", page.PAGE.read_text(), re.M | re.S)[1]


def written(directory):
    """Fingerprints of the documents that documents.py has written."""
    return {path.name.split("-")[0] for path in directory.glob("[!.]*.json")}


class OnKafka(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Ending this process ends what it started.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        brokers, cql = os.environ["ORBWEAVER_TEST_BROKERS"], os.environ["ORBWEAVER_TEST_CQL"]
        cls.prefix = f"interface_{secrets.token_hex(4)}"
        cls.root = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="orbweaver-interface-")))
        cls.env = {
            **page.environment(cluster.binary("orbweaver").parent),
            "ORBWEAVER_KAFKA__BROKERS": brokers,
            "ORBWEAVER_KAFKA__PREFIX": cls.prefix,
            "ORBWEAVER_RATE_LIMITER__RATE": "10/s",
        }
        cls.addClassCleanup(cluster.delete_topics, brokers, cls.prefix)
        cls.addClassCleanup(cluster.drop_keyspace, cql, cls.prefix)
        create = f"orbweaver topics create --partitions {PARTITIONS} --replication 1"
        page.run(create, cls.root, cls.env)
        cls.enterClassContext(cluster.services(SERVICES, cls.root, cls.env, cql, cls.prefix))
        web = [cluster.binary("orbweaver-toyweb"), "--demo", "--max-seconds", "600"]
        toy = cls.enterClassContext(
            cluster.running(web, cls.root / "toyweb.log", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        port = re.search(r":(\d+)/", toy.stdout.readline())[1]
        (cls.root / "seeds.txt").write_text(SEEDS.replace(":8080/", f":{port}/"))

    def documents(self):
        """Fingerprints of all documents, read without a group."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.env["ORBWEAVER_KAFKA__BROKERS"],
                "group.id": "none",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        topic = f"{self.prefix}.documents"
        partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        left = sum(consumer.get_watermark_offsets(partition, timeout=30)[1] for partition in partitions)
        consumer.assign(partitions)
        found = set()
        while left:
            records = consumer.consume(left, timeout=30)
            self.assertTrue(records, f"{left} documents are missing")
            found |= {json.loads(record.value())["fingerprint"] for record in records}
            left -= len(records)
        consumer.close()
        return found

    def test_the_commands_of_the_page_have_their_output_and_a_killed_consumer_loses_no_document(self):
        # Keeps the documents for the second part.
        page.run("orbweaver consumers add killed", self.root, self.env)
        commands = page.commands("On Kafka")
        self.assertGreaterEqual(len(commands), 7)
        for command, expected in commands:
            # The page has the default prefix.
            output = page.run(command, self.root, self.env).replace(f"{self.prefix}.", "crawl.")
            self.assertFalse(page.differs(expected, output), f"{command}\n{output}")
        documents = self.documents()
        self.assertEqual(written(self.root / "documents"), documents)
        directory = self.root / "killed"
        command = [sys.executable, page.PAGE.parent / "documents.py", "killed", directory]
        for files in (1, 101):
            with (self.root / "killed.log").open("a") as log, subprocess.Popen(command, env=self.env, stdout=log, stderr=log) as process:
                deadline = time.monotonic() + 60
                while len(written(directory)) < files and time.monotonic() < deadline:
                    time.sleep(0.01)
                process.kill()
            self.assertGreaterEqual(len(written(directory)), files, (self.root / "killed.log").read_text())
        subprocess.run([*command, "--idle", "5"], env=self.env, check=True, timeout=120)
        self.assertEqual(written(directory), documents)

    def test_the_brokers_have_the_topics_and_settings_of_the_asyncapi_document(self):
        admin = AdminClient({"bootstrap.servers": self.env["ORBWEAVER_KAFKA__BROKERS"]})
        channels = yaml.safe_load(asyncapi.PAGE.read_text())["channels"]
        described = {name.replace("crawl.", f"{self.prefix}.", 1): it["bindings"]["kafka"] for name, it in channels.items()}
        topics = {name for name in admin.list_topics(timeout=30).topics if name.startswith(f"{self.prefix}.")}
        self.assertEqual(topics, set(described))
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        for resource, future in admin.describe_configs(resources).items():
            settings = {key: entry.value for key, entry in future.result(timeout=30).items()}
            for key, value in described[resource.name]["topicConfiguration"].items():
                wanted = ",".join(value) if isinstance(value, list) else str(value)
                self.assertEqual(settings[key], wanted, f"{resource.name}: {key}")


if __name__ == "__main__":
    unittest.main()
