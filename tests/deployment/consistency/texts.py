"""Texts and comments: what they name has to exist, too."""

import re
from pathlib import Path

from .facts import Facts
from .findings import Finding, variables

FILES = ("Dockerfile", "docker-compose.yml", "docs/deployment.md", "k8s/**/*.md", "k8s/**/*.yaml")


def check_text(where: str, text: str, facts: Facts) -> list[Finding]:
    """All findings in one text."""
    names = {name for name in re.findall(r"\bORBWEAVER_\w+", text) if "__" in name}
    found = variables(where, names, facts)
    for topic in sorted(set(re.findall(r"\bcrawl\.[a-z][a-z-]*[a-z]", text)) - facts.topics):
        found.append(Finding(where, f"names the topic {topic}, which there is not"))
    sections = {key.path.partition(".")[0] for key in facts.keys}
    for section, name in sorted(set(re.findall(r"(?<![\w./-])([a-z_]+)\.([a-z_]+)(?![\w.(/-])", text))):
        if section in sections - {"log"} and facts.key(f"{section}.{name}") is None:
            found.append(Finding(where, f"names the key {section}.{name}, which there is not"))
    return found


def check(root: Path, facts: Facts) -> list[Finding]:
    """All findings in the texts of the deployment."""
    files = sorted({file for pattern in FILES for file in root.glob(pattern)})
    return [finding for file in files for finding in check_text(str(file.relative_to(root)), file.read_text(), facts)]
