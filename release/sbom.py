"""The bill of materials of a set of programs: CycloneDX 1.6 as JSON, the same bytes for the same programs."""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import archive
from checkout import Checkout
from dependencies import Dependencies, Package
from inside import Inner

LICENCE = "Apache-2.0"
STANDARD_LIBRARY = "MIT OR Apache-2.0"


def document(checkout: Checkout, name: str, target: str, files: Mapping[str, Path], materials: tuple[Dependencies, list[Inner], str]) -> str:
    """Returns the bill of a set as text. `materials` are the packages, the libraries inside them, and the version of the compiler."""
    dependencies, libraries, compiler = materials
    std = f"std@{compiler}"
    edges = {key: set(used) for key, used in dependencies.edges.items()}
    for inner in libraries:
        edges[inner.owner].add(inner.key)
        edges[inner.key] = set()
    edges |= {std: set(), name: {f"{program}@{checkout.version}" for program in files} | {std}}
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(checkout.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycles": [{"phase": "build"}],
            "tools": {"components": [{"type": "application", "name": "release/build", "version": checkout.version}]},
            "component": {
                **described("application", name, name, checkout.version, LICENCE),
                "components": [program(file, path) for file, path in sorted(files.items())],
            },
            "properties": properties({"target": target, "commit": checkout.commit}),
        },
        "components": [*map(package, dependencies.packages.values()), *map(library, libraries), standard(std, compiler)],
        "dependencies": [{"ref": key, "dependsOn": sorted(used)} for key, used in sorted(edges.items())],
    }
    text = json.dumps(bill, indent=2)
    bill = {"serialNumber": uuid.uuid5(uuid.NAMESPACE_OID, text).urn, **bill}
    return json.dumps(bill, indent=2) + "\n"


def described(kind: str, ref: str, name: str, version: str, licence: str) -> dict:
    """The part that each component has."""
    return {"type": kind, "bom-ref": ref, "name": name, "version": version, "licenses": [{"expression": licence}]}


def properties(values: Mapping[str, str]) -> list[dict]:
    """Values that the format has no field for."""
    return [{"name": f"orbweaver:{name}", "value": value} for name, value in values.items()]


def hashes(sha256: str) -> list[dict]:
    """One checksum."""
    return [{"alg": "SHA-256", "content": sha256}]


def program(name: str, path: Path) -> dict:
    """A program as it is packed."""
    return {"type": "application", "bom-ref": f"program:{name}", "name": name, "hashes": hashes(archive.sha256(path))}


def package(of: Package) -> dict:
    """A package. One that is needed only while others are built is `excluded`, in the words of the format: it is in no program."""
    component = {**described("library", of.key, of.name, of.version, of.licence), "scope": "required" if of.linked else "excluded"}
    if of.checksum:
        purl = f"pkg:cargo/{of.name}@{quote(of.version, safe='.-')}"
        component |= {"purl": purl, "hashes": hashes(of.checksum)}
    return component


def library(of: Inner) -> dict:
    """A library or data inside a package."""
    component = {**described(of.kind, of.key, of.name, of.version, of.licence), "scope": "required", "purl": of.purl}
    if of.cpe:
        component["cpe"] = of.cpe
    if of.note:
        component["pedigree"] = {"notes": of.note}
    return {**component, "properties": properties({"inside": of.owner})}


def standard(ref: str, compiler: str) -> dict:
    """The standard library of Rust, which is linked into each program."""
    component = described("library", ref, "std", compiler, STANDARD_LIBRARY)
    return {**component, "scope": "required", "cpe": f"cpe:2.3:a:rust-lang:rust:{compiler}:*:*:*:*:*:*:*"}
