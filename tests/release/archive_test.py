"""Files that are written: archives, checksums, notes."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import unittest

from tiny import TIME, VERSION, Tiny, programs, sums

SERVICES = [f"orbweaver-{name}" for name in ("archiver", "extractor", "fetcher", "frontier", "normalizer-dedup", "rate-limiter", "urlstore")]
DOCUMENTS = ["CHANGELOG.md", "LICENSE", "README.md", "REQUIREMENTS.txt", "RUST-STD-COPYRIGHT.html", "THIRD-PARTY.txt"]


class Archives(unittest.TestCase):
    """Two releases of the same programs, by machines that differ."""

    @classmethod
    def setUpClass(cls):
        cls.tiny = Tiny()
        cls.addClassCleanup(cls.tiny.remove)
        cls.target = programs.host(cls.tiny.root)
        cls.binaries = cls.tiny.stand_ins()
        cls.out = cls.tiny.scratch / "out"
        ended = cls.tiny.release("--binaries", str(cls.binaries), "--out", str(cls.out))
        assert ended.returncode == 0, ended.stderr

    def stem(self, name: str) -> str:
        return f"{name}-{VERSION}-{self.target}"

    def members(self, name: str) -> list[tarfile.TarInfo]:
        with tarfile.open(self.out / f"{self.stem(name)}.tar.gz") as tar:
            return tar.getmembers()

    def test_two_releases_of_the_same_programs_have_the_same_bytes(self):
        other = Tiny(self.tiny.scratch / "another")
        binaries = other.scratch / "binaries"
        for which in programs.SETS:
            (binaries / which.name).mkdir(parents=True)
            for name in reversed(which.packages):
                shutil.copyfile(self.binaries / which.name / name, binaries / which.name / name)
                os.chmod(binaries / which.name / name, 0o700)
        out = other.scratch / "out"
        differs = {"SOURCE_DATE_EPOCH": "1", "TZ": "Asia/Tokyo", "LC_ALL": "C", "USER": "someone"}
        ended = other.release("--binaries", str(binaries), "--out", str(out), **differs)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(sums(out), sums(self.out))

    def test_an_archive_has_its_programs_and_documents_and_nothing_else(self):
        for name, own in (("orbweaver", ["orbweaver", *SERVICES]), ("orbweaver-single", ["orbweaver"])):
            top = self.stem(name)
            expected = [top, *(f"{top}/{of}" for of in [*DOCUMENTS, "bin", *(f"bin/{program}" for program in own)])]
            self.assertEqual([member.name for member in self.members(name)], expected)

    def test_entries_are_sorted_belong_to_root_and_have_the_time_of_the_commit(self):
        for member in self.members("orbweaver"):
            self.assertEqual((member.uid, member.gid, member.uname, member.gname, member.mtime), (0, 0, "", "", TIME), member.name)
        names = [member.name for member in self.members("orbweaver")]
        self.assertEqual(names, sorted(names))

    def test_the_compressed_file_has_neither_a_name_nor_a_time(self):
        head = (self.out / f"{self.stem('orbweaver')}.tar.gz").read_bytes()[:8]
        self.assertEqual(head, b"\x1f\x8b\x08\0\0\0\0\0")

    def test_an_archive_unpacks_to_programs_that_run_and_documents_that_do_not(self):
        into = self.tiny.scratch / "unpacked"
        into.mkdir()
        subprocess.run(["tar", "--extract", "--file", str(self.out / f"{self.stem('orbweaver')}.tar.gz"), "--directory", str(into)], check=True, umask=0)
        top = into / self.stem("orbweaver")
        modes = {file.relative_to(top).as_posix(): file.stat().st_mode & 0o7777 for file in top.rglob("*")}
        expected = dict.fromkeys(DOCUMENTS, 0o644) | {f"bin/{name}": 0o755 for name in ["orbweaver", *SERVICES]} | {"bin": 0o755}
        self.assertEqual(modes, expected)
        said = subprocess.run([top / "bin/orbweaver-fetcher", "--version"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said, f"orbweaver-fetcher {VERSION} ({self.tiny.commit})\n")
        self.assertEqual((top / "LICENSE").read_text(), "A licence.\n")

    def test_the_requirements_are_those_of_the_programs(self):
        with tarfile.open(self.out / f"{self.stem('orbweaver')}.tar.gz") as tar:
            said = tar.extractfile(f"{self.stem('orbweaver')}/REQUIREMENTS.txt").read().decode()
        self.assertRegex(said, rf"^{re.escape(self.target)}: libc\.so\.6; glibc 2\.\d+ or newer\n$")

    def test_sha256sum_accepts_the_sums_and_finds_a_changed_byte(self):
        check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
        self.assertRegex((self.out / "SHA256SUMS").read_text(), r"^([0-9a-f]{64}  \S+\n){5}$")
        copy = self.tiny.scratch / "copy"
        shutil.copytree(self.out, copy)
        ended = subprocess.run(check, cwd=copy, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(sorted(line.removesuffix(": OK") for line in ended.stdout.splitlines()), sorted({*sums(copy)} - {"SHA256SUMS"}))
        file = copy / f"{self.stem('orbweaver')}.tar.gz"
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        self.assertNotEqual(subprocess.run(check, cwd=copy, capture_output=True, check=False).returncode, 0)

    def test_the_notes_are_the_section_of_the_version(self):
        self.assertEqual((self.out / f"RELEASE-NOTES-{VERSION}.md").read_text(), "### Added\n\n- A spider.\n")

    def test_the_bill_has_the_checksums_of_the_programs_that_are_packed(self):
        bill = json.loads((self.out / f"{self.stem('orbweaver')}.cdx.json").read_text())
        sums = {program["name"]: program["hashes"] for program in bill["metadata"]["component"]["components"]}
        expected = {file.name: [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}] for file in (self.binaries / "orbweaver").iterdir()}
        self.assertEqual(sums, expected)

    def test_files_of_another_target_and_the_chart_are_kept_and_those_of_another_version_are_refused(self):
        shared = self.tiny.scratch / "shared"
        shared.mkdir()
        kept = [f"orbweaver-{VERSION}-s390x-unknown-linux-gnu.tar.gz", f"orbweaver-{VERSION}.tgz"]
        for name in kept:
            (shared / name).write_text("made elsewhere")
        arguments = ["--binaries", str(self.binaries), "--out", str(shared)]
        self.assertEqual(self.tiny.release(*arguments).returncode, 0)
        self.assertTrue(all(f"  {name}\n" in (shared / "SHA256SUMS").read_text() for name in kept))
        for other in ("notes.txt", "orbweaver-1.2.30-s390x-unknown-linux-gnu.tar.gz", "orbweaver-1.2.3-rc.1-s390x-unknown-linux-gnu.tar.gz", "RELEASE-NOTES-1.2.2.md"):
            (shared / other).write_text("")
            ended = self.tiny.release(*arguments)
            self.assertEqual((ended.returncode, ended.stderr), (65, f"release/build: {shared} has {other}, which is no file of 1.2.3\n"))
            (shared / other).unlink()
