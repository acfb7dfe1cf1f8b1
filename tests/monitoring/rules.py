"""Reads the rule files of monitoring/prometheus/rules.

They are YAML, of which the standard library of Python knows nothing; what is read here is the small part of it in which
they are written, and anything else is an error. promtool checks them as YAML.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "monitoring/prometheus/rules"


@dataclass
class Rule:
    kind: str  # "alert" or "record"
    name: str
    group: str
    path: Path
    expr: str = ""
    wait: str = ""
    labels: dict = field(default_factory=dict)
    annotations: dict = field(default_factory=dict)


def read(path):
    """All rules of a file, in order."""
    rules, group, block, section = [], None, None, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        text, indent = line.strip(), len(line) - len(line.lstrip())
        if not text or (text.startswith("#") and block is None):
            continue
        if block is not None and indent > block:
            if section:
                rules[-1].annotations[section] = (rules[-1].annotations[section] + " " + text).strip()
            else:
                rules[-1].expr = (rules[-1].expr + "\n" + text).strip()
            continue
        block, section = None, None
        key, _, value = text.removeprefix("- ").partition(": ")
        key, value = key.rstrip(":"), value.strip()
        if text in ("groups:", "rules:", "annotations:"):
            continue
        if text.startswith("- name: "):
            group = value
        elif text.startswith(("- alert: ", "- record: ")):
            rules.append(Rule(key, value, group, path))
        elif key == "expr":
            rules[-1].expr, block = ("", indent) if value == "|" else (value, None)
        elif key == "for":
            rules[-1].wait = value
        elif key == "labels":
            rules[-1].labels = dict(re.findall(r"(\w+): ([\w-]+)", value))
        elif key in ("summary", "description", "runbook_url"):
            folded = value == ">-"
            rules[-1].annotations[key] = "" if folded else value.strip("\"'")
            block, section = (indent, key) if folded else (None, None)
        else:
            raise ValueError(f"{path}:{number}: not understood: {text}")
    return rules


def all_rules():
    return [rule for path in sorted(FOLDER.glob("*.yml")) for rule in read(path)]


def alerts():
    return [rule for rule in all_rules() if rule.kind == "alert"]
