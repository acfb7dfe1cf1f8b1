"""Writes the pictures of the handbook: the console of a crawl of the demo web, in light colours."""

import sys
import tempfile
from pathlib import Path

import programs
from browser import FILES, from_files, hash_of
from PIL import Image
from playwright.sync_api import expect, sync_playwright

WIDTH = 1180
PAGES = 120
COLOURS = 192


def taken(page, path, height):
    """A picture of the top of the page, with few colours."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.mouse.move(0, 0)
    page.screenshot(path=path, animations="disabled")
    Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def main(directory: Path):
    expect.set_options(timeout=120_000)
    with tempfile.TemporaryDirectory() as out, sync_playwright() as playwright, programs.crawl(Path(out), "--demo", "--warc", "--rate", "2") as crawl:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(color_scheme="light", reduced_motion="reduce")
        if FILES:
            page.route("**/console/*", from_files)
        page.goto(f"{crawl.address}/console/")
        fetched = f"() => Number(document.querySelectorAll('.figure-value')[1]?.textContent) >= {PAGES}"
        page.wait_for_function(fetched, timeout=120_000)
        taken(page, directory / "console-overview.png", 780)
        page.goto(f"{crawl.address}/console/{hash_of('sites', site='silk-workshop.localhost')}")
        rate = page.get_by_role("region", name="Site silk-workshop.localhost").get_by_label("Requests per second")
        rate.fill("0.5")
        rate.press("Enter")
        expect(page.locator(".chosen .site-state")).to_have_text("0.5 per second")
        rate.blur()
        taken(page, directory / "console-sites.png", 620)
        pages = page.request.get(f"{crawl.address}/v1/pages?site=orb-weavers.localhost&status=301").json()["pages"]
        pages = pages or page.request.get(f"{crawl.address}/v1/pages?site=orb-weavers.localhost").json()["pages"]
        page.goto(f"{crawl.address}/console/{hash_of('url', url=pages[0]['url'])}")
        expect(page.locator(".timeline li").first).to_be_visible()
        taken(page, directory / "console-url.png", 640)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
