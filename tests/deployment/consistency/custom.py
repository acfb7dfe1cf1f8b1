"""Objects of the Prometheus Operator, against the schemas in its CustomResourceDefinitions."""

from pathlib import Path

import jsonschema
import yaml

from .findings import Finding

GROUP = "monitoring.coreos.com/"


class Loader(yaml.SafeLoader):
    """YAML in which a bare `=` is text, as an enumeration of operators has it."""


Loader.add_constructor("tag:yaml.org,2002:value", lambda loader, node: loader.construct_scalar(node))


def schemas(directory: Path) -> dict[tuple[str, str], dict]:
    """The schemas by API version and kind."""
    found = {}
    for file in sorted(directory.glob("*.yaml")):
        document = yaml.load(file.read_text(), Loader)
        for version in document["spec"]["versions"]:
            key = (f"{document['spec']['group']}/{version['name']}", document["spec"]["names"]["kind"])
            found[key] = strict(version["schema"]["openAPIV3Schema"])
    return found


def strict(schema):
    """The schema without unknown fields, which an API server would remove."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: strict(part) for name, part in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        if "additionalProperties" not in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            result["additionalProperties"] = False
    return result


def check(where: str, objects: list[dict], known: dict) -> list[Finding]:
    """All findings in the objects of the operator."""
    found = []
    for o in objects:
        if not o["apiVersion"].startswith(GROUP):
            continue
        here = f"{where}: {o['kind']} {o['metadata']['name']}"
        schema = known.get((o["apiVersion"], o["kind"]))
        if schema is None:
            found.append(Finding(here, f"has no schema: known are {', '.join(sorted(kind for _, kind in known))}"))
            continue
        # The API server has the schema of metadata.
        body = {name: part for name, part in o.items() if name != "metadata"}
        for error in jsonschema.Draft202012Validator(schema).iter_errors(body):
            found.append(Finding(here, f"{error.json_path}: {error.message[:300]}"))
    return found
