"""The sets of programs that are released, how they are built, and whether a built program may be shipped."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import elf
from checkout import Checkout
from refusal import Refused, output


@dataclass(frozen=True)
class Programs:
    """Programs that are built together and packed into one archive, each from the package of its name."""

    name: str
    packages: tuple[str, ...]
    features: tuple[str, ...]
    # Shared libraries that may be required; the target's loader is permitted too.
    libraries: frozenset[str]

    def selection(self) -> list[str]:
        """Returns the arguments of cargo that select packages and features."""
        return [*(f"--package={package}" for package in self.packages), *self.features]


SERVICES = ("frontier", "normalizer-dedup", "rate-limiter", "fetcher", "extractor", "archiver", "urlstore")
LIBC = frozenset({"libc.so.6", "libm.so.6", "libgcc_s.so.1"})
SETS = (
    Programs("orbweaver", (*(f"orbweaver-{service}" for service in SERVICES), "orbweaver"), ("--features=tls",), LIBC | {"libstdc++.so.6"}),
    Programs("orbweaver-single", ("orbweaver",), ("--no-default-features",), LIBC),
)


def host(root: Path) -> str:
    """Returns the target of this machine."""
    return re.search(r"^host: (\S+)$", output("rustc", "--version", "--verbose", root=root), re.MULTILINE)[1]


def targets(root: Path, target: str, static: bool) -> dict[str, str]:
    """Returns the target of each set: with `static`, the one without librdkafka is linked with musl."""
    if not static:
        return {programs.name: target for programs in SETS}
    musl = target.removesuffix("-gnu") + "-musl"
    libraries = output("rustc", "--print=target-libdir", f"--target={musl}", root=root).strip()
    if not Path(libraries).is_dir():
        raise Refused(f"--static: the toolchain has no target {musl}; add it with rustup target add {musl}")
    if not shutil.which("musl-gcc"):
        raise Refused("--static: musl-gcc is not installed (Debian package musl-tools)")
    return {"orbweaver": target, "orbweaver-single": musl}


def build(checkout: Checkout, programs: Programs, target: str, directory: Path) -> None:
    """Builds a set, and copies its programs to a directory of its name."""
    root = checkout.root
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    # Settings of the caller must not reach the programs, nor paths of this machine those of Rust code.
    env = {name: value for name, value in os.environ.items() if name not in {"RUSTFLAGS", "CPATH", "CPPFLAGS", "CFLAGS", "CXXFLAGS"}}
    env["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join([f"--remap-path-prefix={home}=/cargo", f"--remap-path-prefix={root}=/orbweaver"])
    env |= {"ORBWEAVER_GIT_HASH": checkout.commit, "SOURCE_DATE_EPOCH": str(checkout.time)}
    command = ["cargo", "build", "--locked", "--profile=dist", f"--target={target}", *programs.selection()]
    print("$ " + " ".join(command), flush=True)
    if subprocess.run(command, cwd=root, env=env, check=False).returncode:
        raise Refused(f"the programs of {programs.name} could not be built")
    into = directory / programs.name
    into.mkdir(parents=True, exist_ok=True)
    for name in programs.packages:
        shutil.copy2(built(root) / target / "dist" / name, into / name)


def built(root: Path) -> Path:
    """Returns the directory in which cargo builds."""
    return root / (os.environ.get("CARGO_TARGET_DIR") or "target")


def inspected(checkout: Checkout, programs: Programs, target: str, directory: Path) -> tuple[dict[str, Path], elf.Needs]:
    """Returns the files of a set and the system that they need together. Refuses what must not be shipped."""
    files = {name: directory / programs.name / name for name in programs.packages}
    for name, file in files.items():
        if not file.is_file():
            raise Refused(f"{programs.name}: the program {name} is missing in {file.parent}")
    needs = [elf.needs(file, target) for file in files.values()]
    for name, need in zip(files, needs, strict=True):
        allowed = frozenset() if target.endswith("-musl") else programs.libraries
        foreign = sorted(need.libraries - allowed)
        if foreign:
            raise Refused(f"{programs.name}: {name} needs the shared library {foreign[0]}, which users may not have")
    if target == host(checkout.root) or target.endswith("-musl") and target.split("-")[0] == os.uname().machine:
        for name, file in files.items():
            check_version(checkout, name, file)
    return files, together(needs)


def check_version(checkout: Checkout, name: str, file: Path) -> None:
    """Runs a program, which must report its name, the version and, if it reports a commit, that of the checkout."""
    said = output(str(file), "--version", root=checkout.root).strip()
    expected = f"{name} {checkout.version}"
    if said not in (expected, f"{expected} ({checkout.commit})"):
        raise Refused(f"{file} reports {said!r}, not {expected + ' (' + checkout.commit + ')'!r}")


def together(needs: Iterable[elf.Needs]) -> elf.Needs:
    """Returns the system on which each of several programs runs."""
    needs = list(needs)
    return elf.Needs(frozenset().union(*(need.libraries for need in needs)), max(need.glibc for need in needs))
