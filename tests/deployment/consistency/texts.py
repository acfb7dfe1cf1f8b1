"""Texts and comments: what they name has to exist, too."""

import re
from pathlib import Path

import yaml

from .chart import CHART
from .facts import Facts
from .findings import Finding, variables

FILES = ("Dockerfile", "docker-compose.yml", "docs/deployment.md", "charts/**/*.md", "charts/**/*.yaml", "charts/**/*.tpl", "charts/**/*.txt", "k8s/**/*.md", "k8s/**/*.yaml")


def check_text(where: str, text: str, facts: Facts, values: frozenset[str] = frozenset()) -> list[Finding]:
    """All findings in one text. A value of the chart, such as `kafka.protocol`, may look like a key."""
    names = {name for name in re.findall(r"\bORBWEAVER_\w+", text) if "__" in name}
    found = variables(where, names, facts)
    for topic in sorted(set(re.findall(r"\bcrawl\.[a-z][a-z-]*[a-z]", text)) - facts.topics):
        found.append(Finding(where, f"names the topic {topic}, which there is not"))
    sections = {key.path.partition(".")[0] for key in facts.keys}
    for section, name in sorted(set(re.findall(r"(?<![\w./-])([a-z_]+)\.([a-z_]+)(?![\w.(/-])", text))):
        if section in sections - {"log"} and f"{section}.{name}" not in values and facts.key(f"{section}.{name}") is None:
            found.append(Finding(where, f"names the key {section}.{name}, which there is not"))
    return found


def check(root: Path, facts: Facts) -> list[Finding]:
    """All findings in the texts of the deployment."""
    files = sorted({file for pattern in FILES for file in root.glob(pattern)})
    document = yaml.safe_load((root / CHART / "values.yaml").read_text())
    values = frozenset(f"{section}.{name}" for section, inner in document.items() if isinstance(inner, dict) for name in inner)
    return [finding for file in files for finding in check_text(str(file.relative_to(root)), file.read_text(), facts, values)]
