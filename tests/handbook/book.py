"""The handbook as a book, without mdBook: the chapters of `SUMMARY.md`, and their faults."""

import json
import posixpath
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/handbook"))

import pages  # noqa: E402

ENTRY = re.compile(r"^( *)(?:- )?\[([^\]]+)\]\(([^)]*)\)$", re.MULTILINE)
# Info strings of blocks: commands that are run, on servers too, and text that is no command.
KINDS = {"sh", "sh,cluster", "text", "toml", "json", "yaml", "xml"}


def items(root: Path) -> list:
    """The chapters that `SUMMARY.md` names, in the form in which mdBook passes them to a preprocessor."""
    src = root / pages.SRC
    top, below = [], [(-1, [])]
    below[0] = (-1, top)
    for indent, name, path in ENTRY.findall((src / "SUMMARY.md").read_text(encoding="utf-8")):
        while below[-1][0] >= len(indent):
            below.pop()
        content = (src / path).read_text(encoding="utf-8") if (src / path).is_file() else ""
        chapter = {"name": name, "content": content, "number": None, "sub_items": [], "path": path, "source_path": path, "parent_names": []}
        below[-1][1].append({"Chapter": chapter})
        below.append((len(indent), chapter["sub_items"]))
    return top


def chapters_and_files(root: Path) -> list[str]:
    """Chapters without a file, files without a chapter, and chapters that are named twice."""
    src = root / pages.SRC
    named = [path for _, _, path in ENTRY.findall((src / "SUMMARY.md").read_text(encoding="utf-8"))]
    files = {file.relative_to(src).as_posix() for file in src.rglob("*.md")} - {"SUMMARY.md"}
    found = [f"SUMMARY.md: {path}: there is no such file" for path in sorted(set(named) - files)]
    found += [f"{path}: SUMMARY.md does not name it" for path in sorted(files - set(named))]
    return found + [f"SUMMARY.md: {path} is named twice" for path in sorted({path for path in named if named.count(path) > 1})]


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a chapter; a repeated one gets a number."""
    seen: dict[str, int] = {}
    for heading in re.findall(r"^#+ .*$", pages.CODE.sub(lambda code: "" if code[0].lstrip().startswith("```") else code[0], text), re.MULTILINE):
        name = pages.anchor(heading)
        seen[name] = seen.get(name, -1) + 1
        if seen[name]:
            seen[f"{name}-{seen[name]}"] = 0
    return set(seen)


def dead_links(root: Path) -> list[str]:
    """Links of the assembled book that lead to no chapter or to no heading of it, and includes of nothing."""
    top = items(root)
    try:
        pages.assemble(root, top)
    except pages.Failure as failure:
        return [str(failure)]
    texts = {chapter["path"]: chapter["content"] for chapter in pages.chapters(top)}
    known = {path: anchors(text) for path, text in texts.items()}
    found = []
    for path, text in texts.items():
        code = [match.span() for match in pages.CODE.finditer(text)]
        for match in pages.LINK.finditer(text):
            if "://" in match[3] or match[3].startswith("mailto:") or any(begin < match.start() and match.end() <= end for begin, end in code):
                continue
            file, _, heading = match[3].partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), file)) if file else path
            if target not in texts or heading and heading not in known[target]:
                found.append(f"{path}: {match[3]}")
    return found


def written(root: Path) -> dict[str, str]:
    """The chapters that are written here, in order, without those that consist of another page."""
    texts = {chapter["path"]: chapter["content"] for chapter in pages.chapters(items(root))}
    return {path: text for path, text in texts.items() if not pages.INCLUDE.fullmatch(text.strip())}


def foreign_blocks(root: Path) -> list[str]:
    """Blocks whose info string does not say whether they are run, and blocks without an end."""
    found = []
    for path, text in written(root).items():
        inside = False
        for number, line in enumerate(text.splitlines(), 1):
            if not line.startswith("```"):
                continue
            if not inside and line[3:] not in KINDS:
                found.append(f"{path}:{number}: {line[3:]!r} is none of {', '.join(sorted(KINDS))}")
            inside = not inside
        if inside:
            found.append(f"{path}: a block has no end")
    return found


def unknown_metrics(root: Path) -> list[str]:
    """Metrics that chapters name and that the reference does not have."""
    metrics = set(re.findall(r"`(orbweaver_\w+)`", (root / "docs/metrics.md").read_text(encoding="utf-8")))
    named = {(path, name) for path, text in written(root).items() for name in re.findall(r"`(orbweaver_\w+)", text)}
    return [f"{path}: there is no metric {name}" for path, name in sorted(named) if name not in metrics]


def unknown_keys(root: Path) -> list[str]:
    """Keys of the configuration, also as variables, and topics that chapters name and that there are not."""
    keys = json.loads((root / "docs/configuration.json").read_text(encoding="utf-8"))["keys"]
    sections = {key.partition(".")[0] for key in keys}
    topics = {file.stem for file in (root / "schemas/topics").glob("*.yaml")}
    found = []
    for path, text in written(root).items():
        # The first column of a migration has the names of the other crawler.
        text = re.sub(r"^\|[^|]*\|", "", text, flags=re.MULTILINE) if path.startswith("migrating/") else text
        spans = set(re.findall(r"`([a-z_]+\.[a-z_-]+)`", text)) | {
            name.lower().replace("__", ".") for name in re.findall(r"\bORBWEAVER_([A-Z_]+__[A-Z_]+)\b", text)
        }
        for name in sorted(spans):
            section = name.partition(".")[0]
            if section == "crawl" and name not in topics or section in sections and not name.endswith(".jsonl") and name not in keys:
                found.append(f"{path}: there is no {name}")
    return found
