"""Whether a checkout may be released as a version: its tree, Cargo.toml, CHANGELOG.md and tags."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from refusal import Refused, output

VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")


@dataclass(frozen=True)
class Checkout:
    """A checkout that passed every check."""

    root: Path
    version: str
    # The first 12 digits, as in `--version` of the programs.
    commit: str
    # Seconds since 1970, of the commit: the time of everything that is packed.
    time: int
    # The section of CHANGELOG.md, without its heading.
    notes: str


def checked(root: Path, version: str) -> Checkout:
    """Checks the checkout, and returns what a release has of it."""
    if not VERSION.fullmatch(version):
        raise Refused(f"{version!r} is no version; one is MAJOR.MINOR.PATCH, such as 1.2.3 or 1.2.3-rc.1")
    changed = output("git", "status", "--porcelain", root=root).splitlines()
    if changed:
        raise Refused(f"the tree has changes that are not committed, the first is {changed[0][3:]}")
    declared = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    if declared != version:
        raise Refused(f"Cargo.toml has version {declared}, not {version}")
    notes = section((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    head = output("git", "rev-parse", "HEAD", root=root).strip()
    tagged = output("git", "for-each-ref", "--format=%(objectname) %(*objectname)", f"refs/tags/v{version}", root=root).split()
    # The object of a tag with a message is the tag; the commit follows.
    if tagged and tagged[-1] != head:
        raise Refused(f"the tag v{version} exists and is at {tagged[-1][:12]}, not at {head[:12]}")
    time = int(output("git", "show", "--no-patch", "--format=%ct", "HEAD", root=root))
    return Checkout(root, version, head[:12], time, notes)


def section(changelog: str, version: str) -> str:
    """Returns the section of a version. Refuses one that is missing, without a date or empty, and entries that are still unreleased."""
    parts = re.split(r"^## +(.*)$", changelog, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if sections.get("Unreleased", "").strip():
        raise Refused(f"CHANGELOG.md has entries under Unreleased; move them to {version}")
    for heading, text in sections.items():
        if heading.split()[0] != version:
            continue
        if not re.fullmatch(re.escape(version) + r" - \d{4}-\d{2}-\d{2}", heading):
            raise Refused(f"CHANGELOG.md has the heading {heading!r}; the format is {version + ' - YYYY-MM-DD'!r}")
        if not text.strip():
            raise Refused(f"the section {version} of CHANGELOG.md is empty")
        return text.strip() + "\n"
    raise Refused(f"CHANGELOG.md has no section {version + ' - YYYY-MM-DD'!r}")


def belongs(name: str, version: str) -> bool:
    """Returns whether a file is one of a release of this version: of any target, the notes, or the packed chart."""
    return name == "SHA256SUMS" or re.search(rf"-{re.escape(version)}(-[a-z0-9_]+-.*\.(tar\.gz|cdx\.json)|\.md|\.tgz)$", name) is not None
