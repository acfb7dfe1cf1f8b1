"""Each page has no serious or critical findings of axe, in both themes."""

import json
import tempfile
from pathlib import Path

import programs
from browser import ConsoleCase, expect, WITHOUT_LABEL

SITE = "orb-weavers.localhost"
LETTER = {"id": "0:1", "at": "2026-11-30T23:00:00.000Z", "topic": "crawl.pages", "partition": 0, "offset": 1, "service": "extractor",
          "reason": "a reason", "key": "k", "value": "v", "value_base64": None, "value_bytes": 1}


class Accessibility(ConsoleCase):
    allowed = "status of 404"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.address = cls.enterClassContext(programs.crawl(directory, "--demo", "--warc", "--rate", "0.3")).address

    def setUp(self):
        super().setUp()
        self.open()
        expect(self.page.locator("#crawl-state")).to_have_text("Running")
        self.await_true("() => document.querySelector('.ranks a')")
        self.start = f"http://www.{SITE}"

    def known_url(self):
        """URL of a page that was fetched."""
        while True:
            answer = self.page.request.get(f"{self.address}/v1/pages?site={SITE}&status=2xx")
            if answer.ok and answer.json()["pages"]:
                return answer.json()["pages"][0]["url"]
            self.page.wait_for_timeout(200)

    def check(self, scheme):
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        letters = json.dumps({"dead_letters": [LETTER], "next": None})
        self.page.route("**/v1/dead-letters*", lambda route: route.fulfill(content_type="application/json", body=letters))
        url = self.known_url()
        pages = [("", {}), ("sites", {"site": SITE}), ("pages", {"site": SITE}), ("pages", {}), ("url", {"url": url}), ("url", {}), ("url", {"url": "unknown.example"}), ("dead-letters", {}), ("settings", {}), ("nowhere", {})]
        for page, parameters in pages:
            with self.subTest(page=page, scheme=scheme, **parameters):
                self.open(page, **parameters)
                expect(self.page.locator("#crawl-state")).to_have_text("Running")
                self.await_true("() => !document.querySelector('main [aria-busy=true], main .loading')")
                if page == "dead-letters":
                    self.page.locator("summary").first.click()
                self.assertEqual(self.findings(), [])
        for opener, dialog in (("#stop", "#stop-dialog"), ("#keys-open", "#keys-dialog")):
            self.open()
            self.await_true("() => document.querySelector('#stop:not([hidden])')")
            self.page.locator(opener).click()
            expect(self.page.locator(dialog)).to_be_visible()
            self.assertEqual(self.findings(), [], dialog)

    def test_no_serious_findings_in_light_colours(self):
        self.check("light")

    def test_no_serious_findings_in_dark_colours(self):
        self.check("dark")

    def test_the_check_finds_planted_faults(self):
        self.page.evaluate("""() => {
          const field = document.createElement("input");
          const pale = document.createElement("p");
          pale.textContent = "pale";
          pale.style.color = "#bbb";
          document.querySelector("main").append(field, pale);
        }""")
        self.assertEqual({name for name, _ in self.findings()}, {"label", "color-contrast"})
        self.assertEqual(len(self.page.evaluate(WITHOUT_LABEL)), 1)
        self.open()
