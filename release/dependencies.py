"""The packages that cargo compiles for a set of programs, and which of them depends on which."""

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from programs import Programs
from refusal import Refused, output

LINE = re.compile(r"(\d+)\|(\S+) v(\S+)")


@dataclass(frozen=True)
class Package:
    """A package, of this workspace if it has no checksum."""

    name: str
    version: str
    licence: str
    authors: tuple[str, ...]
    directory: Path
    # SHA-256 of the file in the registry, as in Cargo.lock.
    checksum: str | None
    # In a program, and not only a build script, a macro, or used by these.
    linked: bool
    # Names a library of other languages that it links.
    links: bool

    @property
    def key(self) -> str:
        """Returns the name by which it is referred to."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True)
class Dependencies:
    """Packages by key, and the keys of those that each depends on."""

    packages: dict[str, Package]
    edges: dict[str, set[str]] = field(default_factory=dict)


def resolved(root: Path, programs: Programs, target: str) -> Dependencies:
    """Resolves the dependencies of a set for one target.

    `cargo metadata` resolves the whole workspace with the features of all its packages and tests; `cargo tree` knows those of a build.
    """
    edges = tree(root, programs, target, "normal,build")
    linked = tree(root, programs, target, "normal,no-proc-macro")
    metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}", root=root))
    known = {f"{of['name']}@{of['version']}": of for of in metadata["packages"]}
    lock = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    checksums = {f"{of['name']}@{of['version']}": of.get("checksum") for of in lock}
    packages = {}
    for key in sorted(edges, key=lambda key: key.split("@")):
        of = known[key]
        if not of["license"]:
            raise Refused(f"the package {key} names no licence")
        # An old form of `OR`.
        licence = of["license"].replace("/", " OR ")
        directory = Path(of["manifest_path"]).parent
        authors, links = tuple(of["authors"]), of["links"] is not None
        packages[key] = Package(of["name"], of["version"], licence, authors, directory, checksums[key], key in linked, links)
    return Dependencies(packages, edges)


def tree(root: Path, programs: Programs, target: str, kinds: str) -> dict[str, set[str]]:
    """Reads the tree of dependencies. Cargo prints what a package depends on once, wherever the package is named first."""
    command = ["cargo", "tree", "--locked", f"--target={target}", f"--edges={kinds}", "--prefix=depth", "--format=|{p}", *programs.selection()]
    edges: dict[str, set[str]] = {}
    above: list[str] = []
    for line in output(*command, root=root).splitlines():
        found = LINE.match(line)
        if not found:
            continue
        depth, key = int(found[1]), f"{found[2]}@{found[3]}"
        del above[depth:]
        if above:
            edges[above[-1]].add(key)
        edges.setdefault(key, set())
        above.append(key)
    return edges
