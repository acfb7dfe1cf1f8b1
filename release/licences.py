"""The licences of dependencies as one text: each library with its licence, and each licence text once."""

import re
from collections.abc import Iterable
from pathlib import Path

from dependencies import Dependencies, Package
from inside import Inner
from refusal import Refused

FILE = re.compile(r"(licen[cs]es?|copying|copyright|notice|unlicense)\b", re.IGNORECASE)
# Texts of licences, for packages that name one and have no file with it.
STANDARD = Path(__file__).resolve().parent / "licences"
RULE = "=" * 100

INTRODUCTION = """\
Libraries in the programs of Orbweaver, and those with which the programs were built, each with its licence. Orbweaver itself is under
the Apache License 2.0 (LICENSE). The texts follow, each after the libraries whose source has it. The licences of the standard library
of Rust are in RUST-STD-COPYRIGHT.html.
"""


def third_party(dependencies: Dependencies, inner: Iterable[Inner]) -> str:
    """Returns the text for a set of programs. Refuses a package of others for whose licence there is no text."""
    inner = list(inner)
    names, texts, users = [], {}, {}
    for package in dependencies.packages.values():
        if package.checksum is None:
            continue
        names.append(f"{package.name} {package.version}: {package.licence}")
        for text in texts_of(package.directory) or [standard(package)]:
            remember(texts, users, text, f"{package.name} {package.version}")
    for library in inner:
        note = f" ({library.note})" if library.note else ""
        names.append(f"{library.name} {library.version}, in {library.owner}: {library.licence}{note}")
        for directory in library.directories:
            found = texts_of(directory)
            if not found:
                raise Refused(f"{library.name}: there is no text of its licence in {directory}")
            for text in found:
                remember(texts, users, text, f"{library.name} {library.version}")
    parts = [INTRODUCTION, "\n".join(names) + "\n"]
    for key in sorted(texts, key=lambda key: (-len(users[key]), key)):
        parts.append(f"{RULE}\n{wrapped(users[key])}\n{RULE}\n\n{texts[key]}\n")
    return "\n".join(parts)


def texts_of(directory: Path) -> list[str]:
    """Returns the texts of the licences in a directory, in the order of their names."""
    files = sorted(file for file in directory.iterdir() if FILE.match(file.name) and file.is_file() and file.suffix not in {".rs", ".html"})
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


def remember(texts: dict[str, str], users: dict[str, list[str]], text: str, user: str) -> None:
    """Keeps a text once, whatever its line breaks and spaces."""
    key = " ".join(text.split())
    if not key:
        return
    texts.setdefault(key, "\n".join(line.rstrip() for line in text.strip("\n").splitlines()))
    named = users.setdefault(key, [])
    if user not in named:
        named.append(user)


def standard(package: Package) -> str:
    """Returns the usual text of the first licence that a package permits, with its authors."""
    for licence in package.licence.split(" OR "):
        file = STANDARD / f"{licence.strip('() ')}.txt"
        if file.is_file():
            authors = ", ".join(re.sub(r" *<[^>]*>", "", author) for author in package.authors) or f"the authors of {package.name}"
            return file.read_text(encoding="utf-8").replace("AUTHORS", authors)
    raise Refused(f"the package {package.key} has no text of its licence {package.licence}, and release/licences has none")


def wrapped(names: list[str]) -> str:
    """Returns names in lines of at most 100 characters."""
    lines = [""]
    for name in names:
        if lines[-1] and len(lines[-1]) + len(name) + 2 > 99:
            lines[-1] += ","
            lines.append(name)
        else:
            lines[-1] += f", {name}" if lines[-1] else name
    return "\n".join(lines)
