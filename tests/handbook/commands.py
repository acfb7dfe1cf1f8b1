"""The commands of the handbook: as they are written, in order, each chapter in an empty directory."""

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import book

PATIENCE_SECONDS = 600
# Ports in the text, of servers that a chapter starts: a free one is used for each.
PORTS = ("8000", "9469", "9480")
EXIT_CODE = re.compile(r" +# exit code (\d+)$")
# Programs whose options the prose of a chapter may name.
PROGRAMS = ("orbweaver", "orbweaver-frontier")


@dataclass(frozen=True)
class Step:
    """A command, the line at which it is written, and the code with which it ends."""

    where: str
    command: str
    code: int


def steps(path: str, text: str, kind: str) -> list[Step]:
    """The commands in the blocks of this kind; a line that ends with a backslash continues."""
    found, inside, begin, lines = [], False, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            inside = line == f"```{kind}" and not inside
            continue
        if not inside or not line.strip():
            continue
        begin = begin if lines else number
        lines.append(line)
        if line.endswith("\\"):
            continue
        command = "\n".join(lines)
        code = EXIT_CODE.search(command)
        found.append(Step(f"{path}:{begin}", EXIT_CODE.sub("", command), int(code[1]) if code else 0))
        lines = []
    return found


def script(steps: list[Step]) -> str:
    """A script that ends at the first command whose exit code is not the one that is written; the message is the last line."""
    parts = ["set -u -o pipefail"]
    for step in steps:
        message = f"{step.where}: exit code $code, not {step.code}"
        # `head` may end before the command whose lines it reads, which then gets a signal.
        codes = f"{step.code}|141" if "| head" in step.command else step.code
        # A command may run in the background, so the braces are on lines of their own.
        parts.append(f'echo "+ {step.where}" >&2\n{{\n{step.command}\n}}\ncode=$?\ncase $code in {codes}) ;; *) echo "{message}" >&2; exit 1 ;; esac')
    return "\n".join(parts) + "\n"


def free_port() -> str:
    """A port of loopback that was free a moment ago."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return str(server.getsockname()[1])


def with_own_ports(text: str) -> str:
    """A script with free ports for those in the text."""
    for port in PORTS:
        text = re.sub(rf"(127\.0\.0\.1:|http\.server ){port}\b", lambda found, own=free_port(): found[1] + own, text)
    return text


def run(text: str, environment: dict[str, str]) -> tuple[int, str]:
    """Runs a script in an empty directory; ends what it left running. Returns its exit code and all that it wrote."""
    directory = tempfile.mkdtemp(prefix="handbook-")
    try:
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                ["bash", "-c", text], cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )
            try:
                code = process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                code = -1
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
            said.seek(0)
            return code, said.read().decode(errors="replace")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def environment(binaries: Path) -> dict[str, str]:
    """The environment of the commands: without settings of the caller."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORBWEAVER_", "AWS_"))}
    return {**kept, "PATH": f"{binaries}:{kept.get('PATH', '')}"}


def cluster(root: Path) -> tuple[str, dict[str, str]]:
    """The commands of the README that start the services, and their environment: a pipeline of its own on the servers of the test."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    block = next(block for block in readme.split("```sh\n")[1:] if "tests/stack up" in block)
    begin, found, _ = block.partition("\norbweaver crawl ")
    lines = [line for line in begin.splitlines() if "cargo build" not in line and "tests/stack up" not in line]
    if not found or len(begin.splitlines()) - len(lines) != 2:
        raise SystemExit("tests/handbook: the README does not start the services as expected")
    name = f"handbook{os.getpid()}"
    return "\n".join(lines).replace("/tmp/orbweaver-", "$PWD/state-"), {
        "ORBWEAVER_KAFKA__PREFIX": name, "ORBWEAVER_CQL__KEYSPACE": name, "ORBWEAVER_FETCHER__ALLOW_PRIVATE": "true",
        **{variable: os.environ[variable] for variable in ("ORBWEAVER_TEST_BROKERS", "ORBWEAVER_TEST_CQL")},
    }


def on_servers(text: str, root: Path) -> tuple[str, dict[str, str]]:
    """A script that starts the services first, with the prefix of the test for that of the text."""
    start, variables = cluster(root)
    text = re.sub(r"(?<=[\s])crawl\.(?=[a-z])", f"{variables['ORBWEAVER_KAFKA__PREFIX']}.", text)
    return f"set -e\n{start}\nset +e\n{text}", variables


def unknown_options(root: Path, binaries: Path) -> list[str]:
    """Options that the prose of a chapter names, and that no command has."""
    known: set[str] = set()
    queue = [(binaries / program, ()) for program in PROGRAMS]
    while queue:
        program, words = queue.pop()
        said = subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
        known |= set(re.findall(r"--[a-z][a-z0-9-]*", said))
        below = re.search(r"^Commands:\n((?:  .*\n)+)", said, re.MULTILINE)
        names = re.findall(r"^  ([a-z-]+) ", below[1], re.MULTILINE) if below and len(words) < 3 else []
        queue += [(program, (*words, name)) for name in names if name != "help"]
    found = []
    for path, text in book.written(root).items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        named = {option for span in re.findall(r"`([^`]+)`", prose) for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", span)}
        found += [f"{path}: there is no option {option}" for option in sorted(named - known)]
    return found


def run_chapters(root: Path, binaries: Path, kind: str):
    """Runs the blocks of this kind, several chapters at a time. Yields each chapter with what it wrote, if that is not as expected."""
    jobs = [(path, steps(path, text, kind)) for path, text in book.written(root).items()]

    def one(job: tuple[str, list[Step]]) -> tuple[str, list[str]]:
        path, found = job
        text, variables = script(found), environment(binaries)
        if kind == "sh,cluster":
            text, more = on_servers(text, root)
            variables |= more
        code, said = run(with_own_ports(text), variables)
        if code == -1:
            said += f"\nafter {PATIENCE_SECONDS} s it has not ended"
        return f"{path}: {len(found)} commands", said.splitlines()[-40:] if code else []

    # On servers one after the other: each chapter starts all services.
    with ThreadPoolExecutor(4 if kind == "sh" else 1) as pool:
        yield from pool.map(one, [job for job in jobs if job[1]])
