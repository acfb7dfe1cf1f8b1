"""The shared libraries and the glibc that a program needs, as readelf reports them."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from refusal import Refused, output

# The name of each machine in readelf, and its loader.
MACHINES = {
    "x86_64": ("Advanced Micro Devices X86-64", "ld-linux-x86-64.so.2"),
    "aarch64": ("AArch64", "ld-linux-aarch64.so.1"),
}


@dataclass(frozen=True)
class Needs:
    """Requirements on the system. The loader, which each program that is linked dynamically needs, is not among the libraries."""

    libraries: frozenset[str]
    # The newest version of glibc's symbols; empty if there is none.
    glibc: tuple[int, ...]

    def __str__(self) -> str:
        if not self.libraries:
            return "no shared library"
        libraries = ", ".join(sorted(self.libraries))
        return f"{libraries}; glibc {'.'.join(map(str, self.glibc))} or newer"


def needs(file: Path, target: str) -> Needs:
    """Reads a program that is to run on a target."""
    machine, loader = MACHINES.get(target.split("-")[0], (None, None))
    if machine is None:
        raise Refused(f"the target {target} is not known; known machines: {', '.join(MACHINES)}")
    command = ("readelf", "--file-header", "--dynamic", "--version-info", "--wide", str(file))
    try:
        said = output(*command, root=file.parent, env=os.environ | {"LC_ALL": "C"})
    except Refused as refused:
        raise Refused(f"{file} cannot be read as a program: {refused}") from None
    found = re.search(r"^ *Machine: +(.*\S) *$", said, re.MULTILINE)
    if not found or found[1] != machine:
        raise Refused(f"{file} is no program for {target}, but for {found[1] if found else 'no machine'}")
    path = re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", said)
    if path:
        raise Refused(f"{file} looks for shared libraries in {path[1]}, a directory of the machine that built it")
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said)) - {loader}
    versions = [tuple(map(int, version.split("."))) for version in re.findall(r"\bGLIBC_([0-9.]+)", said)]
    return Needs(frozenset(libraries), max(versions, default=()))
