import unittest

import promql


class Reading(unittest.TestCase):
    def test_selectors_are_found_and_nothing_else(self):
        expression = (
            'histogram_quantile(0.99, sum by (service, le) (rate(a_bucket{kind=~"x|y",z!="("}[5m])))'
            " > bool 1 and on (service) sum(b) by (service) / ignoring (kind) group_left () scalar(c:d:e) offset 5m"
        )
        found = promql.selectors(expression)
        self.assertEqual(found, [("a_bucket", [("kind", "=~", "x|y"), ("z", "!=", "(")]), ("b", []), ("c:d:e", [])])
        self.assertEqual(promql.grouped(expression), {"service", "le", "kind"})

    def test_comparisons_become_numbers_outside_of_braces(self):
        self.assertEqual(promql.total('a{b!="c"} > 1 and d == bool 2'), 'a { b != "c" } > bool 1 and d == bool 2')


if __name__ == "__main__":
    unittest.main()
