"""The live test finds what is missing."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import replay

LIVE = Path(__file__).resolve().parent / "live"
TAKEN_AWAY = "orbweaver_stage_due_records"


class Live(unittest.TestCase):
    def test_a_metric_that_is_no_longer_there_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(replay.FOLDER, folder, dirs_exist_ok=True)
            for path in Path(folder).glob("*.prom"):
                path.write_text(re.sub(rf"(?m)^.*{TAKEN_AWAY}.*\n", "", path.read_text()))
            done = subprocess.run([LIVE, "--replay", folder, "--seconds", "30"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1, done.stderr)
        failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED: ")]
        self.assertTrue(failed)
        self.assertTrue(all(TAKEN_AWAY in line for line in failed), done.stdout)
        self.assertRegex(done.stdout, r"\d+ passed, \d+ failed\n$")

    def test_counters_rise_and_levels_do_not(self):
        text = "# TYPE a_total counter\na_total{x=\"y\"} 100\n# TYPE b gauge\nb 7\n"
        self.assertEqual(replay.raised(text, 0.5), "# TYPE a_total counter\na_total{x=\"y\"} 150.0\n# TYPE b gauge\nb 7\n")


if __name__ == "__main__":
    unittest.main()
