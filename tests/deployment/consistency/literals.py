"""Manifests and example configurations: a secret comes from a file or a Secret, and is never written there."""

import re
import tomllib
from pathlib import Path

import yaml

from .facts import Facts, path_of, some
from .findings import Finding

FILES = (
    "docker-compose*.y*ml",
    "*.env",
    "charts/*/*.y*ml",
    "charts/*/profiles/*.y*ml",
    "charts/*/*.md",
    "k8s/**/*.y*ml",
    "k8s/**/*.env",
    "k8s/**/*.toml",
    "monitoring/**/*.y*ml",
    "README.md",
    "docs/*.md",
    "docs/handbook/src/**/*.md",
    "k8s/**/*.md",
    "crates/process/README.md",
    "services/*/README.md",
)
# `ORBWEAVER_CQL__PASSWORD=x`, `cql.password=x`, `sasl.password=x`: in a list of variables, an argument or a file.
ASSIGNMENT = re.compile(r"(?:(?<=-X)|(?<![\w.$]))(ORBWEAVER_\w+|[a-z_]+(?:\.[\w-]+)+)\s*=\s*[\"']?([^\s\"']+)")


def check(root: Path, facts: Facts) -> list[Finding]:
    """All findings in the files of the deployment and in the examples of its texts."""
    files = some(sorted({file for pattern in FILES for file in root.glob(pattern)}), "manifests")
    return [finding for file in files for finding in check_text(str(file.relative_to(root)), file.read_text(), facts)]


def check_text(where: str, text: str, facts: Facts) -> list[Finding]:
    """All findings in one file; of a Markdown page only its examples are read."""
    parts = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if where.endswith(".md") else [text]
    documents = list(yaml.safe_load_all(text)) if re.search(r"\.ya?ml$", where) else parts
    return check_documents(where, documents, facts)


def check_documents(where: str, documents: list, facts: Facts) -> list[Finding]:
    """All findings in documents that were read from YAML, each once."""
    return list(dict.fromkeys(finding for document in documents for finding in value_of(where, document, facts)))


def path_in(name: str, facts: Facts) -> str | None:
    """The key that is meant by a variable, a key, or a property of librdkafka."""
    if name.startswith("ORBWEAVER_"):
        return path_of(name)
    if not re.fullmatch(r"\w+(\.[\w-]+)+", name):
        return None
    return name if any(key.path.startswith(name.partition(".")[0] + ".") for key in facts.keys) else f"kafka.properties.{name}"


def assigned(where: str, name: str, value, facts: Facts) -> list[Finding]:
    """A variable or key with this value. The finding does not repeat the value."""
    path = path_in(name, facts)
    if value in (None, "") or isinstance(value, (dict, list)) or path is None or not facts.is_secret(path):
        return []
    if not name.startswith("ORBWEAVER_") or not name.endswith("_FILE"):
        return [Finding(where, f"{name} is a secret, and its value is written here: name a file with {name.removesuffix('_FILE')}_FILE, or a Secret")]
    return [] if str(value).startswith("/") else [Finding(where, f"{name} is not the absolute path of a file")]


def value_of(where: str, value, facts: Facts) -> list[Finding]:
    """All findings in a part of a document."""
    if isinstance(value, dict):
        return mapping(where, value, facts) + [finding for inner in value.values() for finding in value_of(where, inner, facts)]
    if isinstance(value, list):
        return [finding for inner in value for finding in value_of(where, inner, facts)]
    return text_in(where, value, facts) if isinstance(value, str) else []


def mapping(where: str, value: dict, facts: Facts) -> list[Finding]:
    """The findings in a mapping itself: variables as keys, entries of `env`, operations of a patch, Secrets."""
    found = [finding for key, inner in value.items() for finding in assigned(where, str(key), inner, facts)]
    name, source = str(value.get("name", "")), value.get("valueFrom")
    found += assigned(where, name, value.get("value"), facts)
    # A variable with the path of a file may come from elsewhere.
    if isinstance(source, dict) and "secretKeyRef" not in source and not name.endswith("_FILE") and facts.is_secret(path_in(name, facts) or ""):
        found.append(Finding(where, f"{name} is a secret, and does not come from a Secret"))
    if "op" in value:
        found += assigned(where, str(value.get("path", "")).rpartition("/")[2], value.get("value"), facts)
    if value.get("kind") == "Secret" and (value.get("data") or value.get("stringData")):
        found.append(Finding(where, "a Secret has its values in the manifest"))
    if value.get("secretGenerator"):
        found.append(Finding(where, "secretGenerator makes a Secret of what is in the manifest or next to it"))
    return found


def text_in(where: str, text: str, facts: Facts) -> list[Finding]:
    """The findings in a text: assignments, and what it is as TOML or YAML, as in a ConfigMap or a patch."""
    found = [finding for name, value in ASSIGNMENT.findall(text) for finding in assigned(where, name, value, facts)]
    if "\n" not in text:
        return found
    try:
        found += [finding for path, value in settings(tomllib.loads(text)) for finding in assigned(where, path, value, facts)]
    except tomllib.TOMLDecodeError:
        pass
    try:
        inner = [document for document in yaml.safe_load_all(text) if isinstance(document, (dict, list))]
    except yaml.YAMLError:
        inner = []
    return found + [finding for document in inner for finding in value_of(where, document, facts)]


def settings(table: dict, above: str = ""):
    """The keys of a configuration file with their values."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from settings(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
