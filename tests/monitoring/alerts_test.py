"""Every alert fires on series that are planted for it, and on nothing else; on a healthy pipeline none does."""

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import plants
import rules

STEP = 15
# Rules are evaluated once in four steps, which is four times faster and finds the same.
EVALUATED = 60
MINUTES = 60


def samples(value):
    """A start and an increase a step, as promtool writes it: for as long as the test lasts."""
    start, increase = value if isinstance(value, tuple) else (value, 0)
    return f"{start}{'+' if increase >= 0 else '-'}{abs(increase)}x{MINUTES * 60 // STEP}"


def series(planted):
    """The healthy series, with what is planted instead; None takes a series away."""
    merged = {**plants.HEALTHY, **planted}
    return [
        {"series": name, "values": value if isinstance(value, str) else samples(value)}
        for name, value in merged.items()
        if value is not None
    ]


def run(tests):
    """Runs promtool on unit tests; its exit code and all that it says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tests.yml"
        files = [str(path) for path in sorted(rules.FOLDER.glob("*.yml"))]
        path.write_text(json.dumps({"rule_files": files, "evaluation_interval": f"{EVALUATED}s", "tests": tests}))
        done = subprocess.run(["promtool", "test", "rules", str(path)], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def case(name, planted, firing):
    return {
        "name": name,
        "interval": f"{STEP}s",
        "input_series": series(planted),
        "promql_expr_test": [
            {
                "expr": 'group by (alertname, severity) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{alert.name}", severity="{alert.labels["severity"]}"}}', "value": 1}
                    for alert in firing
                ],
            }
        ],
    }


class Alerts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.alerts = {alert.name: alert for alert in rules.alerts()}
        tests = []
        for name, (planted, others) in plants.PLANTS.items():
            test = case(name, planted, [cls.alerts[firing] for firing in [name, *others] if firing in cls.alerts])
            # Of the alert itself none is expected, so that promtool shows the ones that it has, with their texts.
            test["alert_rule_test"] = [{"eval_time": f"{MINUTES}m", "alertname": name, "exp_alerts": []}]
            tests.append(test)
        _, cls.said = run(tests)

    def test_every_alert_has_a_plant(self):
        self.assertEqual(sorted(self.alerts), sorted(plants.PLANTS))

    def test_a_healthy_pipeline_is_silent(self):
        code, said = run([case("healthy", {}, [])])
        self.assertEqual(code, 0, said)

    def test_a_plant_that_fires_nothing_is_noticed(self):
        code, said = run([case("nothing is planted", {}, [self.alerts["DeadLetters"]])])
        self.assertNotEqual(code, 0)
        self.assertIn("got: nil", said)

    def test_each_alert_fires_on_what_is_planted_for_it_and_no_other(self):
        self.assertEqual(set(re.findall(r"alertname: (\w+)", self.said)), set(self.alerts), self.said)
        self.assertNotIn("expr:", self.said, self.said)

    def test_every_alert_is_complete_and_its_texts_can_be_filled_in(self):
        for name, alert in self.alerts.items():
            self.assertTrue(alert.wait, name)
            self.assertIn(alert.labels.get("severity"), {"critical", "warning", "info"}, name)
            self.assertEqual(set(alert.annotations), {"summary", "description", "runbook_url"}, name)
        self.assertEqual(self.said.count("Annotations:{description="), self.said.count("Annotations:{"))
        self.assertNotRegex(self.said, r"error expanding|no value|%!")

    def test_every_runbook_url_leads_to_its_entry(self):
        runbook = (rules.ROOT / "docs/runbook.md").read_text()
        anchors = {title.strip().lower() for title in re.findall(r"^### (.*)$", runbook, re.M)}
        wanted = {alert.name.lower() for alert in self.alerts.values()}
        self.assertEqual(wanted, anchors, "an alert without an entry, or an entry without an alert")
        for alert in self.alerts.values():
            address = '{{ or $externalLabels.orbweaver_docs "docs" }}/runbook.md'
            self.assertEqual(alert.annotations["runbook_url"], f"{address}#{alert.name.lower()}")

    def test_runbook_urls_are_absolute_once_the_address_of_the_docs_is_configured(self):
        test = case("DiskFull", plants.PLANTS["DiskFull"][0], [self.alerts["DiskFull"]])
        test["alert_rule_test"] = [{"eval_time": f"{MINUTES}m", "alertname": "DiskFull", "exp_alerts": []}]
        for labels, address in [({}, "docs"), ({"orbweaver_docs": "https://wiki.example.org/crawler"}, "https://wiki.example.org/crawler")]:
            _, said = run([{**test, "external_labels": labels}])
            self.assertIn(f'runbook_url="{address}/runbook.md#diskfull"', said)


if __name__ == "__main__":
    unittest.main()
