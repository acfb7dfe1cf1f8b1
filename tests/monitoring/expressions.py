"""Every expression of the dashboards and of the rules, with its location."""

import json

import rules

DASHBOARDS = rules.ROOT / "monitoring/grafana/dashboards"
# Values that Grafana inserts for "All" and for a window, here one that fits a scrape per second. Recorded expositions and
# tests/monitoring/on_a_cluster have the crawl `default`.
VARIABLES = {"service": ".+", "instance": ".+", "crawl": "default", "__rate_interval": "10s"}


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def constants(dashboard):
    """The variables of a dashboard that are fixed, with their values."""
    return {one["name"]: one["query"] for one in dashboard["templating"]["list"] if one["type"] == "constant"}


def _filled(expression, dashboard):
    for variable, value in (VARIABLES | constants(dashboard)).items():
        expression = expression.replace(f"${variable}", value)
    return expression


def of_dashboard(name, dashboard):
    """Pairs of a name and an expression."""
    found = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            found.append((f"{name}: {panel['title']} {target['refId']}", target["expr"]))
    for annotation in dashboard["annotations"]["list"]:
        found.append((f"{name}: {annotation['name']}", annotation["expr"]))
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            inside = variable["definition"].removeprefix("label_values(").removesuffix(")")
            selector, _, label = inside.rpartition(", ")
            found.append((f"{name}: variable {variable['name']}", f"group by ({label}) ({selector})"))
    return [(where, _filled(expression, dashboard)) for where, expression in found]


def service_of(dashboard):
    """The service that a dashboard is about; None for one about all."""
    fixed = constants(dashboard).get("service", ".+")
    return None if fixed == ".+" else fixed.split("|")[0]


def of_dashboards(services=None):
    """Those of dashboards about all services, or about one of these."""
    chosen = [one for one in dashboards().items() if services is None or service_of(one[1]) in {None, *services}]
    return [pair for name, dashboard in chosen for pair in of_dashboard(name, dashboard)]


def of_rules():
    return [(f"{rule.path.name}: {rule.name}", rule.expr) for rule in rules.all_rules()]


def everything(services=None):
    return of_dashboards(services) + of_rules()
