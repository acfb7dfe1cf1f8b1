#!/usr/bin/env python3
"""Walks a tree of HTML files as a crawler would, sharing no code with the crawler.

usage: tree_walk.py DIR BASE_URL START [--json FILE]

DIR is the directory that BASE_URL serves, START the path of the start page below it. Links are those of a, area, iframe,
frame and meta refresh; base href is honoured; rel=nofollow links and the links of pages whose meta robots says nofollow
or none are left out. Pages are read from the files, so that nothing has to be served.

Prints one JSON object: `reachable` (paths below DIR of HTML files, decoded, sorted), `other` (paths of files that are
not HTML), `missing` (paths without a file), and the number of `links` met. Links are counted before they are told apart.
"""

import html.parser
import json
import os
import re
import sys
import urllib.parse

FRAMES = {"iframe", "frame"}
ANCHORS = {"a", "area"}
REFRESH = re.compile(r"^\s*\d*(?:\.\d*)?\s*[;,]?\s*url\s*=\s*['\"]?([^'\"]*)", re.IGNORECASE)
HTML = (".html", ".htm", ".xhtml", ".xht")


class Links(html.parser.HTMLParser):
    """The links of one page."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.base = None
        self.found = []
        self.nofollow = False

    def handle_starttag(self, tag, attrs):
        if tag not in ANCHORS and tag not in FRAMES and tag not in ("meta", "base"):
            return
        attributes = {}
        for name, value in attrs:
            attributes.setdefault(name, value or "")
        if tag in ANCHORS:
            if "href" in attributes and "nofollow" not in attributes.get("rel", "").lower().split():
                self.found.append(attributes["href"])
        elif tag in FRAMES:
            if "src" in attributes:
                self.found.append(attributes["src"])
        elif tag == "base":
            if self.base is None and "href" in attributes:
                self.base = attributes["href"]
        elif attributes.get("http-equiv", "").lower() == "refresh":
            match = REFRESH.match(attributes.get("content", ""))
            if match:
                self.found.append(match.group(1))
        elif attributes.get("name", "").lower() == "robots":
            words = re.split(r"[\s,]+", attributes.get("content", "").lower())
            self.nofollow = self.nofollow or "nofollow" in words or "none" in words


def links_of(path, url):
    """Absolute URLs that the page at `path` links to, without fragments."""
    with open(path, "rb") as file:
        text = file.read().decode("utf-8", "replace")
    parser = Links()
    parser.feed(text)
    parser.close()
    if parser.nofollow:
        return
    base = urllib.parse.urljoin(url, parser.base.strip()) if parser.base else url
    for reference in parser.found:
        reference = reference.strip(" \t\r\n\f")
        try:
            yield urllib.parse.urldefrag(urllib.parse.urljoin(base, reference)).url
        except ValueError:
            continue


def file_of(root, url, base_url):
    """The path below `root` of a URL of the tree, decoded; None for a URL that is not below the base."""
    if not url.startswith(base_url):
        return None
    path = urllib.parse.unquote(urllib.parse.urlsplit(url).path.lstrip("/"))
    full = os.path.normpath(os.path.join(root, path))
    if os.path.isdir(full):
        full = os.path.join(full, "index.html")
    return os.path.relpath(full, root)


def walk(root, base_url, start):
    reachable, other, missing, links = set(), set(), set(), 0
    todo = [start]
    seen = {start}
    while todo:
        path = todo.pop()
        full = os.path.join(root, path)
        if not os.path.isfile(full):
            missing.add(path)
            continue
        if not path.lower().endswith(HTML):
            other.add(path)
            continue
        reachable.add(path)
        for url in links_of(full, base_url + urllib.parse.quote(path)):
            links += 1
            target = file_of(root, url, base_url)
            if target is not None and target not in seen:
                seen.add(target)
                todo.append(target)
    return {"reachable": sorted(reachable), "other": sorted(other), "missing": sorted(missing), "links": links}


def main(arguments):
    if len(arguments) not in (3, 5) or (len(arguments) == 5 and arguments[3] != "--json"):
        sys.stderr.write(__doc__)
        return 64
    root, base_url, start = arguments[:3]
    if not os.path.isdir(root):
        sys.stderr.write(f"tree_walk.py: {root} is not a directory\n")
        return 66
    result = json.dumps(walk(root, base_url.rstrip("/") + "/", start.lstrip("/")))
    if len(arguments) == 5:
        with open(arguments[4], "w", encoding="utf-8") as file:
            file.write(result + "\n")
    else:
        print(result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
