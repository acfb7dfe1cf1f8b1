"""Commands of examples/README.md with their expected output, run as a user would."""

import doctest
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "examples/README.md"


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)[1]


def commands(title):
    """Commands of a section, in order, each with its expected output."""
    blocks = re.findall(r"^```console\n(.*?)^```$", section(title), re.M | re.S)
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), re.M)


def environment(binaries):
    """The examples find `orbweaver`, Python and its packages in the PATH."""
    return {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}


def run(command, directory, env):
    """Runs a command where `examples` is; returns its output and errors, as a terminal shows them."""
    if not (directory / "examples").exists():
        (directory / "examples").symlink_to(PAGE.parent)
    shell = ["bash", "-o", "pipefail", "-c", command]
    ended = subprocess.run(shell, cwd=directory, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
    if ended.returncode:
        raise AssertionError(f"{command}: ended with {ended.returncode}\n{ended.stdout}")
    # Without the log of librdkafka, such as a connection that was closed.
    return re.sub(r"^%\d\|.*\n", "", ended.stdout, flags=re.M)


def differs(expected, output):
    return not doctest.OutputChecker().check_output(expected, output, doctest.ELLIPSIS)
