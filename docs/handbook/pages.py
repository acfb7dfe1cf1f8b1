#!/usr/bin/env python3
"""Preprocessor of the handbook: one book of its chapters and of the pages elsewhere in the repository.

A chapter may consist of another page, `{{#include PATH}}`, or contain a part of one, `{{#include PATH:NAME}}`: the lines between
`<!-- NAME -->` and `<!-- /NAME -->`. A chapter that includes the README of a directory gets the other pages of that directory as
chapters below it. Links between pages lead to their chapters; a link to a file without a chapter becomes its text. Pictures
in SVG become part of the page, so that they have the colours of its theme. mdBook starts this program (`book.toml`); the check
in `tests/handbook` imports it.
"""

import base64
import html
import json
import posixpath
import re
import sys
from pathlib import Path

SRC = "docs/handbook/src"
INCLUDE = re.compile(r"^\{\{#include ([^:}]+)(?::([\w-]+))?\}\}$", re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
# Blocks and spans of code, in which nothing is a link.
CODE = re.compile(r"^ *```.*?^ *```|``.+?``|`[^`]*`", re.MULTILINE | re.DOTALL)


class Failure(Exception):
    """A page that cannot be assembled."""


def chapters(items: list):
    """All chapters of a book, in order."""
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            yield chapter
            yield from chapters(chapter["sub_items"])


def items_of(book: dict) -> list:
    """The top of a book; the key depends on the version of mdBook."""
    return book["items"] if "items" in book else book["sections"]


def resolved(page: str, link: str) -> str:
    """The path of a link on a page, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), link))


def anchor(heading: str) -> str:
    """The anchor that mdBook, and hosts of repositories, give to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lstrip("#").strip().lower())
    return "".join(c for c in text if c.isalnum() or c in " -_").replace(" ", "-")


def read(root: Path, path: str, of: str) -> str:
    """The text of a file of the repository."""
    try:
        return (root / path).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"{of}: {path}: {error.strerror}") from error


def part_of(text: str, name: str, of: str) -> str:
    """The lines of a text between the marks with this name."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    if not found:
        raise Failure(f"{of}: there is no part {name} in the included page")
    return found[1]


class Pages:
    """The chapters of a book with the pages that they show."""

    def __init__(self, root: Path, items: list):
        self.root = root
        self.homes: dict[str, str] = {}
        self.add_pages_of_directories(items)
        for chapter in chapters(items):
            if chapter.get("path"):
                self.homes[f"{SRC}/{chapter['path']}"] = chapter["path"]
                if page := self.page_of(chapter):
                    self.homes[page] = chapter["path"]

    def page_of(self, chapter: dict) -> str | None:
        """The page that a chapter consists of."""
        include = INCLUDE.fullmatch(chapter["content"].strip())
        return resolved(f"{SRC}/{chapter['path']}", include[1]) if include and not include[2] else None

    def add_pages_of_directories(self, items: list) -> None:
        """Adds the pages next to an included README, which have no chapter yet, as chapters below it."""
        shown = {self.page_of(chapter): chapter for chapter in chapters(items) if chapter.get("path")}
        for page, chapter in shown.items():
            if not page or posixpath.basename(page) != "README.md":
                continue
            directory = posixpath.dirname(chapter["path"])
            for file in sorted((self.root / page).parent.glob("*.md")):
                source = file.relative_to(self.root).as_posix()
                if source in shown:
                    continue
                title = read(self.root, source, chapter["path"]).partition("\n")[0].lstrip("# ").replace("`", "")
                number = chapter["number"] and [*chapter["number"], len(chapter["sub_items"]) + 1]
                path = posixpath.join(directory, posixpath.splitext(posixpath.basename(chapter["path"]))[0], file.name)
                include = posixpath.relpath(source, posixpath.dirname(f"{SRC}/{path}"))
                chapter["sub_items"].append({"Chapter": {
                    "name": title, "content": f"{{{{#include {include}}}}}", "number": number, "sub_items": [], "path": path,
                    "source_path": None, "parent_names": [*chapter["parent_names"], chapter["name"]],
                }})

    def assembled(self, chapter: dict) -> str:
        """The text of a chapter with its parts, links and pictures."""
        source, text, parts, end = f"{SRC}/{chapter['path']}", chapter["content"], [], 0
        for include in INCLUDE.finditer(text):
            page = resolved(source, include[1])
            part = read(self.root, page, source)
            part = part_of(part, include[2], source) if include[2] else part
            parts += [self.linked(text[end:include.start()], source, chapter["path"]), self.linked(part, page, chapter["path"])]
            end = include.end()
        return "".join([*parts, self.linked(text[end:], source, chapter["path"])])

    def linked(self, text: str, page: str, chapter: str) -> str:
        """A text of this page, as it is linked from a chapter."""
        parts, end = [], 0
        code = [match.span() for match in CODE.finditer(text)]
        for match in LINK.finditer(text):
            if any(begin < match.start() and match.end() <= until for begin, until in code):
                continue
            parts += [text[end:match.start()], self.link(match, page, chapter)]
            end = match.end()
        return "".join([*parts, text[end:]])

    def link(self, match: re.Match, page: str, chapter: str) -> str:
        """A link or picture of this page, in a chapter."""
        picture, text, (file, _, heading) = match[1], match[2], match[3].partition("#")
        if "://" in match[3] or match[3].startswith("mailto:"):
            return match[0]
        target = resolved(page, file) if file else page
        if picture:
            return self.picture(target, text, page)
        home = self.homes.get(target) or self.homes.get(f"{target}/README.md")
        if home is None:
            if not (self.root / target).exists():
                raise Failure(f"{page}: a link leads to {match[3]}, which there is not")
            return text
        link = "" if home == chapter and heading else posixpath.relpath(home, posixpath.dirname(chapter) or ".")
        return f"[{text}]({link}{'#' if heading else ''}{heading})"

    def picture(self, path: str, alt: str, of: str) -> str:
        """A picture in SVG as a part of the page: one of the handbook in the colours of the theme, another one as it is. A picture in PNG is a part, too."""
        if path.endswith(".png"):
            data = base64.b64encode((self.root / path).read_bytes()).decode()
            return f'<img class="screen" alt="{html.escape(alt)}" src="data:image/png;base64,{data}">'
        svg = read(self.root, path, of)
        if not path.startswith(SRC):
            data = base64.b64encode(svg.encode()).decode()
            return f'<img class="chart" alt="{html.escape(alt)}" src="data:image/svg+xml;base64,{data}">'
        svg = re.sub(r"<style>.*?</style>|\n\s*", "", svg, flags=re.DOTALL)
        return f'<figure class="picture" role="img" aria-label="{html.escape(alt)}">{svg}</figure>'


def assemble(root: Path, items: list) -> None:
    """Assembles all chapters of a book."""
    pages = Pages(root, items)
    for chapter in chapters(items):
        if chapter.get("path"):
            chapter["content"] = pages.assembled(chapter)


def main() -> None:
    """Reads a book from standard input and writes it to standard output, as mdBook requires."""
    if len(sys.argv) > 1 and sys.argv[1] == "supports":
        sys.exit(sys.argv[2] != "html")
    context, book = json.load(sys.stdin)
    try:
        assemble(Path(context["root"]).resolve().parents[1], items_of(book))
    except Failure as failure:
        sys.exit(f"pages.py: {failure}")
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
