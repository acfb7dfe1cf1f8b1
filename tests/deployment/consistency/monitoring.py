"""monitoring/: where Prometheus looks, and what rules and dashboards ask for."""

import json
import re
from pathlib import Path

import yaml

from . import compose
from .facts import Facts
from .findings import Finding


def targets(config: dict) -> dict[str, set[tuple[str, int]]]:
    """The (host, port) of each job by metrics path."""
    result: dict[str, set[tuple[str, int]]] = {}
    for job in config.get("scrape_configs", []):
        found = result.setdefault(job.get("metrics_path", "/metrics"), set())
        for entry in job.get("dns_sd_configs", []):
            found |= {(name, entry["port"]) for name in entry["names"]}
        for entry in job.get("static_configs", []):
            found |= {(target.rpartition(":")[0], int(target.rpartition(":")[2])) for target in entry["targets"]}
    return result


def scrape(config: dict, document: dict, facts: Facts) -> list[Finding]:
    """Every service of the compose file is scraped where it listens, and at a path that it serves."""
    where, found, known = "prometheus.yml", [], targets(config)
    for path in known:
        if path not in facts.routes:
            found.append(Finding(where, f"asks for {path}; the services have {', '.join(sorted(facts.routes))}"))
    everywhere = set().union(*known.values())
    for name, service in document.get("services", {}).items():
        if facts.by_binary(compose.program(service.get("entrypoint")) or ""):
            port = int((compose.environment(service).get("ORBWEAVER_HTTP__LISTEN") or ":0").rpartition(":")[2])
            if (name, port) not in everywhere:
                found.append(Finding(where, f"does not scrape {name}:{port}"))
    for host, port in sorted(everywhere):
        if not host.startswith("127.") and host not in document.get("services", {}):
            found.append(Finding(where, f"scrapes {host}:{port}; docker-compose.yml has no {host}"))
    return found


def expressions(value) -> list[str]:
    """Every `expr` in rules or a dashboard."""
    if isinstance(value, dict):
        here = [value["expr"]] if isinstance(value.get("expr"), str) else []
        return here + [text for part in value.values() for text in expressions(part)]
    if isinstance(value, list):
        return [text for part in value for text in expressions(part)]
    return []


def metrics(where: str, value, facts: Facts) -> list[Finding]:
    """Every metric of ours that is asked for is one that the code has."""
    found = []
    for text in expressions(value):
        for name in re.findall(r"(?<![\w:])orbweaver_[a-z0-9_]+", text):
            if name not in facts.metrics and re.sub(r"_(bucket|sum|count)$", "", name) not in facts.metrics:
                found.append(Finding(where, f"asks for {name}, which no code has"))
    return sorted(set(found), key=str)


def check(root: Path, document: dict, facts: Facts) -> list[Finding]:
    """All findings."""
    folder = root / "monitoring"
    found = scrape(yaml.safe_load((folder / "prometheus/prometheus.yml").read_text()), document, facts)
    files = sorted(folder.glob("prometheus/rules/*.yml")) + sorted(folder.glob("grafana/dashboards/*.json"))
    if len({file.suffix for file in files}) < 2:
        return [*found, Finding("monitoring", "has no rules or no dashboard")]
    for file in files:
        value = json.loads(file.read_text()) if file.suffix == ".json" else yaml.safe_load(file.read_text())
        found += metrics(str(file.relative_to(root)), value, facts)
    mounted = [str(volume) for volume in document.get("services", {}).get("grafana", {}).get("volumes", [])]
    for provider in yaml.safe_load((folder / "grafana/provisioning/dashboards/orbweaver.yml").read_text())["providers"]:
        path = provider["options"]["path"]
        if not any(volume.split(":")[1] == path for volume in mounted):
            found.append(Finding("grafana", f"looks for dashboards in {path}, where nothing is mounted"))
    return found


def copies(where: str, objects: list[dict], root: Path) -> list[Finding]:
    """The rules and dashboards in objects of Kubernetes are all those of monitoring/, unchanged."""
    directory, found = root / "monitoring", []
    rules = {f"orbweaver-{file.stem}": yaml.safe_load(file.read_text()) for file in directory.glob("prometheus/rules/*.yml")}
    boards = {file.name: json.loads(file.read_text()) for file in directory.glob("grafana/dashboards/*.json")}
    made_rules = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "PrometheusRule"}
    made_boards = {
        name: json.loads(text) for o in objects if o["kind"] == "ConfigMap" for name, text in o["data"].items() if name.endswith(".json")
    }
    for what, wanted, made in (("rules", rules, made_rules), ("dashboards", boards, made_boards)):
        different = sorted(name for name in wanted.keys() | made.keys() if wanted.get(name) != made.get(name))
        found += [Finding(where, f"the {what} {name} are not those of monitoring/") for name in different]
    return found
