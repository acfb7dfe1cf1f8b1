"""Bills of materials: of a tiny workspace, and of this one."""

import json
import os
import subprocess
import tempfile
import tomllib
import unittest
from dataclasses import replace
from functools import cache
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from license_expression import get_spdx_licensing

from tiny import ROOT, TIME, VERSION, Tiny, programs

import checkout
import dependencies
import inside
import sbom
from refusal import Refused

CHECK_LICENCE = get_spdx_licensing().validate


def walked(metadata: dict, roots: set[str], kinds: set) -> set[str]:
    """Packages that `cargo metadata` names below some, along dependencies of these kinds; None is a normal one."""
    known = {of["id"]: f"{of['name']}@{of['version']}" for of in metadata["packages"]}
    nodes = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    found, left = set(), [of for of in nodes if known[of].split("@")[0] in roots]
    while left:
        at = left.pop()
        if at not in found:
            found.add(at)
            left += [dep["pkg"] for dep in nodes[at] if any(kind["kind"] in kinds for kind in dep["dep_kinds"])]
    return {known[of] for of in found}


def metadata(root: Path, target: str) -> dict:
    """The output of `cargo metadata`."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={target}"]
    return json.loads(subprocess.run(command, cwd=root, capture_output=True, check=True).stdout)


def units(root: Path, which: programs.Programs, target: str) -> dict[str, bool]:
    """Packages that cargo would compile, and whether for the target: from the plan of a build that is not begun. Only nightly toolchains have it otherwise."""
    with tempfile.TemporaryDirectory() as directory:
        command = ["cargo", "build", "--locked", "--profile=dist", f"--target={target}", "--unit-graph", "-Zunstable-options", *which.selection()]
        env = os.environ | {"RUSTC_BOOTSTRAP": "1", "CARGO_TARGET_DIR": directory}
        plan = json.loads(subprocess.run(command, cwd=root, env=env, capture_output=True, check=True).stdout)
    found: dict[str, bool] = {}
    for unit in plan["units"]:
        url, name = unit["pkg_id"].split("#")
        key = name if "@" in name else f"{url.rsplit('/', 1)[1]}@{name}"
        found[key] = found.get(key, False) or unit["platform"] == target and unit["mode"] == "build"
    return found


def packages(bill: dict) -> dict[str, dict]:
    """The packages of a bill: no libraries inside them, and not the standard library."""
    return {of["bom-ref"]: of for of in bill["components"] if "properties" not in of and of["name"] != "std"}


class Bill(unittest.TestCase):
    """What holds for any bill."""

    def valid(self, text: str):
        self.assertIsNone(JsonStrictValidator(SchemaVersion.V1_6).validate_str(text))
        bill = json.loads(text)
        self.assertEqual(bill["specVersion"], "1.6")
        every = {of["bom-ref"] for of in [*bill["components"], *bill["metadata"]["component"]["components"], bill["metadata"]["component"]]}
        self.assertEqual(len(every), 1 + len(bill["components"]) + len(bill["metadata"]["component"]["components"]))
        linked = {of["ref"]: set(of["dependsOn"]) for of in bill["dependencies"]}
        self.assertLessEqual(linked.keys(), every)
        self.assertLessEqual(set().union(*linked.values()), linked.keys())
        reached, left = set(), [bill["metadata"]["component"]["bom-ref"]]
        while left:
            at = left.pop()
            if at not in reached:
                reached.add(at)
                left += linked[at]
        self.assertEqual(reached, linked.keys(), "not every component is below the programs")
        for component in bill["components"]:
            for licence in component["licenses"]:
                self.assertEqual(CHECK_LICENCE(licence["expression"]).errors, [], component["bom-ref"])
        return bill


class TinyWorkspace(Bill):
    """All kinds of dependencies, and no features that others enable."""

    @classmethod
    def setUpClass(cls):
        cls.tiny = Tiny()
        cls.addClassCleanup(cls.tiny.remove)
        cls.target = programs.host(cls.tiny.root)
        cls.out = cls.tiny.scratch / "out"
        ended = cls.tiny.release("--binaries", str(cls.tiny.stand_ins()), "--out", str(cls.out))
        assert ended.returncode == 0, ended.stderr

    def bill(self, name: str) -> dict:
        return self.valid((self.out / f"{name}-{VERSION}-{self.target}.cdx.json").read_text())

    def test_every_normal_and_build_dependency_is_named_and_none_of_tests_or_other_systems(self):
        known = walked(metadata(self.tiny.root, self.target), set(programs.SETS[0].packages), {None, "build"})
        self.assertEqual(set(packages(self.bill("orbweaver"))), known | {"ciphers@0.1.0"})
        expected = {f"orbweaver@{VERSION}", "words@0.1.0", "generator@0.1.0"}
        self.assertEqual(set(packages(self.bill("orbweaver-single"))), expected)

    def test_a_dependency_of_the_build_alone_is_in_no_program(self):
        scopes = {of["name"]: of["scope"] for of in packages(self.bill("orbweaver")).values() if not of["name"].startswith("orbweaver")}
        self.assertEqual(scopes, {"brokers": "required", "ciphers": "required", "generator": "excluded", "words": "required"})

    def test_edges_are_those_of_the_packages(self):
        edges = {of["ref"]: of["dependsOn"] for of in self.bill("orbweaver")["dependencies"]}
        self.assertEqual(edges[f"orbweaver-fetcher@{VERSION}"], ["brokers@0.1.0", "generator@0.1.0", "words@0.1.0"])
        self.assertEqual(edges["brokers@0.1.0"], ["ciphers@0.1.0"])
        self.assertIn(f"orbweaver-fetcher@{VERSION}", edges["orbweaver"])

    def test_it_has_version_commit_time_and_target(self):
        about = self.bill("orbweaver-single")["metadata"]
        self.assertEqual((about["component"]["name"], about["component"]["version"], about["timestamp"]), ("orbweaver-single", VERSION, "2023-11-14T22:13:20Z"))
        self.assertEqual({of["name"]: of["value"] for of in about["properties"]}, {"orbweaver:target": self.target, "orbweaver:commit": self.tiny.commit})


class ThisWorkspace(Bill):
    """The real dependencies."""

    @classmethod
    def setUpClass(cls):
        cls.target = programs.host(ROOT)
        version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        cls.source = checkout.Checkout(ROOT, version, "0" * 12, TIME, "")
        cls.resolved = {which.name: dependencies.resolved(ROOT, which, cls.target) for which in programs.SETS}
        cls.metadata = metadata(ROOT, cls.target)

    @staticmethod
    @cache
    def text(name: str) -> str:
        """The bill of a set, with this file as each of its programs."""
        resolved = ThisWorkspace.resolved[name]
        files = {package: Path(__file__) for which in programs.SETS if which.name == name for package in which.packages}
        return sbom.document(ThisWorkspace.source, name, ThisWorkspace.target, files, (resolved, inside.inside(resolved), "1.95.0"))

    def bill(self, name: str) -> dict:
        return json.loads(self.text(name))

    def test_the_bills_are_valid(self):
        for which in programs.SETS:
            self.valid(self.text(which.name))

    def test_every_package_that_cargo_compiles_is_named_and_no_other_and_those_for_the_target_are_required(self):
        for which in programs.SETS:
            named = {key: of["scope"] == "required" for key, of in packages(self.bill(which.name)).items()}
            self.assertEqual(named, units(ROOT, which, self.target))

    def test_no_package_of_tests_alone_is_named(self):
        roots = set(programs.SETS[0].packages)
        shipped = walked(self.metadata, roots, {None, "build"})
        tests = walked(self.metadata, roots, {None, "build", "dev"}) - shipped
        self.assertIn("proptest", {key.split("@")[0] for key in tests})
        named = set(packages(self.bill("orbweaver")))
        self.assertFalse(named & tests)
        # The rest are optional dependencies that no feature of the programs needs.
        self.assertLessEqual(named, shipped)

    def test_packages_of_the_registry_have_the_checksum_of_the_lock_file(self):
        lock = (ROOT / "Cargo.lock").read_text()
        for key, of in packages(self.bill("orbweaver")).items():
            self.assertEqual("purl" in of, not of["name"].startswith("orbweaver"), key)
            if "purl" in of:
                self.assertTrue(of["purl"].startswith(f"pkg:cargo/{of['name']}@"), key)
                entry = f'name = "{of["name"]}"\nversion = "{of["version"]}"\n'
                self.assertIn(f'checksum = "{of["hashes"][0]["content"]}"', lock[lock.index(entry) :][:300], key)

    def test_the_libraries_in_c_are_named_with_their_versions_where_they_are_linked(self):
        found = {name: {of["name"]: of for of in self.bill(name)["components"] if "properties" in of} for name in self.resolved}
        self.assertEqual(set(found["orbweaver"]), {"aws-lc", "jemalloc", "librdkafka", "openssl", "public-suffix-list", "zstd"})
        self.assertEqual(set(found["orbweaver-single"]), {"aws-lc", "jemalloc", "public-suffix-list", "zstd"})
        # Three of them are in the versions of their packages too.
        for library, owner in (("librdkafka", "rdkafka-sys"), ("openssl", "openssl-src"), ("zstd", "zstd-sys")):
            of = found["orbweaver"][library]
            inner = of["properties"][0]["value"]
            self.assertTrue(inner.startswith(f"{owner}@"))
            self.assertEqual(inner.split("+")[1].removeprefix("zstd."), of["version"])

    def test_a_package_that_may_compile_c_code_and_is_not_known_is_refused(self):
        known = next(iter(self.resolved["orbweaver"].packages.values()))
        for new, edges in (
            (replace(known, name="lzma-sys", links=False), set()),
            (replace(known, name="lzma", links=True), set()),
            (replace(known, name="lzma", links=False), {"cc@1.0.0"}),
        ):
            with self.subTest(new.name), self.assertRaisesRegex(Refused, f"^the package {new.name}@.* may compile a library of its own: name it in release/inside.py$"):
                inside.inside(dependencies.Dependencies({new.key: new}, {new.key: edges}))
        plain = replace(known, name="lzma", links=False)
        self.assertEqual(inside.inside(dependencies.Dependencies({plain.key: plain}, {plain.key: set()})), [])

    def test_a_library_whose_version_cannot_be_read_is_refused(self):
        with tempfile.TemporaryDirectory() as empty:
            for package in self.resolved["orbweaver"].packages.values():
                if package.name in inside.INSIDE and package.name != "psl":
                    with self.subTest(package.name), self.assertRaisesRegex(Refused, "could not be read from"):
                        inside.INSIDE[package.name](replace(package, directory=Path(empty), version="1.0.0"))
