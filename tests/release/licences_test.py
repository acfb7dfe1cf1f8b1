"""Licences of dependencies: their texts, and those that may be used at all."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from tiny import ROOT, programs

import dependencies
import inside
import licences
from refusal import Refused


class Texts(unittest.TestCase):
    """The text of packages that are laid out here."""

    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.scratch)
        self.packages = {}

    def package(self, name: str, licence: str, files: dict[str, str], own: bool = False):
        directory = self.scratch / name
        directory.mkdir()
        for file, text in files.items():
            (directory / file).write_text(text)
        of = dependencies.Package(name, "1.0.0", licence, ("A. Uthor <a@b.invalid>",), directory, None if own else "00", True, False)
        self.packages[of.key] = of

    def text(self) -> str:
        return licences.third_party(dependencies.Dependencies(self.packages), [])

    def test_the_same_text_is_given_once_with_all_that_have_it(self):
        self.package("a", "MIT", {"LICENSE-MIT": "Permission is\ngranted.\n", "Cargo.toml": "no licence"})
        self.package("b", "MIT", {"license.txt": "Permission   is granted.\r\n"})
        self.package("c", "ISC", {"COPYING": "Another text.\n", "NOTICE": "A notice.\n", "licenses.rs": "fn code() {}"})
        said = self.text()
        self.assertEqual(len(re.findall(r"Permission\s+is\s+granted", said)), 1)
        self.assertIn(f"{licences.RULE}\na 1.0.0, b 1.0.0\n{licences.RULE}\n\nPermission is\ngranted.\n", said)
        for part in ("a 1.0.0: MIT\nb 1.0.0: MIT\nc 1.0.0: ISC\n", "Another text.", "A notice."):
            self.assertIn(part, said)
        self.assertNotIn("code()", said)
        self.assertNotIn("no licence", said)

    def test_a_package_without_a_text_has_the_usual_one_of_its_licence_with_its_authors(self):
        self.package("a", "Apache-2.0 OR MIT", {})
        self.assertIn("MIT License\n\nCopyright (c) A. Uthor\n\nPermission is hereby granted", self.text())

    def test_a_package_without_a_text_and_with_an_unusual_licence_is_refused(self):
        self.package("a", "Unlicense", {})
        with self.assertRaisesRegex(Refused, "^the package a@1.0.0 has no text of its licence Unlicense, and release/licences has none$"):
            self.text()

    def test_packages_of_this_workspace_are_not_listed(self):
        self.package("own", "Apache-2.0", {"LICENSE": "A text of this workspace."}, own=True)
        self.assertNotIn("own 1.0.0", self.text())
        self.assertNotIn("A text of this workspace.", self.text())


class OfThisWorkspace(unittest.TestCase):
    """The real dependencies."""

    def test_every_dependency_is_listed_and_has_a_text_also_the_libraries_in_c(self):
        for which in programs.SETS:
            resolved = dependencies.resolved(ROOT, which, programs.host(ROOT))
            said = licences.third_party(resolved, inside.inside(resolved))
            listed, *texts = said.split(licences.RULE)
            users = set(re.split(r",?\s*\n|, ", "\n".join(texts[::2])))
            for package in resolved.packages.values():
                name = f"{package.name} {package.version}"
                self.assertEqual(f"\n{name}: " in listed, package.checksum is not None, name)
                self.assertEqual(name in users, package.checksum is not None, name)
            for library in inside.inside(resolved):
                self.assertIn(f"\n{library.name} {library.version}, in {library.owner}: ", listed)
                self.assertTrue(library.kind == "data" or f"{library.name} {library.version}" in users, library.name)
            bodies = [" ".join(text.split()) for text in texts[1::2]]
            self.assertEqual(len(bodies), len(set(bodies)))
            self.assertEqual("Magnus Edenhill" in said, which.name == "orbweaver")


class Permitted(unittest.TestCase):
    """`deny.toml`."""

    def denied(self, *without: str) -> subprocess.CompletedProcess:
        """Checks the dependencies, with some lines of `deny.toml` left out."""
        with tempfile.TemporaryDirectory() as directory:
            config = Path(directory) / "deny.toml"
            lines = (ROOT / "deny.toml").read_text().splitlines()
            config.write_text("\n".join(line for line in lines if line.strip() not in without))
            command = ["cargo", "deny", "--log-level", "error", "--config", str(config), "check", "licenses", "bans", "sources"]
            return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def test_licences_bans_and_sources_of_all_dependencies_are_permitted(self):
        ended = self.denied()
        self.assertEqual(ended.returncode, 0, ended.stderr)

    def test_a_licence_that_is_not_permitted_is_found(self):
        ended = self.denied('"ISC",')
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("aws-lc-rs", ended.stderr)
