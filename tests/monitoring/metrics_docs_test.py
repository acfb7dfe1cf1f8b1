"""docs/metrics.md has the metrics of the code."""

import unittest

import metrics_docs
import metrics_test


class MetricsPage(unittest.TestCase):
    def test_the_page_is_what_the_code_says(self):
        self.assertEqual(metrics_docs.PAGE.read_text(), metrics_docs.page(), "write it again: python3 tests/monitoring/metrics_docs.py")

    def test_every_constant_is_documented(self):
        documented = {metric for metrics in metrics_docs.constants().values() for metric in metrics}
        self.assertEqual(metrics_test.constants() - documented, set())


if __name__ == "__main__":
    unittest.main()
