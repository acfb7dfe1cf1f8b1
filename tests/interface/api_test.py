"""The API of urlstore answers as its OpenAPI document says, whatever schemathesis requests of it, on a real crawl."""

import hashlib
import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import cluster

TOKEN = "secret"
REQUESTS = 100


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        orbweaver = cluster.binary("orbweaver")
        subprocess.run([orbweaver, "crawl", "--demo", "--warc", "--out", cls.root / "crawl"], check=True, capture_output=True, timeout=120)
        (cls.root / "token").write_text(hashlib.sha256(TOKEN.encode()).hexdigest())
        serve = [orbweaver, "serve", cls.root / "crawl", "--listen", "127.0.0.1:0", "--token-sha256", cls.root / "token"]
        serving = cluster.running(serve, cls.root / "serve.log", stdout=subprocess.PIPE, text=True)
        cls.address = re.search(r"http://\S+", cls.enterClassContext(serving).stdout.readline())[0]

    def requests(self, parameters):
        """Sends generated requests, with these values of parameters."""
        # In a directory of its own: findings of another run there would change what is generated.
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        config = directory / "schemathesis.toml"
        values = [f"{json.dumps(f'query.{name}')} = {json.dumps(values)}" for name, values in parameters.items()]
        config.write_text("\n".join(["[parameters]", *values]))
        command = ["schemathesis", "--config-file", config, "run", f"{self.address}/openapi.json", "-H", f"Authorization: Bearer {TOKEN}"]
        # The same requests each time. No schema can say which texts are URLs, so that valid requests may be refused.
        command += ["--seed", "1", "--max-examples", str(REQUESTS), "--phases", "examples,coverage,fuzzing"]
        command += ["--checks", "all", "--exclude-checks", "positive_data_acceptance"]
        ended = subprocess.run(command, cwd=directory, env={**os.environ, "NO_COLOR": "1"}, capture_output=True, text=True, timeout=240)
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        return int(re.search(r"(\d+) generated", ended.stdout)[1])

    def test_any_request_is_answered_as_described(self):
        self.assertGreater(self.requests({}), REQUESTS)

    def test_requests_for_known_urls_are_answered_as_described(self):
        urls = {line["outcome"]: line["url"] for line in map(json.loads, (self.root / "crawl/urls.jsonl").open())}
        self.assertEqual(set(urls), {"fetched", "redirected", "gone", "refused"})
        # A fetched one alone, too: few of the requests have a certain combination of values.
        for known in ([urls["fetched"]], list(urls.values())):
            self.assertGreater(self.requests({"url": known, "site": ["orb-weavers.localhost"]}), REQUESTS)


if __name__ == "__main__":
    unittest.main()
