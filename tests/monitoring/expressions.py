"""Every expression of the dashboards and of the rules, with where it stands."""

import json

import rules

DASHBOARDS = rules.ROOT / "monitoring/grafana/dashboards"
# What Grafana puts in for "All", and for a window: here one that fits a scrape a second.
VARIABLES = {"$service": ".+", "$instance": ".+", "$__rate_interval": "10s"}


def dashboards():
    return {path.name: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def _filled(expression):
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression


def of_dashboards():
    """Pairs of a name and an expression."""
    found = []
    for name, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                found.append((f"{name}: {panel['title']} {target['refId']}", _filled(target["expr"])))
        for annotation in dashboard["annotations"]["list"]:
            found.append((f"{name}: {annotation['name']}", _filled(annotation["expr"])))
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                inside = variable["definition"].removeprefix("label_values(").removesuffix(")")
                selector, _, label = inside.rpartition(", ")
                found.append((f"{name}: variable {variable['name']}", f"group by ({label}) ({_filled(selector)})"))
    return found


def of_rules():
    return [(f"{rule.path.name}: {rule.name}", rule.expr) for rule in rules.all_rules()]


def everything():
    return of_dashboards() + of_rules()
