"""The splitter of trees is itself tested: a link that it loses or leads astray would be blamed on the crawler."""

import json
import os
import tempfile
import unittest

import split


class Split(unittest.TestCase):
    def hosts(self, names):
        return split.Hosts(names, 80, lambda path: path in ("a/b", "a/c"))

    def test_the_largest_host_is_divided_until_there_are_enough(self):
        pages = ["a/x.html", "a/b/1.html", "a/b/2.html", "a/b/d/3.html", "a/c/4.html", "e/5.html"]
        self.assertEqual(sorted(split.assign(pages, 1)), ["a", "e"])
        self.assertEqual(sorted(split.assign(pages, 3)), ["a", "a/b", "e"])
        self.assertEqual(sorted(split.assign(pages, 4)), ["a", "a/b", "a/c", "e"])
        self.assertEqual(sorted(split.assign(pages, 99)), ["a", "a/b", "a/b/d", "a/c", "e"])
        self.assertEqual(len(set(split.assign(pages, 99).values())), 5)

    def test_a_path_belongs_to_the_nearest_directory_above_it(self):
        hosts = self.hosts({"a": "h0", "a/b": "h1"})
        paths = {"a/x.html": "h0", "a/b/x.html": "h1", "a/b/d/x.html": "h1", "a/b": "h1", "a/b/": "h1", "a/c/": "h0", "x": None}
        self.assertEqual({path: hosts.of(path) for path in paths}, paths)

    def test_links_to_other_hosts_become_absolute_and_others_stay(self):
        hosts = self.hosts({"a": "h0", "a/b": "h1"})
        text = """<a class='x>y' HREF = "../x.html?q&amp;r#f">x</a><a href=y.html><iframe src='../b'></iframe><a href=../z%20z.html>
<a href="http://example.org/a/x.html"><meta http-equiv="refresh" content="0; URL=../x.html"><link href="../x.css"><a href="#f">"""
        rewritten = """<a class='x>y' HREF = "http://h0:80/a/x.html?q&amp;r#f">x</a><a href=y.html><iframe src='../b'></iframe><a href="http://h0:80/a/z%20z.html">
<a href="http://example.org/a/x.html"><meta http-equiv="refresh" content="0; URL=http://h0:80/a/x.html"><link href="../x.css"><a href="#f">"""
        self.assertEqual(hosts.rewritten("a/b/p.html", text), rewritten)

    def test_bytes_that_are_no_utf_8_are_kept(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "trees/a/b"))
            with open(os.path.join(root, "trees/a/b/p.html"), "wb") as file:
                file.write(b"\xb0\xa1\r\n<a href=../x.html>")
            with open(os.path.join(root, "trees/a/x.html"), "wb") as file:
                file.write(b"")
            split.split(os.path.join(root, "trees"), os.path.join(root, "out"), 9, 80)
            with open(os.path.join(root, "out/files/a/b/p.html"), "rb") as file:
                self.assertEqual(file.read(), b'\xb0\xa1\r\n<a href="http://h0.localhost:80/a/x.html">')
            with open(os.path.join(root, "out/hosts.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["hosts"], {"a": "h0.localhost", "a/b": "h1.localhost"})


if __name__ == "__main__":
    unittest.main()
