"""A workspace as small as one can be that is released as Orbweaver is, in a git repository, and stand-ins for its programs."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "release"))

import programs  # noqa: E402

VERSION = "1.2.3"
# Of each commit, so that the same content is the same commit.
TIME = 1_700_000_000
CHANGELOG = f"# Changelog\n\n## Unreleased\n\n## {VERSION} - 2023-11-14\n\n### Added\n\n- A spider.\n\n## 1.2.2 - 2023-10-01\n\n- A fly.\n"
WORKSPACE = f"""\
[workspace]
resolver = "3"
members = ["crates/*", "services/*"]

[workspace.package]
version = "{VERSION}"

[profile.dist]
inherits = "release"
"""
PACKAGE = """\
[package]
name = "{name}"
version.workspace = true
edition = "2024"
license = "MIT/Apache-2.0"

[features]
default = ["cluster"]
cluster = ["dep:brokers"]
tls = ["cluster", "brokers/tls"]

[dependencies]
words = {{ path = "../../crates/words" }}
brokers = {{ path = "../../crates/brokers", optional = true }}

[target.'cfg(windows)'.dependencies]
windows = {{ path = "../../crates/windows" }}

[build-dependencies]
generator = {{ path = "../../crates/generator" }}

[dev-dependencies]
testing = {{ path = "../../crates/testing" }}
"""
PROGRAM = """\
fn main() {
    let name = env!("CARGO_PKG_NAME");
    println!("{name} {} ({})", env!("CARGO_PKG_VERSION"), env!("ORBWEAVER_GIT_HASH"));
    if std::env::args().nth(1).is_none() { words::fail() }
}
"""
LIBRARIES = {
    "brokers": '[features]\ntls = ["dep:ciphers"]\n[dependencies]\nciphers = { path = "../ciphers", optional = true }\n',
    "ciphers": "",
    "generator": "",
    "testing": "",
    "windows": "",
    "words": "",
}
# A program in C that reports a version. %s is its name.
STAND_IN = """\
#include <stdio.h>
#include <string.h>
int main(int count, char **given) {{
    char *name = strrchr(given[0], '/');
    printf("%s {said}\\n", name ? name + 1 : given[0]);
    return 0;
}}
"""


def sums(directory: Path) -> dict[str, str]:
    """The files of a directory, each with the checksum of its bytes: a difference of megabytes would take minutes to print."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


class Tiny:
    """The repository, with `release` of this one in it."""

    def __init__(self, directory: Path | None = None):
        self.scratch = directory or Path(tempfile.mkdtemp())
        self.root = self.scratch / "clone"
        self.lay_out()
        self.git("init", "--quiet", "--initial-branch=main")
        self.committed("All")

    def lay_out(self) -> None:
        """Writes the files."""
        files = {"Cargo.toml": WORKSPACE, "CHANGELOG.md": CHANGELOG, "LICENSE": "A licence.\n", "README.md": "# Tiny\n", ".gitignore": "/target\n__pycache__/\n"}
        for name in programs.SETS[0].packages:
            files[f"services/{name}/Cargo.toml"] = PACKAGE.format(name=name)
            files[f"services/{name}/src/main.rs"] = PROGRAM
            files[f"services/{name}/build.rs"] = "fn main() {}\n"
        for name, more in LIBRARIES.items():
            files[f"crates/{name}/Cargo.toml"] = f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2024"\nlicense = "MIT"\n{more}'
            files[f"crates/{name}/src/lib.rs"] = 'pub fn fail() {\n    panic!("a message with the path of this file");\n}\n'
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        shutil.copytree(ROOT / "release", self.root / "release", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "rust-toolchain.toml", self.root)
        self.run("cargo", "generate-lockfile", "--offline", "--quiet")

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess:
        """Runs a command in the clone, without the variables of a build."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("CARGO_") or name == "CARGO_HOME"}
        return subprocess.run(command, cwd=self.root, env=own | variables, capture_output=True, text=True, check=False)

    def git(self, *arguments: str) -> str:
        """Runs git as someone at the time of each commit."""
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in (("NAME", "T"), ("EMAIL", "t@t.invalid"), ("DATE", f"{TIME} +0000"))}
        ended = self.run("git", *arguments, **who)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def committed(self, message: str) -> None:
        """Commits everything; `commit` is the new commit as programs report it."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        self.commit = self.git("rev-parse", "HEAD")[:12]

    def write(self, name: str, old: str, new: str) -> None:
        """Changes a file."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def compiled(self, said: str | None = None, *flags: str) -> Path:
        """Compiles a stand-in that reports a version and a commit, and returns it."""
        source, program = self.scratch / "stand-in.c", self.scratch / "stand-in"
        source.write_text(STAND_IN.format(said=said or f"{VERSION} ({self.commit})"), encoding="utf-8")
        subprocess.run(["cc", str(source), "-o", str(program), *flags], check=True, capture_output=True)
        return program

    def stand_ins(self) -> Path:
        """Returns a directory with a stand-in for each program."""
        program = self.compiled()
        directory = self.scratch / "binaries"
        for which in programs.SETS:
            (directory / which.name).mkdir(parents=True, exist_ok=True)
            for name in which.packages:
                shutil.copy(program, directory / which.name / name)
        return directory

    def release(self, *arguments: str, version: str = VERSION, **variables: str) -> subprocess.CompletedProcess:
        """Runs `release/build`."""
        return self.run("release/build", version, *arguments, **variables)

    def remove(self) -> None:
        """Deletes everything."""
        shutil.rmtree(self.scratch)
