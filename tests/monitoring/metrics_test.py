"""Every metric and every label in an expression exists in the code, and in what the processes really answer."""

import re
import unittest

import expressions
import promql
import replay
import rules

CONSTANT = re.compile(r'const [A-Z_]+: &str\s*=\s*"(orbweaver_[a-z0-9_]+)"')
# From the Prometheus client's own collector, and from Prometheus.
FOREIGN = {
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "up",
}
# Labels of targets, which every series has.
OF_TARGETS = {"service", "instance", "job"}


def constants():
    """The names of metrics in the sources, except of services without a program, whose metrics no process exposes."""
    packages = [*(rules.ROOT / "crates").iterdir()]
    packages += [service for service in (rules.ROOT / "services").iterdir() if (service / "src/main.rs").exists()]
    found = set()
    for package in packages:
        for path in package.glob("src/**/*.rs"):
            found.update(CONSTANT.findall(path.read_text()))
    return found


def without_suffix(metric, names):
    for suffix in ("_bucket", "_sum", "_count"):
        if metric.endswith(suffix) and metric.removesuffix(suffix) in names:
            return metric.removesuffix(suffix)
    return metric


def recorded():
    """By metric: its labels, and by label the values that occur."""
    found = {}
    for path in sorted(replay.FOLDER.glob("*.prom")):
        for name, labels, _, _ in replay.families(path.read_text()):
            values = found.setdefault(name, {})
            for label, value in labels.items():
                values.setdefault(label, set()).add(value)
    return found


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.constants, cls.recorded = constants(), recorded()
        cls.records = {rule.name for rule in rules.all_rules() if rule.kind == "record"}
        cls.selectors = [
            (where, metric, matchers)
            for where, expression in expressions.everything()
            for metric, matchers in promql.selectors(expression)
        ]

    def test_every_metric_of_an_expression_is_a_constant_of_the_code(self):
        self.assertGreater(len(self.constants), 50)
        known = self.constants | self.records | FOREIGN
        unknown = {metric for _, metric, _ in self.selectors if without_suffix(metric, known) not in known}
        self.assertEqual(unknown, set())

    def test_every_constant_is_in_the_recorded_expositions(self):
        shown = {without_suffix(name, self.constants) for name in self.recorded}
        self.assertEqual(self.constants - shown, set(), "record again: tests/monitoring/live --record")

    def test_every_label_that_is_matched_or_grouped_by_exists_with_such_a_value(self):
        for where, metric, matchers in self.selectors:
            if metric in self.records or metric == "up":
                continue
            labels = self.recorded.get(metric)
            self.assertIsNotNone(labels, f"{where}: {metric} is not in the recorded expositions")
            for label, operator, value in matchers:
                if label in OF_TARGETS:
                    continue
                self.assertIn(label, labels, f"{where}: {metric} has no label {label}")
                if operator in ("=", "=~"):
                    matches = [one for one in labels[label] if re.fullmatch(value if operator == "=~" else re.escape(value), one)]
                    self.assertTrue(matches, f"{where}: no {metric} with {label}{operator}{value}")

    def test_every_label_that_is_grouped_by_is_one_of_some_metric_of_the_expression(self):
        for where, expression in expressions.everything():
            metrics = [metric for metric, _ in promql.selectors(expression)]
            if any(metric in self.records for metric in metrics):
                continue
            known = OF_TARGETS | {"le"} | {label for metric in metrics for label in self.recorded.get(metric, {})}
            self.assertLessEqual(promql.grouped(expression), known, where)

    def test_a_metric_that_does_not_exist_would_be_found(self):
        found = [metric for metric, _ in promql.selectors("sum(rate(orbweaver_no_such_total[5m]))")]
        self.assertNotIn(without_suffix(found[0], self.constants), self.constants)


if __name__ == "__main__":
    unittest.main()
