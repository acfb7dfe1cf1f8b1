"""The program under test as processes: a crawl with a console, and the results of one; with the address that each prints."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
BINARIES = Path(os.environ.get("ORBWEAVER_BINARIES") or Path(os.environ.get("CARGO_TARGET_DIR") or CACHE / "orbweaver/target") / "debug")
ORBWEAVER = BINARIES / "orbweaver"
PATIENCE = 60


class Program:
    """A process and the address of its console."""

    def __init__(self, process, log):
        self.process, self.log, self.address = process, log, None

    def await_address(self, pattern):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = re.search(pattern, self.log.read_text())
            if found:
                self.address = found[1].rstrip("/")
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit(f"{self.process.args}: no address\n{self.log.read_text()}")

    def suspend(self):
        self.process.send_signal(signal.SIGSTOP)

    def proceed(self):
        self.process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def running(arguments, log, pattern):
    """A process with an address, for as long as the `with` lasts."""
    if not ORBWEAVER.is_file():
        raise SystemExit(f"{ORBWEAVER} is missing: build it first (cargo build -p orbweaver)")
    with log.open("w") as out:
        process = subprocess.Popen([ORBWEAVER, *map(str, arguments)], stdout=out, stderr=out)
        try:
            program = Program(process, log)
            program.await_address(pattern)
            yield program
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def crawl(directory, *options):
    """A crawl with a console on a free port, which its results have, too."""
    arguments = ["crawl", *options, "--console", f"127.0.0.1:{free_port()}", "--out", directory / "crawl"]
    return running(arguments, directory / "crawl.log", r"console: (http://\S+)")


def serve(directory, *options):
    """The results of the crawl."""
    return running(["serve", directory / "crawl", "--listen", "127.0.0.1:0", *options], directory / "serve.log", r"at (http://\S+)")


def crawl_to_its_end(directory, *options):
    subprocess.run([ORBWEAVER, "crawl", *options, "--out", directory / "crawl"], check=True, capture_output=True, timeout=120)
