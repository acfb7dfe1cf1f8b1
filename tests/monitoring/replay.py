"""Expositions that were recorded from a running crawl: reads them, records them, and serves them with rising counters."""

import http.server
import re
import threading
import time
import urllib.request
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "expositions"
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def families(text):
    """The samples of an exposition: name, labels, value, and whether it only rises."""
    rises, found = False, []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            rises = line.rsplit(" ", 1)[1] in ("counter", "histogram")
        elif match := SAMPLE.match(line):
            name, labels, value = match.groups()
            found.append((name, dict(LABEL.findall(labels or "")), value, rises))
    return found


def raised(text, share):
    """The exposition with everything that only rises raised by a share of itself."""
    lines, rises = [], False
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            rises = line.rsplit(" ", 1)[1] in ("counter", "histogram")
        elif rises and (match := SAMPLE.match(line)):
            line = line[: match.start(3)] + repr(float(match.group(3)) * (1 + share))
        lines.append(line)
    return "\n".join(lines) + "\n"


def record(folder, targets):
    """Writes what targets answer, one file a service."""
    folder.mkdir(parents=True, exist_ok=True)
    for service, address in targets:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            (folder / f"{service}.prom").write_text(answer.read().decode())


class Replay:
    """Serves the expositions of a folder on loopback, each on a port of its own."""

    def __init__(self, folder):
        self.paths = sorted(folder.glob("*.prom")) if folder else []
        if folder and not self.paths:
            raise SystemExit(f"no expositions in {folder}")
        self.servers, self.targets = [], []

    def __enter__(self):
        begun = time.monotonic()
        for path in self.paths:
            text = path.read_text()

            class Handler(http.server.BaseHTTPRequestHandler):
                def do_GET(self, text=text):
                    body = raised(text, (time.monotonic() - begun) / 100).encode()
                    self.send_response(200)
                    self.send_header("Content-Type", "text/plain; version=0.0.4")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

                def log_message(self, *_):
                    pass

            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)
            self.targets.append((path.stem, f"127.0.0.1:{server.server_port}"))
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.shutdown()
            server.server_close()
