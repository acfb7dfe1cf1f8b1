"""Chromium for tests: each test has a page that records requests, errors and dialogs, and is checked at its end."""

import os
import re
import unittest
from pathlib import Path
from urllib.parse import quote, urlsplit

import axe_playwright_python
from playwright.sync_api import Error, expect, sync_playwright

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
FILES = os.environ.get("ORBWEAVER_CONSOLE_FILES")
PATIENCE_MS = 60_000
WITHOUT_HOST = ("data", "blob", "about")
expect.set_options(timeout=PATIENCE_MS)

# Links of the console lead to its own pages, or out of it without a trace.
BAD_LINKS = """() => [...document.querySelectorAll("a")].filter((link) => {
  const href = link.getAttribute("href") ?? "";
  if (href.startsWith("#")) return false;
  const parts = ["noreferrer", "noopener", "nofollow"];
  return !(/^https?:\\/\\//.test(href) && link.target === "_blank" && parts.every((part) => link.relList.contains(part)));
}).map((link) => link.outerHTML)"""


# A placeholder is no label, although axe takes it for one.
WITHOUT_LABEL = """() => [...document.querySelectorAll("input, select, textarea")]
  .filter((field) => field.labels.length === 0 && !field.getAttribute("aria-label")).map((field) => field.outerHTML)"""


def hash_of(page, **parameters):
    """Hash of a page of the console."""
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return f"#/{page}?{query}" if query else f"#/{page}"


def from_files(route):
    """Answers with a file of `ORBWEAVER_CONSOLE_FILES`, and the headers of the server."""
    name = urlsplit(route.request.url).path.rsplit("/", 1)[1] or "index.html"
    try:
        response = route.fetch()
    except Error:
        return route.abort()
    headers = {key: value for key, value in response.headers.items() if key not in ("etag", "content-length")}
    route.fulfill(status=200, headers=headers, body=(Path(FILES) / name).read_bytes())


class ConsoleCase(unittest.TestCase):
    """A test with `self.page` at a console; `address` is set by the class. `allowed` matches errors that are expected."""

    maxDiff = None
    address = None
    allowed = None
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.playwright = cls.enterClassContext(sync_playwright())
        cls.chromium = cls.playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"])
        cls.addClassCleanup(cls.chromium.close)

    def setUp(self):
        self.page = self.new_page()

    def new_page(self, **options):
        context = self.chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **self.options, **options})
        context.set_default_timeout(PATIENCE_MS)
        self.requests, self.errors = [], []
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("console", lambda message: self.errors.append(message.text) if message.type in ("error", "warning") else None)
        context.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        if FILES:
            context.route("**/console/*", from_files)
        page = context.new_page()
        self.addCleanup(context.close)
        return page

    def open(self, page="", **parameters):
        """Opens a page of the console, also if it is open already."""
        self.page.goto(f"{self.address}/console/{hash_of(page, **parameters)}")
        self.page.reload()
        expect(self.page.locator("h1")).to_be_visible()

    def tearDown(self):
        if self.page.is_closed():
            return
        self.assertEqual(self.page.evaluate(BAD_LINKS), [], "links")
        self.assertEqual(self.page.evaluate(WITHOUT_LABEL), [], "fields without a label")
        self.assertEqual(self.page.locator("main script, main img, main object, main embed").count(), 0, "elements from the web")
        own = urlsplit(self.address).netloc
        foreign = [url for url in self.requests if urlsplit(url).scheme not in WITHOUT_HOST and urlsplit(url).netloc != own]
        self.assertEqual(foreign, [], "requests to other hosts")
        errors = [error for error in self.errors if not (self.allowed and re.search(self.allowed, error))]
        self.assertEqual(errors, [], "errors in the browser")

    def number(self, name):
        """Figure of the overview by its name."""
        text = self.page.locator(".figure", has=self.page.get_by_text(name, exact=True)).locator(".figure-value").inner_text()
        return float(re.sub(r"[^\d.]", "", text) or "nan")

    def await_true(self, script, argument=None):
        """Waits until a condition in the page holds."""
        return self.page.wait_for_function(script, arg=argument, timeout=PATIENCE_MS)

    def findings(self):
        """Serious and critical findings of axe."""
        self.page.evaluate(AXE)
        results = self.page.evaluate("() => axe.run(document, {iframes: false, resultTypes: ['violations']})")
        bad = [found for found in results["violations"] if found["impact"] in ("serious", "critical")]
        return [(found["id"], [node["html"][:160] for node in found["nodes"]][:3]) for found in bad]
