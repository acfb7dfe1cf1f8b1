"""The console of the results of a crawl over a hostile web: pages of a site, a URL with its links and content, the token."""

import hashlib
import json
import tempfile
from pathlib import Path

import programs
import web
from browser import ConsoleCase, expect

TOKEN = "a secret token"
NOT_FOUND = "status of 404"


class Results(ConsoleCase):
    options = {"accept_downloads": True}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.web = cls.enterClassContext(web.hostile())
        programs.crawl_to_its_end(cls.directory, cls.web.origin + "/", "--warc", "--rate", "unlimited", "--ignore-robots", "--allow-private")
        cls.web.requested.clear()
        cls.address = cls.enterClassContext(programs.serve(cls.directory)).address
        cls.site = "127.0.0.1"

    def tearDown(self):
        self.assertEqual(self.web.requested, [], "requests to the web that was crawled")
        super().tearDown()

    def of_web(self, path):
        return self.web.origin + path

    def test_the_overview_of_results_has_figures_and_no_controls(self):
        self.open()
        expect(self.page.locator("#crawl-state")).to_have_text("Ended")
        expect(self.page.locator("#why")).to_have_text("Complete: nothing is left to do")
        self.assertEqual(self.number("Pages"), web.LINKS + 5)
        expect(self.page.locator("#pause, #stop")).to_have_count(2)
        expect(self.page.locator("#pause:visible, #stop:visible")).to_have_count(0)
        row = self.page.locator("table.outcomes tr.reason", has_text="HTTP 404")
        expect(row.locator("td").first).to_have_text(str(web.NOT_FOUND))

    def test_pages_without_a_crawl_say_so(self):
        for page in ("settings", "dead-letters"):
            self.open(page)
            expect(self.page.locator(".state.empty")).to_contain_text("The crawl has ended")

    def test_pages_of_a_site_are_filtered_by_status(self):
        self.open("pages")
        self.page.get_by_label("Site").fill(self.site)
        self.page.keyboard.press("Enter")
        rows = self.page.locator("table.pages tbody tr")
        expect(rows).to_have_count(100)
        for name, found, count in (("4xx", "/missing", web.NOT_FOUND), ("3xx", "/hop", 1)):
            self.page.get_by_role("navigation", name="Status").get_by_role("link", name=name).click()
            expect(rows).to_have_count(count)
            expect(rows.filter(has_text=found)).to_have_count(1)
        self.page.get_by_role("navigation", name="Status").get_by_role("link", name="5xx").click()
        expect(self.page.locator("#page-list")).to_contain_text("No pages")
        self.page.get_by_label("Exact status").fill("404")
        self.page.keyboard.press("Enter")
        expect(rows).to_have_count(web.NOT_FOUND)

    def test_a_bad_status_is_refused_with_the_allowed_values(self):
        self.allowed = "status of 400"
        self.open("pages", site=self.site, status="4xxx")
        expect(self.page.get_by_role("alert").filter(has_text="Allowed: a status such as")).to_be_visible()

    def test_an_unknown_site_is_an_error_with_its_name(self):
        self.allowed = NOT_FOUND
        self.open("pages", site="unknown.example")
        expect(self.page.get_by_role("alert").filter(has_text="unknown.example")).to_be_visible()

    def test_a_list_is_read_to_its_end_by_cursors_without_a_page_lost_or_repeated(self):
        seen = []
        self.open("pages", site=self.site, limit="60")
        while True:
            self.await_true("() => document.querySelector('#page-list:not([aria-busy]) > *')")
            seen += self.page.locator("table.pages tbody th").all_inner_texts()
            following = self.page.get_by_role("link", name="Next pages")
            if following.count() == 0:
                break
            # The list stays until the page has noticed that its address has changed.
            part = self.page.query_selector("#page-list")
            following.click()
            part.wait_for_element_state("hidden")
        self.assertEqual(len(seen), len(set(seen)))
        self.assertEqual(len(seen), web.URLS)
        self.page.get_by_role("link", name="First pages").click()
        expect(self.page.locator("table.pages tbody th").first).to_have_text(seen[0])

    def test_an_empty_last_part_is_the_end_of_the_list(self):
        empty = '{"site": "127.0.0.1", "crawl": "default", "pages": [], "next": null}'
        self.page.route("**/v1/pages*cursor=*", lambda route: route.fulfill(content_type="application/json", body=empty))
        self.open("pages", site=self.site)
        self.page.get_by_role("link", name="Next pages").click()
        expect(self.page.locator("#page-list")).to_contain_text("No more pages")
        expect(self.page.get_by_role("link", name="Next pages")).to_have_count(0)

    def test_empty_parts_in_between_are_skipped(self):
        def answer(route):
            if "cursor=third" in route.request.url:
                return route.fulfill(content_type="application/json", body=found)
            cursor = "third" if "cursor=second" in route.request.url else "second"
            return route.fulfill(content_type="application/json", body=f'{{"site": "s", "crawl": "default", "pages": [], "next": "{cursor}"}}')

        found = self.page.request.get(f"{self.address}/v1/pages?site={self.site}&status=404").text()
        self.page.route("**/v1/pages*", answer)
        self.open("pages", site=self.site, status="404")
        expect(self.page.locator("table.pages tbody tr")).to_have_count(web.NOT_FOUND)

    def test_a_thousand_rows_are_listed_at_once(self):
        found = self.page.request.get(f"{self.address}/v1/pages?site={self.site}&limit=1").json()
        pages = [{**found["pages"][0], "url": f"http://127.0.0.1/{number}"} for number in range(1000)]
        self.page.route("**/v1/pages*", lambda route: route.fulfill(content_type="application/json", body=json.dumps({**found, "pages": pages, "next": None})))
        self.open("pages", site=self.site, limit="1000")
        expect(self.page.locator("table.pages tbody tr")).to_have_count(1000)

    def test_the_page_of_a_url_has_its_state_life_links_and_content(self):
        self.open()
        self.page.keyboard.press("/")
        self.page.keyboard.type(self.of_web("/many"))
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("heading", level=1)).to_have_text(self.of_web("/many"))
        body = self.page.locator("#url-body")
        expect(body.locator(".facts")).to_contain_text("text/html; charset=utf-8")
        expect(body.locator(".timeline li")).to_have_count(2)
        expect(body.locator(".timeline")).to_contain_text(f"found on {self.of_web('/')}")
        expect(body.locator(".timeline")).to_contain_text(".warc.gz")
        expect(body.locator("#content-source")).to_contain_text("<title>Many</title>")
        rows = body.locator("table.links tbody tr")
        for count in (100, 200, web.LINKS):
            expect(rows).to_have_count(count)
            if count < web.LINKS:
                self.page.get_by_role("button", name="More links").click()
        expect(self.page.get_by_role("button", name="More links")).to_be_hidden()
        links = rows.locator("th a").all_inner_texts()
        self.assertEqual(links, [self.of_web(f"/item/{number}") for number in range(web.LINKS)])
        rows.locator("th a").first.click()
        expect(self.page.get_by_role("heading", level=1)).to_have_text(self.of_web("/item/0"))

    def test_a_redirect_is_shown_with_its_chain_and_its_own_state(self):
        self.open("url", url=self.of_web("/hop"))
        redirects = self.page.get_by_role("region", name="Canonical URL")
        expect(redirects).to_contain_text("The chain of 1 hop ends at a page.")
        expect(redirects.locator(".chain a")).to_have_text([self.of_web("/hop"), self.of_web("/attack")])
        expect(self.page.get_by_role("region", name="Last known state")).to_contain_text("redirected")

    def test_a_declared_canonical_url_is_shown_and_the_page_keeps_its_own_content(self):
        self.open("url", url=self.of_web("/item/1"))
        canonical = self.page.get_by_role("region", name="Canonical URL")
        expect(canonical.locator(".chain .pill")).to_have_text("rel=canonical")
        expect(canonical.locator(".chain a")).to_have_text([self.of_web("/item/1"), self.of_web("/item/2")])
        expect(self.page.locator("#content-source")).to_contain_text("<title>Canonical</title>")
        self.open("url", url=self.of_web("/item/3"))
        expect(self.page.locator("#ignored-canonical")).to_contain_text("https://elsewhere.example/ to be canonical, which is not followed: it was not fetched")

    def test_the_main_text_is_shown_as_markdown_that_is_not_rendered(self):
        self.open("url", url=self.of_web("/item/1"))
        self.page.get_by_role("tab", name="Markdown").click()
        expect(self.page.locator("#content-markdown")).to_contain_text("# Words")
        expect(self.page.locator("#content-markdown")).to_contain_text("five **six** seven.")
        self.open("url", url=self.of_web("/attack"))
        self.page.get_by_role("tab", name="Markdown").click()
        expect(self.page.locator("#content-markdown")).to_contain_text("Harmless heading")
        expect(self.page.locator("#content-panel img, #content-panel script")).to_have_count(0)

    def test_an_unknown_url_and_an_impossible_one_are_explained(self):
        self.allowed = f"{NOT_FOUND}|status of 400"
        self.open("url", url="unknown.example")
        expect(self.page.locator("#url-body")).to_contain_text("Nothing is known of this URL")
        self.open("url", url="javascript:alert(1)")
        expect(self.page.get_by_role("alert").filter(has_text="scheme `javascript` is not crawled")).to_be_visible()
        expect(self.page.get_by_role("heading", level=1)).to_have_text("javascript:alert(1)")

    def test_markup_in_parameters_is_text(self):
        self.allowed = f"{NOT_FOUND}|status of 400"
        attack = '"><img src=x onerror=alert(1)>'
        for page, name in (("url", "url"), ("pages", "site"), ("sites", "site")):
            self.open(page, **{name: attack})
            self.await_true("() => !document.querySelector('[aria-busy=true]')")
            expect(self.page.locator("main img")).to_have_count(0)

    def test_a_preview_runs_nothing_loads_nothing_and_leads_nowhere(self):
        # The parser reports what the policy of the console keeps it from doing, before anything is shown.
        self.allowed = "violates the following Content Security Policy"
        self.open("url", url=self.of_web("/attack"))
        expect(self.page.locator("#content-source")).to_contain_text("parent.document.title")
        self.page.get_by_role("tab", name="Source").press("ArrowRight")
        expect(self.page.get_by_role("tab", name="Preview")).to_be_focused()
        frame = self.page.frame_locator("#content-preview")
        expect(frame.get_by_role("heading", name="Harmless heading")).to_be_visible()
        self.assertEqual(self.page.locator("#content-preview").get_attribute("sandbox"), "")
        left = frame.locator("script, link, style, iframe, object, embed, video, form, svg, template, base, [href], [src], [onload], [onerror], [style], [background]")
        expect(left).to_have_count(0)
        expect(frame.locator("a", has_text="a script")).to_have_attribute("title", "javascript:parent.attacked=1")
        frame.locator("a", has_text="a link").click()
        expect(frame.get_by_role("heading", name="Harmless heading")).to_be_visible()
        self.assertTrue(self.page.title().endswith("Orbweaver"))
        self.assertIsNone(self.page.evaluate("window.attacked ?? null"))
        self.assertEqual(self.findings(), [])

    def test_the_frame_alone_would_stop_scripts(self):
        self.allowed = "Blocked script execution|Content Security Policy|Refused"
        self.open()
        self.page.evaluate("""() => new Promise((resolve) => {
          const frame = document.createElement("iframe");
          frame.setAttribute("sandbox", "");
          frame.srcdoc = "<script>parent.attacked = 1</script><svg onload='parent.attacked = 1'>";
          frame.onload = resolve;
          document.body.append(frame);
        })""")
        self.assertIsNone(self.page.evaluate("window.attacked ?? null"))

    def test_a_large_content_is_shown_in_part_and_downloaded_whole(self):
        self.open("url", url=self.of_web("/big"))
        expect(self.page.locator("#content-about")).to_contain_text("the first 512 KiB are shown")
        shown = self.page.locator("#content-source").evaluate("(element) => element.textContent.length")
        self.assertEqual(shown, 512 * 1024)
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="Download content").click()
        self.assertGreater(Path(download.value.path()).stat().st_size, web.BIG)
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="Download WARC record").click()
        self.assertEqual(download.value.suggested_filename, "big.warc.gz")
        self.assertEqual(Path(download.value.path()).read_bytes()[:2], b"\x1f\x8b")

    def test_long_urls_wrap_and_nothing_overflows_at_360_pixels(self):
        self.page.set_viewport_size({"width": 360, "height": 740})
        for page, parameters in (("", {}), ("sites", {"site": "a" * 200}), ("pages", {"site": self.site}), ("url", {"url": self.of_web(web.LONG)}), ("settings", {})):
            self.open(page, **parameters)
            self.await_true("() => !document.querySelector('[aria-busy=true]')")
            width = self.page.evaluate("document.documentElement.scrollWidth")
            self.assertLessEqual(width, 360, page)


class Token(ConsoleCase):
    allowed = "status of 401"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        programs.crawl_to_its_end(directory, "--demo")
        (directory / "token").write_text(hashlib.sha256(TOKEN.encode()).hexdigest())
        cls.address = cls.enterClassContext(programs.serve(directory, "--token-sha256", directory / "token")).address

    def test_the_token_is_requested_refused_accepted_and_kept(self):
        self.open()
        dialog = self.page.get_by_role("dialog", name="Token required")
        expect(dialog).to_be_visible()
        for token in ("wrong", TOKEN):
            dialog.get_by_label("Token").fill(token)
            self.page.keyboard.press("Enter")
            if token == "wrong":
                expect(dialog).to_contain_text("The server refused this token.")
        expect(self.page.locator("#crawl-state")).to_have_text("Ended")
        expect(dialog).to_be_hidden()
        self.open("pages", site="orb-weavers.localhost", status="404")
        expect(self.page.locator("table.pages tbody tr")).to_have_count(1)
        expect(dialog).to_be_hidden()
        self.assertNotIn(TOKEN, self.page.url)

    def test_without_a_token_the_page_says_why_it_is_empty(self):
        self.open()
        self.page.get_by_role("button", name="Cancel").click()
        expect(self.page.locator("#banner")).to_contain_text("The API requires a token")
        expect(self.page.get_by_role("button", name="Enter the token")).to_be_visible()
