"""Which programs are refused, and a build of real ones."""

import os
import shutil
import subprocess
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tiny import ROOT, TIME, VERSION, Tiny, programs, sums

import checkout
import elf
from refusal import Refused


class Refusals(unittest.TestCase):
    """Programs that were built elsewhere."""

    @classmethod
    def setUpClass(cls):
        cls.tiny = Tiny()
        cls.addClassCleanup(cls.tiny.remove)
        cls.good = cls.tiny.stand_ins()

    def setUp(self):
        self.binaries = self.tiny.scratch / "changed"
        shutil.copytree(self.good, self.binaries)
        self.addCleanup(shutil.rmtree, self.binaries)
        self.fetcher = self.binaries / "orbweaver/orbweaver-fetcher"

    def refused(self, message: str):
        out = self.tiny.scratch / "out"
        ended = self.tiny.release("--binaries", str(self.binaries), "--out", str(out))
        self.assertEqual((ended.returncode, ended.stderr), (65, f"release/build: {message}\n"), ended.stdout)
        self.assertEqual(list(out.glob("*.tar.gz")), [])

    def foreign(self) -> Path:
        """A shared library that no system has."""
        library = self.tiny.scratch / "libforeign.so"
        subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(library)], check=True, capture_output=True)
        return library

    def test_a_missing_program_is_refused(self):
        self.fetcher.unlink()
        self.refused(f"orbweaver: the program orbweaver-fetcher is missing in {self.fetcher.parent}")

    def test_a_program_that_needs_a_foreign_shared_library_is_refused(self):
        shutil.copy(self.tiny.compiled(None, "-Wl,--no-as-needed", str(self.foreign()), "-Wl,-soname,x"), self.fetcher)
        named = subprocess.run(["readelf", "--dynamic", str(self.fetcher)], capture_output=True, text=True, check=True).stdout
        library = next(line.split("[")[1].rstrip("]") for line in named.splitlines() if "foreign" in line)
        self.refused(f"orbweaver: orbweaver-fetcher needs the shared library {library}, which users may not have")

    def test_the_runtime_of_c_plus_plus_is_permitted_with_librdkafka_alone(self):
        program = self.tiny.compiled(None, "-Wl,--no-as-needed", "-lstdc++", "-lm", "-lgcc_s")
        for which in programs.SETS:
            shutil.copy(program, self.binaries / which.name / "orbweaver")
        with self.assertRaisesRegex(Refused, r"^orbweaver-single: orbweaver needs the shared library libstdc\+\+\.so\.6"):
            self.inspected(programs.SETS[1])
        self.assertEqual(self.inspected(programs.SETS[0])[1].libraries, programs.LIBC | {"libstdc++.so.6"})

    def inspected(self, which: programs.Programs, target: str | None = None):
        source = checkout.Checkout(self.tiny.root, VERSION, self.tiny.commit, TIME, "")
        return programs.inspected(source, which, target or programs.host(self.tiny.root), self.binaries)

    def test_a_program_that_looks_for_libraries_where_it_was_built_is_refused(self):
        shutil.copy(self.tiny.compiled(None, "-Wl,-rpath,/home/someone/lib"), self.fetcher)
        self.refused(f"{self.fetcher} looks for shared libraries in /home/someone/lib, a directory of the machine that built it")

    def test_a_program_of_another_version_or_commit_is_refused(self):
        for said in ("1.2.2", f"1.2.2 ({self.tiny.commit})", f"{VERSION} (0123456789ab)", f"{VERSION} (unknown)"):
            with self.subTest(said):
                shutil.copy(self.tiny.compiled(said), self.fetcher)
                self.refused(f"{self.fetcher} reports 'orbweaver-fetcher {said}', not 'orbweaver-fetcher {VERSION} ({self.tiny.commit})'")

    def test_a_program_that_reports_no_commit_is_accepted(self):
        shutil.copy(self.tiny.compiled(VERSION), self.fetcher)
        self.inspected(programs.SETS[0])

    def test_a_program_for_another_machine_is_refused(self):
        content = bytearray(self.fetcher.read_bytes())
        content[18:20] = b"\x16\0"
        self.fetcher.write_bytes(content)
        target = programs.host(self.tiny.root)
        self.refused(f"{self.fetcher} is no program for {target}, but for IBM S/390")
        with self.assertRaisesRegex(Refused, "^the target s390x-unknown-linux-gnu is not known; known machines: x86_64, aarch64$"):
            self.inspected(programs.SETS[0], "s390x-unknown-linux-gnu")

    def test_a_program_that_is_no_program_is_refused(self):
        self.fetcher.write_text("#!/bin/sh\n")
        with self.assertRaisesRegex(Refused, f"^{self.fetcher} cannot be read as a program: readelf --file-header failed: "):
            self.inspected(programs.SETS[0])

    def test_a_program_for_musl_needs_no_shared_library(self):
        target = programs.host(self.tiny.root).replace("-gnu", "-musl")
        with self.assertRaisesRegex(Refused, r"^orbweaver-single: orbweaver needs the shared library libc\.so\.6"):
            self.inspected(programs.SETS[1], target)
        shutil.copy(self.tiny.compiled(None, "-static"), self.binaries / "orbweaver-single/orbweaver")
        _, needs = self.inspected(programs.SETS[1], target)
        self.assertEqual((needs, str(needs)), (elf.Needs(frozenset(), ()), "no shared library"))

    def test_static_without_the_target_in_the_toolchain_is_refused(self):
        tools = self.tiny.scratch / "tools"
        tools.mkdir()
        real = shutil.which("rustc")
        (tools / "rustc").write_text(f'#!/bin/sh\ncase "$1" in --print=target-libdir) echo /nowhere ;; *) exec {real} "$@" ;; esac\n')
        (tools / "rustc").chmod(0o755)
        ended = self.tiny.release("--static", "--check", PATH=f"{tools}:{os.environ['PATH']}")
        musl = programs.host(self.tiny.root).replace("-gnu", "-musl")
        message = f"release/build: --static: the toolchain has no target {musl}; add it with rustup target add {musl}\n"
        self.assertEqual((ended.returncode, ended.stderr), (65, message))


class Build(unittest.TestCase):
    """Programs that are built."""

    def test_two_clones_in_different_directories_build_the_same_release(self):
        first, second = Tiny(), Tiny()
        for tiny in (first, second):
            self.addCleanup(tiny.remove)
        # Variables of the caller do not reach the programs.
        differs = [{}, {"RUSTFLAGS": "-C opt-level=0", "SOURCE_DATE_EPOCH": "1"}]
        outs = []
        with ThreadPoolExecutor() as pool:
            for tiny, ended in zip((first, second), pool.map(lambda of: of[0].release(**of[1]), zip((first, second), differs)), strict=True):
                self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
                outs.append(sums(tiny.root / "target/release-files"))
        self.assertEqual(len(outs[0]), 6)
        self.assertEqual(outs[0], outs[1])

    def test_cargo_gets_the_commit_and_its_time_and_no_settings_of_the_caller(self):
        tiny = Tiny()
        self.addCleanup(tiny.remove)
        tools = tiny.scratch / "tools"
        tools.mkdir()
        (tools / "cargo").write_text(f'#!/bin/sh\nenv >{tools}/said\necho "$@" >>{tools}/said\nexit 1\n')
        (tools / "cargo").chmod(0o755)
        callers = dict.fromkeys(("RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CPATH", "CPPFLAGS", "CFLAGS", "CXXFLAGS", "ORBWEAVER_GIT_HASH", "SOURCE_DATE_EPOCH"), "callers")
        ended = tiny.release(PATH=f"{tools}:{os.environ['PATH']}", CARGO_HOME="/a home", **callers)
        self.assertEqual(ended.returncode, 65)
        *variables, command = (tools / "said").read_text().splitlines()
        said = dict(line.split("=", 1) for line in variables if "=" in line)
        self.assertEqual([name for name, value in said.items() if value == "callers"], [])
        self.assertEqual((said["ORBWEAVER_GIT_HASH"], said["SOURCE_DATE_EPOCH"]), (tiny.commit, str(TIME)))
        flags = ["--remap-path-prefix=/a home=/cargo", f"--remap-path-prefix={tiny.root}=/orbweaver"]
        self.assertEqual(said["CARGO_ENCODED_RUSTFLAGS"].split("\x1f"), flags)
        target = programs.host(tiny.root)
        self.assertTrue(command.startswith(f"build --locked --profile=dist --target={target} --package=orbweaver-frontier "), command)
        self.assertTrue(command.endswith(" --package=orbweaver --features=tls"), command)

    def test_a_build_that_fails_and_a_lock_file_that_is_not_up_to_date_are_refused(self):
        tiny = Tiny()
        self.addCleanup(tiny.remove)
        tiny.write("crates/words/src/lib.rs", "pub fn fail", "pub fn fai")
        tiny.committed("Broken")
        ended = tiny.release()
        self.assertEqual((ended.returncode, ended.stderr.splitlines()[-1]), (65, "release/build: the programs of orbweaver could not be built"))
        tiny.write("crates/words/src/lib.rs", "pub fn fai", "pub fn fail")
        tiny.write("crates/words/Cargo.toml", "0.1.0", "0.1.1")
        tiny.committed("Lock")
        ended = tiny.release("--binaries", str(tiny.stand_ins()))
        self.assertEqual(ended.returncode, 65, ended.stderr)
        self.assertIn("release/build: cargo tree failed: error: ", ended.stderr)


class Sets(unittest.TestCase):
    """The sets agree with the rest of the repository."""

    def test_the_image_has_the_same_programs_with_the_same_features(self):
        lines = [line.strip(" \\") for line in (ROOT / "Dockerfile").read_text().splitlines()]
        packages = [line.removeprefix("--package ") for line in lines if line.startswith("--package ")]
        self.assertEqual(packages, list(programs.SETS[0].packages))
        self.assertTrue(any("cargo build --locked --profile dist --features tls" in line for line in lines))

    def test_every_program_of_a_service_is_released(self):
        names = {"orbweaver" if path.parent.parent.name == "orbweaver" else f"orbweaver-{path.parent.parent.name}" for path in ROOT.glob("services/*/src/main.rs")}
        self.assertEqual(names, set(programs.SETS[0].packages))
