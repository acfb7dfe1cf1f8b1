"""The checks of the book find planted faults."""

import shutil
import tempfile
import unittest
from pathlib import Path

import book
import pages


class Planted(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        self.write("docs/metrics.md", "| `orbweaver_a_total` |\n")
        self.write("docs/configuration.json", '{"keys": {"fetcher.rate": {}}}')
        self.write("schemas/topics/crawl.pages.yaml", "")
        self.write("docs/runbook.md", "# Runbook\n\n## An `alert`\n\nSee [it](#an-alert), [ADR 1](adr/0001-a.md) and [code](code.rs).\n")
        self.write("docs/code.rs", "")
        self.write("docs/adr/README.md", "# Decisions\n\n[1](0001-a.md)\n")
        self.write("docs/adr/0001-a.md", "# 1. A thing\n\n[all](README.md)\n")
        self.chapter("SUMMARY.md", "# Summary\n\n[Start](start.md)\n\n- [Runbook](below/runbook.md)\n- [Decisions](decisions.md)\n")
        self.chapter("start.md", "# Start\n\n[Alert](../../runbook.md#an-alert), `orbweaver_a_total`.\n\n```sh\ntrue\n```\n")
        self.chapter("below/runbook.md", "{{#include ../../../runbook.md}}\n")
        self.chapter("decisions.md", "{{#include ../../adr/README.md}}\n")

    def write(self, path: str, text: str):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def chapter(self, path: str, text: str):
        self.write(f"{pages.SRC}/{path}", text)

    def assembled(self) -> dict[str, str]:
        top = book.items(self.root)
        pages.assemble(self.root, top)
        return {chapter["path"]: chapter["content"] for chapter in pages.chapters(top)}

    def test_a_sound_book_has_no_findings(self):
        for check in (book.chapters_and_files, book.dead_links, book.foreign_blocks, book.unknown_metrics, book.unknown_keys):
            self.assertEqual(check(self.root), [], check.__name__)

    def test_links_lead_to_the_chapters_of_their_pages_and_a_link_without_a_chapter_is_its_text(self):
        texts = self.assembled()
        self.assertIn("[Alert](below/runbook.md#an-alert)", texts["start.md"])
        self.assertIn("See [it](#an-alert), [ADR 1](../decisions/0001-a.md) and code.", texts["below/runbook.md"])
        self.assertIn("[all](../decisions.md)", texts["decisions/0001-a.md"])

    def test_a_link_in_code_is_no_link(self):
        self.chapter("start.md", "`[a](b)`\n\n```text\n[a](b)\n```\n")
        self.assertEqual(book.dead_links(self.root), [])
        self.assertIn("`[a](b)`", self.assembled()["start.md"])

    def test_a_chapter_without_a_file_and_a_file_without_a_chapter_are_found(self):
        self.chapter("other.md", "# Other\n")
        (self.root / pages.SRC / "start.md").unlink()
        self.assertEqual(book.chapters_and_files(self.root), ["SUMMARY.md: start.md: there is no such file", "other.md: SUMMARY.md does not name it"])

    def test_a_link_to_no_file_to_no_heading_and_an_include_of_nothing_are_found(self):
        for text in ("[a](../../none.md)", "[a](../../runbook.md#none)", "[a](#none)", "{{#include ../../none.md}}", "{{#include ../../runbook.md:none}}"):
            self.chapter("start.md", f"# Start\n\n{text}\n")
            self.assertEqual(len(book.dead_links(self.root)), 1, text)

    def test_a_dead_anchor_in_an_included_page_is_found(self):
        self.write("docs/runbook.md", "# Runbook\n\n## An alert\n\n[Decisions](adr/README.md#none)\n")
        self.assertEqual(book.dead_links(self.root), ["below/runbook.md: ../decisions.md#none"])

    def test_a_part_of_a_page_is_included_alone(self):
        self.write("docs/part.md", "# Part\n<!-- table -->\n| [a](adr/0001-a.md) |\n<!-- /table -->\nRest\n")
        self.chapter("start.md", "# Start\n\n{{#include ../../part.md:table}}\n\nEnd\n")
        self.assertEqual(self.assembled()["start.md"], "# Start\n\n| [a](decisions/0001-a.md) |\n\n\nEnd\n")

    def test_a_block_that_does_not_say_whether_it_is_run_is_found(self):
        for block in ("```bash\ntrue\n```", "```\ntrue\n```", "```sh\ntrue"):
            self.chapter("start.md", f"# Start\n\n{block}\n")
            self.assertEqual(len(book.foreign_blocks(self.root)), 1, block)

    def test_a_metric_that_does_not_exist_is_found(self):
        self.chapter("start.md", "# Start\n\n`orbweaver_b_total{kind}`\n")
        self.assertEqual(book.unknown_metrics(self.root), ["start.md: there is no metric orbweaver_b_total"])

    def test_a_key_a_variable_and_a_topic_that_do_not_exist_are_found(self):
        self.chapter("start.md", "# Start\n\n`fetcher.rate`, `fetcher.none`, `crawl.pages`, `crawl.none`, `ORBWEAVER_FETCHER__OTHER=1`, `documents.jsonl`\n")
        expected = [f"start.md: there is no {name}" for name in ("crawl.none", "fetcher.none", "fetcher.other")]
        self.assertEqual(book.unknown_keys(self.root), expected)

    def test_a_picture_takes_the_colours_of_the_page(self):
        self.chapter("pictures/a.svg", "<svg>\n<style>svg{color:#000}</style>\n<path/>\n</svg>\n")
        self.chapter("start.md", "# Start\n\n![A <picture>](pictures/a.svg)\n")
        self.assertIn('<figure class="picture" role="img" aria-label="A &lt;picture&gt;"><svg><path/></svg></figure>', self.assembled()["start.md"])

    def test_a_screen_is_a_part_of_the_page(self):
        self.chapter("pictures/a.png", "PNG")
        self.chapter("start.md", "# Start\n\n![A screen](pictures/a.png)\n")
        self.assertIn('<img class="screen" alt="A screen" src="data:image/png;base64,UE5H">', self.assembled()["start.md"])


if __name__ == "__main__":
    unittest.main()
