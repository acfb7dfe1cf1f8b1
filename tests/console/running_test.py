"""The console of a running crawl: figures, controls, settings of sites, the stream, the keyboard."""

import json
import tempfile
import time
from pathlib import Path

import programs
from browser import ConsoleCase, PATIENCE_MS, expect

SITE = "orb-weavers.localhost"


class Running(ConsoleCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.crawl = cls.enterClassContext(programs.crawl(directory, "--demo", "--warc", "--rate", "0.3"))
        cls.address = cls.crawl.address

    def await_more_pages(self, before):
        self.await_true(f"""() => [...document.querySelectorAll(".figure")]
          .some((figure) => figure.querySelector("dt").textContent === "Pages"
            && Number(figure.querySelector(".figure-value").textContent.replace(/\\D/g, "")) > {before})""")

    def await_still(self, seconds=3):
        """Waits until the figure of pages has been the same for some seconds of the crawl."""
        self.await_true(f"""() => {{
          const figure = (name) => [...document.querySelectorAll(".figure")].find((one) => one.querySelector("dt").textContent === name)
            .querySelector(".figure-value").textContent;
          const state = (window.stillness ??= {{pages: null, at: 0}});
          const pages = figure("Pages"), elapsed = figure("Elapsed");
          if (pages !== state.pages) Object.assign(state, {{pages, seen: new Set()}});
          state.seen.add(elapsed);
          return state.seen.size > {seconds};
        }}""")

    def test_figures_move_while_the_crawl_runs(self):
        self.open()
        expect(self.page.locator("#crawl-state")).to_have_text("Running")
        expect(self.page.locator("#stream-state")).to_have_text("live")
        self.await_more_pages(self.number("Pages"))
        expect(self.page.locator(".stage-name")).to_contain_text(["normalizer-dedup", "frontier", "rate-limiter", "fetcher", "extractor", "archiver"])
        expect(self.page.locator(".chart .line")).to_have_count(2)
        expect(self.page.locator("#why")).to_contain_text("Limited to 0.3 requests per second per site")
        expect(self.page.locator("table.outcomes tr.kind th").first).to_have_text("Fetched")

    def test_pause_stops_pages_and_resume_continues(self):
        self.open()
        self.page.get_by_role("button", name="Pause").click()
        expect(self.page.locator("#crawl-state")).to_have_text("Paused")
        expect(self.page.locator("#announcements")).to_have_text("The crawl is paused")
        expect(self.page.get_by_role("button", name="Resume")).to_be_focused()
        self.await_still()
        before = self.number("Pages")
        self.page.get_by_role("button", name="Resume").click()
        expect(self.page.locator("#crawl-state")).to_have_text("Running")
        self.await_more_pages(before)

    def test_a_site_is_frozen_and_unfrozen_and_all_its_controls_show_it(self):
        self.open("sites", site=SITE)
        chosen = self.page.get_by_role("region", name=f"Site {SITE}")
        chosen.get_by_role("button", name=f"Freeze {SITE}").click()
        expect(chosen.locator(".site-state")).to_have_text("Frozen")
        frozen = self.page.get_by_role("region", name="Frozen sites")
        expect(frozen.get_by_role("link", name=SITE, exact=True)).to_be_visible()
        expect(frozen.locator(".site-state")).to_have_text("Frozen")
        busiest = self.page.get_by_role("region", name="Busiest sites").locator("tr", has=self.page.get_by_role("link", name=SITE, exact=True))
        expect(busiest.locator(".site-state")).to_have_text("Frozen")
        self.open("settings")
        expect(self.page.get_by_role("heading", name=f"site/{SITE}")).to_be_visible()
        self.open("sites", site=SITE)
        chosen.get_by_role("button", name=f"Unfreeze {SITE}").click()
        expect(chosen.locator(".site-state")).to_have_text("As the crawl")
        expect(frozen).to_be_hidden()

    def test_a_rate_is_set_and_bad_ones_are_refused_with_a_message(self):
        self.allowed = "status of 400"
        self.open("sites", site="silk-workshop.localhost")
        chosen = self.page.get_by_role("region", name="Site silk-workshop.localhost")
        rate, error = chosen.get_by_label("Requests per second"), chosen.get_by_role("alert")
        for value in ("-1", "0", "99"):
            rate.fill(value)
            rate.press("Enter")
            expect(error).to_contain_text("allowed: 0.001 to 10")
            expect(rate).to_have_attribute("aria-invalid", "true")
        rate.fill("")
        rate.press_sequentially("1e")
        rate.press("Enter")
        expect(error).to_contain_text("is not a number")
        rate.fill("0.5")
        rate.press("Enter")
        expect(error).to_be_hidden()
        expect(chosen.locator(".site-state")).to_have_text("0.5 per second")
        link = self.page.get_by_role("link", name="silk-workshop.localhost", exact=True)
        busiest = self.page.get_by_role("region", name="Busiest sites").locator("tr", has=link)
        expect(busiest.locator(".site-state")).to_have_text("0.5 per second")
        rate.fill("")
        chosen.get_by_role("button", name="Set the rate").click()
        expect(chosen.locator(".site-state")).to_have_text("As the crawl")

    def test_content_in_a_file_that_is_still_open_is_not_shown_as_a_failure(self):
        self.allowed = "status of 404"
        self.open("pages", site=SITE)
        self.page.locator("main table a[href^='#/url']").first.click()
        expect(self.page.locator("#content")).to_contain_text("Not readable yet")
        expect(self.page.locator("#content [role=alert]")).to_have_count(0)

    def test_a_stream_that_stops_is_shown_with_its_age(self):
        self.allowed = "ERR_|Failed to load"
        self.open()
        expect(self.page.locator("#stream-state")).to_have_text("live")
        self.crawl.suspend()
        self.addCleanup(self.crawl.proceed)
        expect(self.page.locator("#banner")).to_contain_text("No new figures for")
        expect(self.page.locator("#stream-state")).to_contain_text("s old")
        self.crawl.proceed()
        expect(self.page.locator("#banner")).to_be_hidden()
        expect(self.page.locator("#stream-state")).to_have_text("live")

    def test_all_pages_are_reached_and_used_by_the_keyboard_alone(self):
        self.open()
        keyboard = self.page.keyboard
        keyboard.press("Tab")
        expect(self.page.get_by_role("link", name="Skip to content")).to_be_focused()
        keyboard.press("Enter")
        expect(self.page.locator("main")).to_be_focused()
        for key, title in (("s", "Sites"), ("p", "Pages"), ("u", "URL"), ("d", "Dead letters"), ("t", "Settings"), ("o", "Overview")):
            keyboard.press("g")
            keyboard.press(key)
            expect(self.page.get_by_role("heading", level=1, name=title)).to_be_focused()
            expect(self.page.locator("#nav a[aria-current]")).to_contain_text(title)
        keyboard.press("?")
        expect(self.page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        keyboard.press("Escape")
        keyboard.press("/")
        search = self.page.get_by_label("Look up a URL")
        expect(search).to_be_focused()
        # In a field, letters are text.
        keyboard.type("gs?.example")
        expect(search).to_have_value("gs?.example")
        keyboard.press("Escape")
        expect(search).not_to_be_focused()
        self.await_true("() => document.querySelector('#pause:not([hidden])')")
        self.page.locator("main").focus()
        for _ in range(3):
            keyboard.press("Tab")
            if self.page.evaluate("document.activeElement.id") == "stop":
                break
        expect(self.page.locator("#stop")).to_be_focused()
        outline = self.page.evaluate("[getComputedStyle(document.activeElement).outlineStyle, getComputedStyle(document.activeElement).outlineWidth].join(' ')")
        self.assertEqual(outline, "solid 2px")
        keyboard.press("Enter")
        expect(self.page.get_by_role("dialog", name="Stop the crawl?")).to_be_visible()
        expect(self.page.get_by_role("button", name="Cancel")).to_be_focused()
        keyboard.press("Enter")
        expect(self.page.get_by_role("dialog")).to_be_hidden()
        self.await_more_pages(self.number("Pages"))
        expect(self.page.locator("#crawl-state")).to_have_text("Running")
        self.assertEqual([url for url in self.requests if url.endswith("/stop")], [])

    def test_shortcuts_can_be_switched_off(self):
        self.open()
        self.page.keyboard.press("?")
        self.page.get_by_label("Use these shortcuts").uncheck()
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("/")
        expect(self.page.get_by_label("Look up a URL")).not_to_be_focused()

    def test_dead_letters_are_listed_in_parts_and_opened(self):
        def letter(number):
            return {"id": f"0:{number}", "at": "2026-11-30T23:00:00.000Z", "topic": "crawl.pages", "partition": 0, "offset": number,
                    "service": "extractor", "reason": f"<img src=x onerror=alert(1)> {number}", "key": "http://a.example/",
                    "value": "<script>alert(1)</script>" if number else None, "value_base64": None if number else "AAEC", "value_bytes": 25 if number else 3}

        def answer(route):
            start = 5 if "cursor=" in route.request.url else 55
            letters = [letter(number) for number in range(start - 1, max(start - 51, -1), -1)]
            route.fulfill(content_type="application/json", body=json.dumps({"dead_letters": letters, "next": "c" if start == 55 else None}))

        self.page.route("**/v1/dead-letters*", answer)
        self.open("dead-letters")
        expect(self.page.locator(".letters > li")).to_have_count(50)
        first = self.page.locator(".letters summary").first
        expect(first).to_contain_text("<img src=x onerror=alert(1)> 54")
        first.press("Enter")
        expect(self.page.locator(".letter[open] pre")).to_have_text("<script>alert(1)</script>")
        self.page.get_by_role("button", name="Older ones").click()
        expect(self.page.locator(".letters > li")).to_have_count(55)
        expect(self.page.get_by_role("button", name="Older ones")).to_be_hidden()
        expect(self.page.locator(".letters > li").nth(50).locator("summary")).to_be_focused()
        last = self.page.locator(".letters > li").last
        last.locator("summary").click()
        expect(last.get_by_role("heading", name="Value in base64")).to_be_visible()

    def test_a_crawl_without_dead_letters_says_so(self):
        self.open("dead-letters")
        expect(self.page.locator("#dead-letters")).to_contain_text("No dead letters")

    def test_settings_are_filtered_by_their_key(self):
        self.open("settings")
        expect(self.page.get_by_role("heading", name="crawl/default")).to_be_visible()
        expect(self.page.locator(".setting pre").first).to_contain_text('"scope": "any"')
        self.page.get_by_label("Filter by key").fill("no such key")
        expect(self.page.locator(".setting:visible")).to_have_count(0)


class End(ConsoleCase):
    def test_a_page_that_is_open_at_the_end_of_the_crawl_shows_its_results(self):
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        crawl = self.enterContext(programs.crawl(directory, "--demo", "--warc", "--rate", "10"))
        self.address = crawl.address
        # Between the crawl and its results nothing listens.
        self.allowed = "ERR_|Failed to load"
        self.open()
        expect(self.page.locator("#crawl-state")).to_have_text("Running")
        expect(self.page.locator("#crawl-state")).to_have_text("Ended")
        expect(self.page.locator("#why")).to_have_text("Complete: nothing is left to do")
        expect(self.page.locator("#banner")).to_be_hidden()
        self.page.goto(f"{self.address}/console/#/pages?site={SITE}&status=404")
        rows, again = self.page.locator("table.pages tbody tr"), self.page.get_by_role("button", name="Try again")
        expect(rows.first.or_(again)).to_be_visible()
        deadline = time.monotonic() + programs.PATIENCE
        while again.count() and time.monotonic() < deadline:
            again.click()
            expect(rows.first.or_(again)).to_be_visible()
        expect(rows).to_have_count(1)
        self.page.reload()
        expect(self.page.locator("#crawl-state")).to_have_text("Ended")
        expect(rows).to_have_count(1)


class Stop(ConsoleCase):
    def test_stop_is_confirmed_and_the_end_of_the_server_is_no_error(self):
        directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        crawl = self.enterContext(programs.crawl(directory, "--demo", "--rate", "1"))
        self.address = crawl.address
        self.allowed = "ERR_|Failed to load"
        self.open()
        self.await_true("() => document.querySelector('#stop:not([hidden])')")
        self.page.get_by_role("button", name="Stop…").click()
        self.page.get_by_role("button", name="Stop the crawl").click()
        crawl.process.wait(PATIENCE_MS / 1000)
        self.assertEqual(crawl.process.returncode, 75)
        expect(self.page.locator("#crawl-state")).to_have_text("Ended")
        expect(self.page.get_by_role("button", name="Pause")).to_be_hidden()
        expect(self.page.locator("#banner")).to_be_hidden()
        self.page.get_by_role("link", name="URL", exact=True).click()
        self.page.locator("main input[name=url]").fill("a.example")
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("alert").filter(has_text="The server has ended")).to_be_visible()
