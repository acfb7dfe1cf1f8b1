"""Which checkouts are refused."""

import unittest

from tiny import CHANGELOG, VERSION, Tiny


class Checkout(unittest.TestCase):
    """`release/build --check`, which writes nothing."""

    def setUp(self):
        self.tiny = Tiny()
        self.addCleanup(self.tiny.remove)

    def refused(self, message: str, version: str = VERSION):
        ended = self.tiny.release("--check", version=version)
        self.assertEqual(ended.returncode, 65, ended.stdout + ended.stderr)
        self.assertEqual(ended.stderr, f"release/build: {message}\n")

    def accepted(self, version: str = VERSION):
        ended = self.tiny.release("--check", version=version)
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_a_clean_checkout_of_its_version_is_accepted(self):
        self.accepted()
        self.assertFalse((self.tiny.root / "target").exists())

    def test_a_tree_with_a_change_or_a_new_file_is_refused(self):
        self.tiny.write("README.md", "Tiny", "Changed")
        self.refused("the tree has changes that are not committed, the first is README.md")
        self.tiny.git("checkout", "--quiet", "README.md")
        (self.tiny.root / "new").write_text("")
        self.refused("the tree has changes that are not committed, the first is new")

    def test_a_version_that_differs_from_cargo_is_refused(self):
        self.refused("Cargo.toml has version 1.2.3, not 1.2.2", version="1.2.2")
        self.refused("'1.2' is no version; one is MAJOR.MINOR.PATCH, such as 1.2.3 or 1.2.3-rc.1", version="1.2")

    def test_a_version_without_a_section_with_date_and_text_is_refused(self):
        for old, new, message in [
            (f"## {VERSION} - 2023-11-14", "## 1.2.30 - 2023-11-14", "CHANGELOG.md has no section '1.2.3 - YYYY-MM-DD'"),
            (f"## {VERSION} - 2023-11-14", f"## {VERSION}", "CHANGELOG.md has the heading '1.2.3'; the format is '1.2.3 - YYYY-MM-DD'"),
            ("### Added\n\n- A spider.\n", "", "the section 1.2.3 of CHANGELOG.md is empty"),
            ("## Unreleased\n", "## Unreleased\n\n- A web.\n", "CHANGELOG.md has entries under Unreleased; move them to 1.2.3"),
        ]:
            with self.subTest(message):
                (self.tiny.root / "CHANGELOG.md").write_text(CHANGELOG)
                self.tiny.write("CHANGELOG.md", old, new)
                self.tiny.committed("Changelog")
                self.refused(message)

    def test_a_tag_of_another_commit_is_refused_and_one_of_this_commit_is_not(self):
        for kind in ([], ["--annotate", "--message=Release"]):
            with self.subTest(kind):
                self.tiny.git("tag", *kind, "--force", f"v{VERSION}")
                self.accepted()
                tagged = self.tiny.git("rev-parse", "HEAD")
                self.tiny.committed("Later")
                head = self.tiny.git("rev-parse", "HEAD")
                self.refused(f"the tag v1.2.3 exists and is at {tagged[:12]}, not at {head[:12]}")

    def test_wrong_arguments_end_with_64(self):
        for arguments in (["--binarie", "x"], ["--nothing"]):
            self.assertEqual(self.tiny.release(*arguments).returncode, 64)
