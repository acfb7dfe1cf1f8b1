"""The examples that need no Kafka, on a real crawl."""

import json
import os
import sqlite3
import sys
import tempfile
import unittest
from contextlib import closing
from pathlib import Path

import page

sys.path.insert(0, str(page.PAGE.parent))
import search

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "orbweaver"
BINARIES = Path(os.environ.get("ORBWEAVER_BIN_DIR") or Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target")) / "debug")


class OnTheResultsOfACrawl(unittest.TestCase):
    def test_every_command_of_the_page_has_the_output_that_the_page_shows(self):
        with tempfile.TemporaryDirectory() as directory:
            commands = page.commands("On the results of a crawl")
            self.assertGreaterEqual(len(commands), 9)
            for command, expected in commands:
                output = page.run(command, Path(directory), page.environment(BINARIES))
                self.assertFalse(page.differs(expected, output), f"{command}\n{output}")

    def test_another_output_than_that_of_the_page_is_found(self):
        self.assertFalse(page.differs("a ... c\n", "a b c\n"))
        self.assertTrue(page.differs("202 pages\n", "201 pages\n"))
        with self.assertRaises(AssertionError):
            page.run("echo before; false | cat", Path(tempfile.gettempdir()), page.environment(BINARIES))


class Search(unittest.TestCase):
    def test_a_later_visit_replaces_an_earlier_one_and_never_the_other_way_round(self):
        def document(visit, text):
            time = f"2026-01-0{visit + 1}T00:00:00Z"
            return json.dumps({"fingerprint": "f", "visit": visit, "fetched_at": time, "url": "u", "title": "t", "text": text})

        def found(database, word):
            return database.execute(search.FIND, (word,)).fetchall()

        first, second = document(0, "dragline"), document(1, "stabilimentum")
        for order in ([first, second, first], [second, second, first]):
            with closing(sqlite3.connect(":memory:")) as database:
                database.executescript(search.TABLES)
                for value in order:
                    search.store(database, [value])
                self.assertEqual((found(database, "dragline"), len(found(database, "stabilimentum"))), ([], 1))
                database.execute("INSERT INTO words (words) VALUES ('integrity-check')")


if __name__ == "__main__":
    unittest.main()
