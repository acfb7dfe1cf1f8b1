"""Services as processes on real servers, for tests in Python: started, awaited, stopped; topics and keyspace deleted."""

import contextlib
import os
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "orbweaver"
READY_WITHIN = 180


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def binary(name):
    target = Path(os.environ.get("CARGO_TARGET_DIR", CACHE / "target")) / "debug"
    path = Path(os.environ.get("ORBWEAVER_BIN_DIR", target)) / name
    if not path.exists():
        raise SystemExit(f"{path} is missing: build it first (cargo build --workspace --bins --all-features)")
    return path


@contextlib.contextmanager
def running(command, log, **how):
    """A process for as long as the `with` lasts: told to end, and ended when it does not."""
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=how.pop("stdout", out), stderr=out, **how)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def await_ready(service, address, process, log):
    deadline, answer = time.monotonic() + READY_WITHIN, "no answer"
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=5):
                return
        except urllib.error.HTTPError as error:
            answer = error.read().decode()
        except OSError as error:
            answer = str(error)
        time.sleep(0.2)
    raise SystemExit(f"{service} is not ready: {answer}\n{log.read_text()[-3000:]}")


def received(connection, count):
    """Exactly so many bytes."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise OSError("the server hung up")
        data += more
    return data


def drop_keyspace(server, keyspace):
    """Speaks just enough of the CQL binary protocol (version 4) for one statement."""
    host, port = server.split(",")[0].rsplit(":", 1)
    statement = f"DROP KEYSPACE IF EXISTS {keyspace}".encode()
    startup = struct.pack(">HH", 1, 11) + b"CQL_VERSION" + struct.pack(">H", 5) + b"3.0.0"
    query = struct.pack(">I", len(statement)) + statement + struct.pack(">HB", 1, 0)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        for opcode, body in ((1, startup), (7, query)):
            connection.sendall(struct.pack(">BBhBI", 4, 0, 0, opcode, len(body)) + body)
            received(connection, struct.unpack(">I", received(connection, 9)[5:])[0])


def delete_topics(brokers, prefix):
    """Speaks just enough of the Kafka protocol for one DeleteTopics (key 20, version 1)."""
    names = [f"{prefix}{path.stem.removeprefix('crawl')}".encode() for path in (ROOT / "schemas/topics").glob("crawl.*.yaml")]
    topics = b"".join(struct.pack(">H", len(name)) + name for name in names)
    request = struct.pack(">hhih", 20, 1, 1, -1) + struct.pack(">I", len(names)) + topics + struct.pack(">I", 30_000)
    host, port = brokers.split(",")[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(struct.pack(">I", len(request)) + request)
        received(connection, struct.unpack(">I", received(connection, 4))[0])


@contextlib.contextmanager
def services(names, folder, environment, cql, prefix):
    """Runs services, ready, with a keyspace named as the prefix. Yields name, address of HTTP, process and log of each."""
    settings = {
        **environment,
        "ORBWEAVER_CQL__NODES": cql,
        "ORBWEAVER_CQL__KEYSPACE": prefix,
        "ORBWEAVER_CQL__REPLICATION_FACTOR": "1",
        "ORBWEAVER_FETCHER__ALLOW_PRIVATE": "true",
        # The brokers of tests/stack end a session after 6 s.
        "ORBWEAVER_RUNTIME__FROZEN_AFTER": "3s",
        "ORBWEAVER_FETCHER__CONNECT_TIMEOUT": "2s",
        "ORBWEAVER_FETCHER__HEADERS_TIMEOUT": "2s",
        "ORBWEAVER_FETCHER__REQUEST_TIMEOUT": "2s",
        "ORBWEAVER_RATE_LIMITER__RATE": "10/s",
        "ORBWEAVER_STATE__DIR": str(folder / "state"),
    }
    with contextlib.ExitStack() as stack:
        targets = []
        for name in names:
            address, log = f"127.0.0.1:{free_port()}", folder / f"{name}.log"
            command = [binary(f"orbweaver-{name}")]
            process = stack.enter_context(running(command, log, env={**settings, "ORBWEAVER_HTTP__LISTEN": address}, cwd=folder))
            targets.append((name, address, process, log))
        for target in targets:
            await_ready(*target)
        yield targets
