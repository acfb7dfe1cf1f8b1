"""Prints the absolute http and https links of a tree of HTML pages, each once, in the order of the paths of the pages.

Usage: links.py TREE [BASE]. Relative links are resolved against BASE (https://docs.example.org/) and the path of their page.
"""
import html, os, re, sys
from urllib.parse import quote, urljoin

LINK = re.compile(rb"""<a\s[^>]*?href\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.I)


def main() -> None:
    tree, base = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "https://docs.example.org/"
    seen: set[str] = set()
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted(files):
            if not name.endswith((".html", ".htm")):
                continue
            path = os.path.join(folder, name)
            page = urljoin(base, quote(os.path.relpath(path, tree)))
            with open(path, "rb") as file:
                body = file.read()
            for double, single in LINK.findall(body):
                href = html.unescape((double or single).decode("utf-8", "replace")).strip()
                try:
                    link = urljoin(page, href)
                except ValueError:
                    continue
                if link.startswith(("http://", "https://")) and "\n" not in link and link not in seen:
                    seen.add(link)
                    sys.stdout.write(link + "\n")


main()
