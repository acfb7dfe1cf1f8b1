"""Planted faults in the chart and in objects of the Prometheus Operator, as in agreement_test.py."""

import tempfile
import unittest
from pathlib import Path

from agreement_test import FACTS, SERVICES, Planted

from consistency import chart, custom, monitoring
from consistency.facts import Facts, Key, Unreadable


class Chart(Planted):
    VALUES = """\
# Text at the top.

# A section.
first:
  # Meaning of a; with | in it.
  a: ""
  # A value of several lines.
  b:
    x: { y: 1 }
    z: 2
second:
  # A list.
  c:
    - d: 1
"""

    def test_every_value_has_a_comment(self):
        def found(old, new):
            return [str(finding) for finding in chart.documented(self.VALUES.replace(old, new))]

        self.assertEqual(found("", ""), [])
        self.assertEqual(found("  # Meaning of a; with | in it.\n", ""), ["values.yaml: first.a has no comment"])
        self.assertEqual(found("  # A list.\n", ""), [f"values.yaml: {path} has no comment" for path in ("second", "second.c")])
        self.assertEqual(found("    z: 2", "    # Two.\n    z: 2"), ["values.yaml: first.b.x has no comment"])

    def test_the_table_has_values_with_their_defaults(self):
        rows = chart.table(self.VALUES).splitlines()[2:]
        self.assertEqual(
            rows,
            [
                "| `first.a` |  | Meaning of a; with \\| in it. |",
                '| `first.b` | `{"x": {"y": 1}, "z": 2}` | A value of several lines. |',
                '| `second.c` | `[{"d": 1}]` | A list. |',
            ],
        )

    def test_settings_are_the_keys_that_a_service_reads_without_secrets_and_those_of_the_chart(self):
        keys = [*FACTS.keys, *(Key(path, None, False, SERVICES) for path in chart.OWN if FACTS.key(path) is None)]
        known = Facts(**{**FACTS.__dict__, "keys": keys})
        names = set(chart.settings(known, "fetcher")["properties"])
        self.assertEqual(names, {"runtime.shutdown_budget", "runtime.drain_budget"})
        stars = chart.settings(known, None)["patternProperties"]
        self.assertEqual(len(stars), 2)
        with self.assertRaises(ValueError):
            chart.settings(FACTS, None)

    def test_refused_networks_are_read_from_the_code(self):
        source = (
            '    (Ipv4Addr::new(10, 0, 0, 0), 8, "private"),\n'
            'const REFUSED_V6: [BlockV6; 1] = [\n    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),\n];\n'
            'const X: BlockV6 = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3, "all");\n'
        )
        self.assertEqual({str(network) for network in chart.refused(source)}, {"10.0.0.0/8", "2001:db8::/32"})
        with self.assertRaises(Unreadable):
            chart.refused("")


class Operator(Planted):
    KNOWN = {
        (f"{custom.GROUP}v1", "ServiceMonitor"): custom.strict(
            {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "spec": {
                        "type": "object",
                        "properties": {
                            "interval": {"type": "string", "pattern": "^[0-9]+s$"},
                            "port": {"x-kubernetes-int-or-string": True, "type": "string"},
                            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                        },
                    },
                },
            }
        )
    }

    def test_objects_satisfy_the_definitions(self):
        good = {
            "apiVersion": f"{custom.GROUP}v1",
            "kind": "ServiceMonitor",
            "metadata": {"name": "x"},
            "spec": {"interval": "15s", "port": 1, "labels": {"a": "b"}},
        }
        self.each(
            good,
            lambda o: custom.check("o", [o, {"apiVersion": "v1", "kind": "Service"}], self.KNOWN),
            [
                (lambda o: o["spec"].__setitem__("intervall", "15s"), "'intervall' was unexpected"),
                (lambda o: o["spec"].__setitem__("interval", "often"), "does not match"),
                (lambda o: o["spec"]["labels"].__setitem__("a", 1), "is not of type 'string'"),
                (lambda o: o.pop("spec") and None, "required property"),
                (lambda o: o.__setitem__("kind", "PodMonitor"), "has no schema"),
            ],
        )

    def test_rules_and_dashboards_are_those_of_the_repository(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("prometheus/rules/crawl.yml", "groups: []\n"), ("grafana/dashboards/one.json", '{"a": 1}\n')):
                file = Path(folder) / "monitoring" / name
                file.parent.mkdir(parents=True)
                file.write_text(text)
            good = [
                {"kind": "PrometheusRule", "metadata": {"name": "orbweaver-crawl"}, "spec": {"groups": []}},
                {"kind": "ConfigMap", "metadata": {"name": "d"}, "data": {"one.json": '{"a":1}'}},
            ]
            self.each(
                good,
                lambda objects: monitoring.copies("o", objects, Path(folder)),
                [
                    (lambda o: o.pop(0) and None, "the rules orbweaver-crawl"),
                    (lambda o: o[0]["spec"].__setitem__("groups", [1]), "the rules orbweaver-crawl"),
                    (lambda o: o[1]["data"].__setitem__("one.json", "{}"), "the dashboards one.json"),
                    (lambda o: o[1]["data"].__setitem__("two.json", "{}"), "the dashboards two.json"),
                ],
            )


if __name__ == "__main__":
    unittest.main()
