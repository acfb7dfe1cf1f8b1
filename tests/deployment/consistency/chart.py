"""charts/orbweaver: its generated parts, and its agreement with the code."""

import json
import re
from ipaddress import ip_network
from pathlib import Path

import yaml

from .facts import Facts, some
from .findings import Finding

CHART = Path("charts/orbweaver")
# Settings that the chart sets from values of its own, or that depend on its templates.
OWN = frozenset(
    {
        "archiver.directory",
        "cql.consistency",
        "cql.datacenter",
        "cql.nodes",
        "cql.replication_factor",
        "cql.tls",
        "cql.tls_ca",
        "cql.tls_certificate",
        "cql.tls_key",
        "cql.tls_name",
        "cql.username",
        "extractor.threads",
        "fetcher.tls_ca",
        "http.listen",
        "kafka.brokers",
        "kafka.instance_id",
        "runtime.worker_threads",
        "state.dir",
        "urlstore.listen",
    }
)
# Names below a key with a star, as settings of the chart have them.
STAR = r"[A-Za-z0-9_.-]+$"
TABLE = re.compile(r"(<!-- values -->\n).*?(<!-- /values -->)", re.DOTALL)


def settings(facts: Facts, service: str | None) -> dict:
    """The schema of `settings`: of one service the keys that it reads, of all services all keys."""
    keys = [key for key in facts.keys if service is None or service in key.services]
    keys = [key.path for key in keys if key.path not in OWN and key.secret != "kind"]
    unknown = OWN - {key.path for key in facts.keys}
    if unknown:
        raise ValueError(f"the chart sets {', '.join(sorted(unknown))}, which there is not")
    setting = {"$ref": "#/$defs/setting"}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {path: setting for path in sorted(keys) if not path.endswith("*")},
        "patternProperties": {f"^{re.escape(path[:-1])}{STAR}": setting for path in sorted(keys) if path.endswith("*")},
    }


def schema(text: str, facts: Facts) -> str:
    """The schema of the values, with the settings of the code."""
    document = json.loads(text)
    defined = {"settings": settings(facts, None)}
    defined |= {f"settings-{name}": settings(facts, name) for name in sorted(facts.services)}
    document["$defs"] = {name: value for name, value in document["$defs"].items() if not name.startswith("settings")} | defined
    return json.dumps(document, indent=2) + "\n"


def entries(text: str) -> list[tuple[str, str, str]]:
    """The values: path, default and comment. A value without a comment of its own is part of the one above."""
    found: list[tuple[str, str, str]] = []
    above: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        indent, content = len(line) - len(line.lstrip()), line.strip()
        if content.startswith("#"):
            comment.append(content.removeprefix("#").strip())
        elif not content:
            comment = []
        elif match := re.match(r"([\w.-]+):(?:\s+(.*))?$", content):
            above = [entry for entry in above if entry[0] < indent]
            above.append((indent, match[1]))
            found.append((".".join(name for _, name in above), match[2] or "", " ".join(comment)))
            comment = []
    return found


def documented(text: str) -> list[Finding]:
    """Every value has a comment. Values below a commented one have comments, or all of them none: they are one value."""
    comments = {path: comment for path, _, comment in entries(text)}
    found = []
    for path, comment in comments.items():
        parent = path.rpartition(".")[0]
        above = [other for other in comments if path.startswith(f"{other}.") and comments[other]]
        is_part = above and not any(below(comments, other) for other in above[-1:])
        if not comment and not below(comments, path) and not is_part:
            found.append(Finding("values.yaml", f"{path} has no comment"))
        elif not comment and parent and comments[parent] and below(comments, parent):
            found.append(Finding("values.yaml", f"{path} has no comment, unlike its neighbours"))
    return found


def below(comments: dict[str, str], path: str) -> bool:
    """Whether a value has values with comments below."""
    return any(other.startswith(f"{path}.") and comment for other, comment in comments.items())


def table(text: str) -> str:
    """The values as a table of Markdown, without those that have values with comments below."""
    rows = ["| value | default | meaning |", "|---|---|---|"]
    document = yaml.safe_load(text)
    comments = {path: comment for path, _, comment in entries(text)}
    for path, comment in comments.items():
        if comment and not below(comments, path):
            value = entry(document, path)
            default = json.dumps(value) if isinstance(value, (dict, list, bool)) else str(value)
            rows.append(f"| `{path}` | {f'`{default}`' if default else ''} | {comment.replace('|', chr(92) + '|')} |")
    return "\n".join(rows) + "\n"


def entry(document, path: str):
    """The value at a path; names of services contain no dot."""
    for name in path.split("."):
        document = document[name]
    return document


def readme(text: str, values: str) -> str:
    """The README, with the table of the values."""
    return TABLE.sub(lambda found: f"{found[1]}\n{table(values)}\n{found[2]}", text)


def generated(root: Path, facts: Facts) -> dict[Path, str]:
    """The files of the chart that are generated in part, as they have to be."""
    chart = root / CHART
    values = (chart / "values.yaml").read_text()
    return {
        chart / "values.schema.json": schema((chart / "values.schema.json").read_text(), facts),
        chart / "README.md": readme((chart / "README.md").read_text(), values),
    }


def refused(source: str) -> set:
    """The networks that the fetcher refuses, from `address.rs`."""
    blocks = re.findall(r"\(Ipv4Addr::new\((\d+), (\d+), (\d+), (\d+)\), (\d+), ", source)
    found = {ip_network(f"{a}.{b}.{c}.{d}/{length}") for a, b, c, d, length in blocks}
    table_v6 = re.search(r"REFUSED_V6[^=]*= \[(.*?)\];", source, re.DOTALL)
    for groups, length in re.findall(r"\(Ipv6Addr::new\(([^)]*)\), (\d+), ", table_v6[1] if table_v6 else ""):
        words = [int(group, 0) for group in groups.split(",")]
        found.add(ip_network((sum(word << (112 - 16 * n) for n, word in enumerate(words)), int(length))))
    return some(found if table_v6 else set(), "refused networks")


def agreement(root: Path, facts: Facts) -> list[Finding]:
    """Facts that are written twice are the same."""
    chart, found = root / CHART, []
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    for name in ("version", "appVersion"):
        if about[name] != facts.version:
            found.append(Finding("Chart.yaml", f"{name} is {about[name]}, the workspace has {facts.version}"))
    policies = (chart / "templates/network-policies.yaml").read_text()
    written = {ip_network(network) for network in re.findall(r"^ +- ([0-9a-f.:]+/\d+)$", policies, re.MULTILINE)}
    for network in sorted(written ^ refused((root / "services/fetcher/src/address.rs").read_text()), key=str):
        found.append(Finding("network-policies.yaml", f"{network} is not refused by both the fetcher and the policy"))
    validate = re.search(r"\$secrets := list ([^}]*)\}\}", (chart / "templates/_validate.tpl").read_text())
    if set(re.findall(r'"([^"]+)"', validate[1] if validate else "")) != facts.secret_names:
        found.append(Finding("_validate.tpl", f"its names of secrets are not {', '.join(sorted(facts.secret_names))}"))
    for link, target in (("rules", "monitoring/prometheus/rules"), ("dashboards", "monitoring/grafana/dashboards")):
        if (chart / "files" / link).resolve() != (root / target).resolve():
            found.append(Finding("files", f"{link} is no link to {target}"))
    return found


def check(root: Path, facts: Facts) -> list[Finding]:
    """All findings."""
    found = documented((root / CHART / "values.yaml").read_text()) + agreement(root, facts)
    for file, text in generated(root, facts).items():
        if file.read_text() != text:
            found.append(Finding(file.name, "is not up to date: ORBWEAVER_WRITE_DOCS=1 tests/deployment/check writes it"))
    return found
