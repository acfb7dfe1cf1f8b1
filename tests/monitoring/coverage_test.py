"""Every metric is in a panel, or is left out for a reason."""

import unittest

import expressions
import metrics_docs
import metrics_test
import promql

# Metrics without a panel, and the reason.
LEFT_OUT = {
    "orbweaver_normalizer_dedup_rejected_records_total": "equals orbweaver_stage_rejected_total of that service, which is shown",
}


BY_PACKAGE = {package: set(metrics) for package, metrics in metrics_docs.constants().items()}
DOCUMENTED = set().union(*BY_PACKAGE.values())


def shown(found):
    """The metrics of expressions, histograms by their name in docs/metrics.md."""
    metrics = {metric for _, expression in found for metric, _ in promql.selectors(expression)}
    return {metrics_test.without_suffix(metric, DOCUMENTED) for metric in metrics}


class Coverage(unittest.TestCase):
    def setUp(self):
        self.shown = shown(expressions.of_dashboards())

    def test_every_documented_metric_has_a_panel_or_a_reason_to_have_none(self):
        self.assertGreater(len(DOCUMENTED), 100)
        self.assertEqual(DOCUMENTED - self.shown - LEFT_OUT.keys(), set(), "add a panel below monitoring/grafana/panels")

    def test_what_is_left_out_exists_and_has_no_panel(self):
        self.assertLessEqual(LEFT_OUT.keys(), DOCUMENTED)
        self.assertEqual(LEFT_OUT.keys() & self.shown, set())

    def test_every_service_has_its_metrics_on_its_own_dashboard_or_on_that_of_a_topic(self):
        dashboards = expressions.dashboards()
        for package in BY_PACKAGE.keys() - {"stage", "store", "process"}:
            names = [f"{package}.json", "crawl.json", "politeness.json"]
            found = shown([pair for name in names for pair in expressions.of_dashboard(name, dashboards[name])])
            self.assertEqual(BY_PACKAGE[package] - found - LEFT_OUT.keys(), set(), package)

    def test_a_metric_of_a_histogram_counts_as_shown(self):
        self.assertEqual(shown([("x", "rate(orbweaver_stage_append_seconds_bucket[1m])")]), {"orbweaver_stage_append_seconds"})


if __name__ == "__main__":
    unittest.main()
