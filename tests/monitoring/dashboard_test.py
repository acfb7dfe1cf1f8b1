"""The dashboards are what their generator makes, and what Grafana expects."""

import json
import re
import subprocess
import sys
import unittest

import expressions
import rules

BUILD = rules.ROOT / "monitoring/grafana/build.py"
PROVISIONING = rules.ROOT / "monitoring/grafana/provisioning"
# Ids of units that Grafana knows (packages/grafana-data/src/valueFormats/categories.ts), as far as they are used.
UNITS = {"short", "none", "reqps", "cps", "wps", "s", "bytes", "Bps", "percentunit", "bool_yes_no"}
COLUMNS = 24
# Grid rows of a screen of 1,080 pixels, below the head of Grafana.
SCREEN = 24


def overlaps(one, other):
    def apart(place, size):
        return one[place] + one[size] <= other[place] or other[place] + other[size] <= one[place]

    return not (apart("x", "w") or apart("y", "h"))


class Dashboards(unittest.TestCase):
    def setUp(self):
        self.dashboards = expressions.dashboards()
        self.assertTrue(self.dashboards)

    def panels(self):
        return [panel for dashboard in self.dashboards.values() for panel in dashboard["panels"]]

    def test_they_are_up_to_date(self):
        done = subprocess.run([sys.executable, "-B", BUILD, "--check"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_each_has_what_grafana_imports(self):
        for name, dashboard in self.dashboards.items():
            self.assertEqual(dashboard["uid"], f"orbweaver-{name.removesuffix('.json')}", "links contain it")
            self.assertRegex(dashboard["uid"], r"^[a-zA-Z0-9_-]{1,40}$", name)
            self.assertGreaterEqual(dashboard["schemaVersion"], 39, name)
            self.assertNotIn("id", dashboard, "an id belongs to one Grafana")
            variables = [one["name"] for one in dashboard["templating"]["list"]]
            self.assertEqual(variables[:1] + variables[-1:], ["datasource", "instance"], name)
            self.assertIn("service", variables, name)
            self.assertEqual("crawl" in variables, name == "crawl.json", name)

    def test_there_is_one_for_each_service_and_topic(self):
        services = {path.name for path in (rules.ROOT / "services").iterdir()} - {"orbweaver"}
        topics = {"overview", "services", "crawl", "politeness", "stores", "kafka"}
        self.assertEqual({name.removesuffix(".json") for name in self.dashboards}, services | topics)
        about = {name: expressions.service_of(dashboard) for name, dashboard in self.dashboards.items()}
        fixed = {name: service for name, service in about.items() if service}
        self.assertEqual(fixed, {f"{name}.json": name for name in services})

    def test_each_links_to_all_others_and_every_link_of_a_panel_leads_to_one(self):
        uids = {dashboard["uid"] for dashboard in self.dashboards.values()}
        for name, dashboard in self.dashboards.items():
            self.assertEqual(dashboard["tags"], ["orbweaver"], name)
            link = dashboard["links"][0]
            expected = {"type": "dashboards", "tags": ["orbweaver"], "keepTime": True, "includeVars": False}
            self.assertEqual({key: link[key] for key in expected}, expected, name)
            for panel in dashboard["panels"]:
                for to in panel.get("links", []):
                    self.assertIn(re.match(r"/d/([a-z-]+)\?var-datasource=\$\{datasource\}&", to["url"])[1], uids, panel["title"])

    def test_the_overview_is_one_screen(self):
        bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in self.dashboards["overview.json"]["panels"])
        self.assertLessEqual(bottom, SCREEN)

    def test_ids_are_unique_and_the_grid_has_no_overlap(self):
        for name, dashboard in self.dashboards.items():
            ids = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(ids), len(set(ids)), name)
            grids = [panel["gridPos"] for panel in dashboard["panels"]]
            for index, one in enumerate(grids):
                self.assertTrue(one["x"] >= 0 and one["y"] >= 0 and one["h"] >= 1, one)
                self.assertLessEqual(one["x"] + one["w"], COLUMNS, one)
                for other in grids[index + 1 :]:
                    self.assertFalse(overlaps(one, other), f"{name}: {one} {other}")

    def test_two_or_three_panels_fill_each_line_and_numbers_have_lines_of_their_own(self):
        for name, dashboard in self.dashboards.items():
            lines = {}
            for panel in dashboard["panels"]:
                lines.setdefault(panel["gridPos"]["y"], []).append(panel)
            for line in lines.values():
                kinds = {panel["type"] for panel in line}
                self.assertEqual(len(kinds), 1, name)
                self.assertEqual(sum(panel["gridPos"]["w"] for panel in line), COLUMNS, name)
                if kinds == {"timeseries"}:
                    self.assertIn(len(line), (2, 3), name)

    def test_panels_with_one_title_are_one_panel(self):
        found = {}
        for panel in self.panels():
            if panel["type"] != "row":
                same = (panel["type"], panel["description"], panel["fieldConfig"], len(panel["targets"]))
                self.assertEqual(found.setdefault(panel["title"], same), same, panel["title"])

    def test_no_dashboard_shows_a_panel_twice(self):
        for name, dashboard in self.dashboards.items():
            titles = [panel["title"] for panel in dashboard["panels"] if panel["type"] != "row"]
            self.assertEqual(len(titles), len(set(titles)), name)

    def test_an_overlap_would_be_found(self):
        one = {"x": 0, "y": 0, "w": 8, "h": 8}
        self.assertTrue(overlaps(one, {"x": 7, "y": 7, "w": 8, "h": 8}))
        self.assertFalse(overlaps(one, {"x": 8, "y": 0, "w": 8, "h": 8}))

    def test_every_panel_says_what_it_shows_in_which_unit_and_when_to_worry(self):
        for panel in self.panels():
            if panel["type"] == "row":
                continue
            title = panel["title"]
            self.assertIn(panel["type"], {"timeseries", "stat"}, title)
            self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS, title)
            self.assertGreater(len(panel["description"]), 30, title)
            if title != "Complete":
                self.assertRegex(panel["description"], r"[Ww]orry", title)
            refs = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(refs), len(set(refs)), title)
            for target in panel["targets"]:
                self.assertEqual(target["datasource"], {"type": "prometheus", "uid": "${datasource}"}, title)
                self.assertLessEqual(len(target["legendFormat"]), 40, title)
                if panel["type"] == "timeseries":
                    self.assertTrue(target["legendFormat"], title)

    def test_every_selector_is_narrowed_to_what_is_chosen(self):
        for panel in self.panels():
            for target in panel.get("targets", []):
                selectors = re.findall(r"\{[^}]*\}", target["expr"])
                self.assertTrue(selectors, panel["title"])
                for selector in selectors:
                    self.assertIn('service=~"$service",instance=~"$instance"', selector, panel["title"])

    def test_every_selector_of_one_crawl_is_narrowed_to_that_crawl(self):
        for panel in self.dashboards["crawl.json"]["panels"]:
            for target in panel.get("targets", []):
                for selector in re.findall(r"\{[^}]*\}", target["expr"]):
                    self.assertIn('crawl="$crawl"', selector, panel["title"])

    def test_a_legend_uses_labels_that_its_expression_keeps(self):
        for panel in self.panels():
            for target in panel.get("targets", []):
                by = re.match(r"^(?:histogram_quantile\([0-9.]+, )?(?:sum|max|min|count|avg) by \(([^)]*)\)", target["expr"])
                if by:
                    kept = {label.strip() for label in by.group(1).split(",")}
                    used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                    self.assertLessEqual(used, kept, panel["title"])

    def test_provisioning_names_files_that_are_there(self):
        self.assertIn("type: prometheus", (PROVISIONING / "datasources/prometheus.yml").read_text())
        self.assertIn("path: /var/lib/grafana/dashboards", (PROVISIONING / "dashboards/orbweaver.yml").read_text())

    def test_the_runbook_names_rows_and_panels_that_exist(self):
        titles = {name.removesuffix(".json"): {panel["title"] for panel in dashboard["panels"]} for name, dashboard in self.dashboards.items()}
        runbook = (rules.ROOT / "docs/runbook.md").read_text().partition("## Runbook of a cluster")[2]
        named = re.findall(r"(?<!\*)\*([^*\n]+)\*(?!\*)(?: \(`([a-z-]+)`\))?", runbook)
        self.assertGreater(len(named), 10)
        for title, name in named:
            self.assertIn(title, titles[name] if name else set().union(*titles.values()), name)

    def test_the_table_of_dashboards_has_each(self):
        page = (rules.ROOT / "monitoring/README.md").read_text()
        table = page.partition("| dashboard | shows | variables |\n")[2].partition("\n\n")[0]
        named = [name for line in table.splitlines()[1:] for name in re.findall(r"`([a-z-]+)`", line.split("|")[1])]
        self.assertEqual(sorted(f"{name}.json" for name in named), sorted(self.dashboards))

    def test_the_json_is_printed_as_the_generator_prints_it(self):
        for name in self.dashboards:
            text = (expressions.DASHBOARDS / name).read_text()
            self.assertEqual(text, json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    unittest.main()
