"""The walker of trees is itself tested: a walker that misses links would let lost pages pass."""

import os
import tempfile
import unittest

import tree_walk


class Walk(unittest.TestCase):
    def walk(self, pages, start="a.html"):
        with tempfile.TemporaryDirectory() as root:
            for path, text in pages.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            return tree_walk.walk(root, "http://127.0.0.1/", start)

    def test_anchors_areas_frames_and_refreshes_are_followed(self):
        pages = {
            "a.html": "<a href=b.html#x><area href='d/c.html?q'><iframe src=/e.html></iframe>",
            "b.html": "<META http-equiv=Refresh content=\"0; URL='f.html'\">",
            "d/c.html": "<frame src=../g%20h.html>",
            "e.html": "",
            "f.html": "",
            "g h.html": "",
            "alone.html": "<a href=a.html>",
        }
        self.assertEqual(self.walk(pages)["reachable"], ["a.html", "b.html", "d/c.html", "e.html", "f.html", "g h.html"])

    def test_nofollow_of_a_link_or_a_page_is_honoured(self):
        pages = {
            "a.html": "<a rel='x NoFollow' href=b.html></a><a href=c.html></a>",
            "b.html": "",
            "c.html": "<meta name=robots content='noindex, NOFOLLOW'><a href=d.html></a>",
            "d.html": "",
        }
        self.assertEqual(self.walk(pages)["reachable"], ["a.html", "c.html"])

    def test_the_first_base_moves_every_link(self):
        pages = {"a.html": "<a href=b.html></a><base href=/d/><base href=/e/>", "d/b.html": "", "b.html": ""}
        self.assertEqual(self.walk(pages)["reachable"], ["a.html", "d/b.html"])

    def test_missing_pages_other_files_and_other_hosts_are_told_apart(self):
        pages = {"a.html": "<a href=no.html></a><a href=x.png></a><a href=http://example.org/y.html></a>", "x.png": ""}
        found = self.walk(pages)
        self.assertEqual((found["missing"], found["other"], found["links"]), (["no.html"], ["x.png"], 3))

    def test_links_in_comments_and_scripts_do_not_count(self):
        pages = {"a.html": "<!-- <a href=b.html> --><script>'<a href=b.html>'</script>", "b.html": ""}
        self.assertEqual(self.walk(pages)["reachable"], ["a.html"])


if __name__ == "__main__":
    unittest.main()
