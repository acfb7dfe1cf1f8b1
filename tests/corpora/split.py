#!/usr/bin/env python3
"""Spreads trees of HTML files over many hosts, so that links between directories become links between hosts.

usage: split.py TREES OUT [--hosts 1050] [--port 18080] [--walk FILE]

TREES holds one directory (or link to one) per tree. OUT gets `files`, which are the same paths with rewritten links and can be
served to all hosts, and `hosts.json`, which maps each directory that has a host of its own to the name of that host. A path
belongs to the host of the nearest directory above it. The host with most pages is divided by its subdirectories until there
are enough; with the output of tree_walk.py only pages that can be reached count. Links of a, area, iframe, frame and meta refresh to paths of another host become absolute; nothing else is changed.
"""

import argparse, collections, functools, heapq, html, json, os, re, sys, urllib.parse

HTML = (".html", ".htm", ".xhtml", ".xht")
TAG = re.compile(r"""<(?:(a|area|iframe|frame)|meta)\s(?:[^>"']|"[^"]*"|'[^']*')*>""", re.IGNORECASE)
LINK = re.compile(r"""(\s(?:href|src)\s*=\s*)("[^"]*"|'[^']*'|[^\s"'>]+)""", re.IGNORECASE)
REFRESH = re.compile(r"""(http-equiv\s*=\s*["']?refresh\b.*?url\s*=\s*)()([^"'>\s]+)""", re.IGNORECASE | re.DOTALL)
BASE = "http://tree.invalid/"


def assign(pages, wanted):
    """Maps directories to names of hosts. `pages` are the paths of pages, `wanted` the number of hosts."""
    below, inside = collections.Counter(), collections.defaultdict(set)
    for path in pages:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            directory = "/".join(parts[:depth])
            below[directory] += 1
            inside["/".join(parts[: depth - 1])].add(directory)
    chosen = sorted(inside[""])
    todo = [(-below[directory], directory) for directory in chosen]
    heapq.heapify(todo)
    while todo and len(chosen) < wanted:
        _, directory = heapq.heappop(todo)
        parts = sorted(inside[directory], key=lambda part: (-below[part], part))[: wanted - len(chosen)]
        chosen += parts
        for part in parts:
            heapq.heappush(todo, (-below[part], part))
    return {directory: f"h{number}.localhost" for number, directory in enumerate(sorted(chosen))}


class Hosts:
    """The host of each path."""

    def __init__(self, names, port, is_directory):
        self.names, self.port, self.is_directory, self.known = names, port, is_directory, {}

    def of(self, path):
        """Returns the host of a decoded path, or None above all trees."""
        if path not in self.known:
            directory = path.rstrip("/") if path.endswith("/") or self.is_directory(path) else os.path.dirname(path)
            while directory and directory not in self.names:
                directory = os.path.dirname(directory)
            self.known[path] = self.names.get(directory)
        return self.known[path]

    def moved(self, base, own, reference):
        """Returns a reference on the page at `base` of the host `own` as an absolute URL if it leads to another host, or None."""
        try:
            url = urllib.parse.urljoin(base, reference.strip(" \t\r\n\f"))
            target = urllib.parse.unquote(urllib.parse.urlsplit(url).path.lstrip("/"))
        except ValueError:
            return None
        host = self.of(target) if url.startswith(BASE) else None
        return None if host in (None, own) else f"http://{host}:{self.port}/{url[len(BASE):]}"

    def rewritten(self, path, text):
        """Returns the text of the page `path` with absolute links to other hosts."""
        base, own = BASE + urllib.parse.quote(path), self.of(path)
        moved = functools.cache(lambda reference: None if reference.startswith("#") else self.moved(base, own, reference))

        def value(match):
            given = match.group(match.lastindex)
            quote = given[0] if given[0] in "\"'" else ""
            url = moved(html.unescape(given.strip(quote) if quote else given))
            if url is None:
                return match.group(0)
            mark = quote if match.re is REFRESH else quote or '"'
            return f"{match.group(1)}{mark}{html.escape(url)}{mark}"

        return TAG.sub(lambda tag: (LINK if tag.group(1) else REFRESH).sub(value, tag.group(0), count=1), text)


def files_below(root):
    for directory, _, names in os.walk(root, followlinks=True):
        for name in names:
            full = os.path.join(directory, name)
            if os.path.isfile(full):
                yield os.path.relpath(full, root)


def split(trees, out, wanted, port, pages=None):
    paths = sorted(files_below(trees))
    names = assign(pages or [path for path in paths if path.lower().endswith(HTML)], wanted)
    hosts = Hosts(names, port, lambda path: os.path.isdir(os.path.join(trees, path)))
    for path in paths:
        source, target = os.path.join(trees, path), os.path.join(out, "files", path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not path.lower().endswith(HTML):
            os.symlink(os.path.realpath(source), target)
            continue
        with open(source, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read()
        with open(target, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(hosts.rewritten(path, text))
    with open(os.path.join(out, "hosts.json"), "w", encoding="utf-8") as file:
        json.dump({"port": port, "hosts": names}, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees")
    parser.add_argument("out")
    parser.add_argument("--hosts", type=int, default=1050)
    parser.add_argument("--port", type=int, default=18080)
    parser.add_argument("--walk")
    options, pages = parser.parse_args(), None
    if options.walk:
        with open(options.walk, encoding="utf-8") as file:
            pages = json.load(file)["reachable"]
    split(options.trees, options.out, options.hosts, options.port, pages)


if __name__ == "__main__":
    sys.exit(main())
