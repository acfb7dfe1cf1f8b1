"""Panels, as Grafana 11 stores them. Position and size are those of the row in which a dashboard shows them."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
LINE_HEIGHT = 8
NUMBER_HEIGHT = 4


def time_series(title, targets, unit, description, stacked=False):
    """Lines over time; `targets` are pairs of expression and legend."""
    custom = {"lineWidth": 1, "fillOpacity": 20 if stacked else 8, "showPoints": "never", "spanNulls": False}
    if stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return {
        "type": "timeseries",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [_target(index, *target) for index, target in enumerate(targets)],
        "fieldConfig": {
            "defaults": {"unit": unit, "min": 0, "color": {"mode": "palette-classic"}, "custom": custom},
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def number(title, expression, unit, description, red_from=None, words=None):
    """One number, red from a value if one is given; `words` replace numbers by words with colours."""
    steps = [{"color": "green", "value": None}]
    if red_from is not None:
        steps.append({"color": "red", "value": red_from})
    mappings = []
    if words:
        options = {str(value): {"text": text, "color": color, "index": value} for value, (text, color) in words.items()}
        mappings = [{"type": "value", "options": options}]
    return {
        "type": "stat",
        "title": title,
        "description": description,
        "datasource": DATASOURCE,
        "targets": [_target(0, expression, "")],
        "fieldConfig": {
            "defaults": {"unit": unit, "mappings": mappings, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "none" if words else "area",
            "textMode": "value",
            "justifyMode": "auto",
            "orientation": "auto",
        },
    }


def each(label, more=""):
    """The legend of a line per value of a label."""
    return f"{{{{{label}}}}}{more}"


def linked(panel, name, title):
    """The panel with a link to a dashboard, for the same data source and time."""
    url = f"/d/orbweaver-{name}?var-datasource=${{datasource}}&${{__url_time_range}}"
    return panel | {"links": [{"title": title, "url": url, "targetBlank": False}]}


def _target(index, expression, legend):
    return {
        "refId": chr(ord("A") + index),
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expression,
        "legendFormat": legend,
        "range": True,
        "instant": False,
    }
