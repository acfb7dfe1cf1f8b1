"""The building blocks of a dashboard, as Grafana 11 stores them."""

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
# Of every selector: what the variables of the dashboard choose.
CHOSEN = 'service=~"$service",instance=~"$instance"'


def chosen(metric, more=""):
    """A selector of a metric, narrowed to what is chosen on the dashboard."""
    return f"{metric}{{{CHOSEN}{',' + more if more else ''}}}"


def rate(metric, by="", more=""):
    """The sum of the rates of a counter, by some labels."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({chosen(metric, more)}[$__rate_interval]))".replace("sum (", "sum(")


def quantile(share, metric, by="", more=""):
    """A quantile of a histogram, by some labels."""
    labels = f"{by}, le" if by else "le"
    selector = chosen(metric + "_bucket", more)
    return f"histogram_quantile({share}, sum by ({labels}) (rate({selector}[$__rate_interval])))"


def time_series(title, targets, unit, description, width=8, height=8, stacked=False):
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
        "gridPos": {"w": width, "h": height},
    }


def stat(title, expression, unit, description, worry=None, words=None, width=4, height=4):
    """One number. `worry` are the values from which it turns yellow and red, or None; `words` say numbers otherwise."""
    steps = [{"color": "green", "value": None}]
    if worry:
        steps += [{"color": color, "value": value} for color, value in zip(("yellow", "red"), worry)]
    mappings = []
    if words:
        options = {str(number): {"text": text, "color": color, "index": number} for number, (text, color) in words.items()}
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
        "gridPos": {"w": width, "h": height},
    }


def dashboard(uid, title, description, rows):
    """A dashboard of rows: pairs of a title and panels, which are laid out from left to right."""
    panels, y, number = [], 0, 0
    for row_title, row in rows:
        number += 1
        panels.append(
            {
                "type": "row",
                "id": number,
                "title": row_title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1},
            }
        )
        y, x, line = y + 1, 0, 0
        for panel in row:
            number += 1
            grid = panel["gridPos"]
            if x + grid["w"] > COLUMNS:
                y, x, line = y + line, 0, 0
            panels.append({"id": number} | panel | {"gridPos": {"x": x, "y": y} | grid})
            x, line = x + grid["w"], max(line, grid["h"])
        y += line
    return {
        "uid": uid,
        "title": title,
        "description": description,
        "tags": ["orbweaver"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "browser",
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "links": [],
        "annotations": {"list": [_restarts()]},
        "templating": {"list": [_datasource(), _variable("service", "Service"), _variable("instance", "Instance")]},
        "panels": panels,
    }


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


def _datasource():
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "regex": "",
        "hide": 0,
        "includeAll": False,
        "multi": False,
        "options": [],
        "refresh": 1,
        "current": {},
    }


def _variable(name, label):
    among = ',service=~"$service"' if name == "instance" else ""
    query = f'label_values(up{{service!=""{among}}}, {name})'
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "variable"},
        "regex": "",
        "hide": 0,
        "includeAll": True,
        "allValue": ".+",
        "multi": True,
        "options": [],
        "refresh": 2,
        "sort": 1,
        "current": {"text": ["All"], "value": ["$__all"], "selected": True},
    }


def _restarts():
    return {
        "name": "Starts of processes",
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "blue",
        "expr": f"changes({chosen('process_start_time_seconds')}[$__rate_interval]) > 0",
        "titleFormat": "{{service}} started",
        "textFormat": "{{instance}}",
        "step": "15s",
    }
