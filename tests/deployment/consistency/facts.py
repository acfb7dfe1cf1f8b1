"""What the code says."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

# A supervisor waits so much longer than a process takes to end, in seconds.
MARGIN = 10


class Unreadable(Exception):
    """The code no longer looks as this reader expects; then it has to be taught, and must not pass for agreement."""


@dataclass(frozen=True)
class Key:
    """A key of the configuration."""

    path: str
    default: str | None
    required: bool
    services: frozenset[str]
    # Which of its values are redacted, as `HiddenBy` in the code: all, which are secrets (kind), those whose name says so (name),
    # or all, of which those are secrets whose name says so (caution).
    secret: str | None = None

    def matches(self, path: str) -> bool:
        """Whether a path names this key; `.*` at the end stands for any name."""
        if self.path.endswith("*"):
            return path.startswith(self.path[:-1]) and len(path) >= len(self.path)
        return path == self.path


@dataclass(frozen=True)
class Service:
    """A service that is a process of its own."""

    name: str
    binary: str
    port: int


@dataclass(frozen=True)
class Facts:
    """All that the files of the deployment have to agree with."""

    services: dict[str, Service]
    keys: list[Key]
    secret_names: frozenset[str]
    programs: frozenset[str]
    with_tls: frozenset[str]
    members: frozenset[str]
    routes: frozenset[str]
    topics: frozenset[str]
    metrics: frozenset[str]
    version: str
    toolchain: str
    files: Path = field(default=Path("."))

    def key(self, path: str) -> Key | None:
        """The key that a path names."""
        return next((key for key in self.keys if key.matches(path)), None)

    def is_secret(self, path: str) -> bool:
        """Whether the value at a path is a secret, by the same rule as `HiddenBy::is_secret` in the code."""
        key = self.key(path)
        if key is None or key.secret is None:
            return False
        return key.secret == "kind" or any(name in path.lower() for name in self.secret_names)

    def by_binary(self, binary: str) -> Service | None:
        """The service with this binary."""
        return next((service for service in self.services.values() if service.binary == binary), None)

    def required(self, service: str) -> list[Key]:
        """The keys without which a service does not start."""
        return [key for key in self.keys if key.required and service in key.services]

    def reads(self, service: str, path: str) -> bool:
        """Whether a service reads a key."""
        return any(service in key.services for key in self.keys if key.path == path)

    def least_grace(self, environment: dict[str, str | None]) -> float:
        """The seconds that a supervisor has to wait after SIGTERM, with these variables."""
        budgets = []
        for name in ("shutdown_budget", "drain_budget"):
            key = self.key(f"runtime.{name}")
            if key is None or key.default is None:
                raise Unreadable(f"runtime.{name} has no default")
            budgets.append(seconds(environment.get(f"ORBWEAVER_RUNTIME__{name.upper()}") or key.default))
        return max(budgets) + MARGIN


def path_of(variable: str) -> str | None:
    """The key that a variable of the environment names; none for names without `__`, which are not ours."""
    section, found, rest = variable.removeprefix("ORBWEAVER_").removesuffix("_FILE").partition("__")
    if not variable.startswith("ORBWEAVER_") or not found or not section:
        return None
    return f"{section}.{rest.replace('__', '.')}".lower()


def seconds(text: str) -> float:
    """A time as the configuration and compose write it: `500ms`, `45s`, `1m30s`, `2h`."""
    units = {"ms": 0.001, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
    parts = re.findall(r"(\d+)\s*(ms|sec|s|min|m|h)(?![a-z])", text)
    if not parts or re.sub(r"(\d+)\s*(ms|sec|s|min|m|h)\s*", "", text):
        raise ValueError(f"{text!r} is no time such as 45s or 1m30s")
    return sum(int(number) * units[unit] for number, unit in parts)


def some(found, what: str):
    """What was found, or a complaint that nothing was."""
    if not found:
        raise Unreadable(f"no {what} found: the code was moved or is written in another way; teach tests/deployment/consistency/facts.py")
    return found


def read_services(reference: dict) -> dict[str, Service]:
    """The services by name, from the generated reference."""
    ports = {name: int(listen.rpartition(":")[2]) for name, listen in some(reference.get("services"), "services").items()}
    return {name: Service(name, f"orbweaver-{name}", port) for name, port in ports.items()}


def read_keys(reference: dict) -> list[Key]:
    """The keys, from the generated reference."""
    keys = [
        Key(path, key["default"], key["required"], frozenset(key["services"]), key["secret"])
        for path, key in some(reference.get("keys"), "keys").items()
    ]
    some([key for key in keys if key.secret], "secret keys")
    return keys


def read_secret_names(source: str) -> frozenset[str]:
    """The parts of names that mark properties and headers as secret, from `secret.rs`."""
    body = re.search(r"const SECRET_NAMES: \[&str; (\d+)\] = \[([^\]]*)\]", source)
    names = re.findall(r'"([^"]+)"', body.group(2)) if body else []
    if body and len(names) != int(body.group(1)):
        raise Unreadable("SECRET_NAMES has another number of names than were read")
    return frozenset(some(names, "SECRET_NAMES"))


def builds_with_tls(package: dict, target: dict) -> bool:
    """Whether `--features tls` builds this binary: cargo leaves out one whose required features are not on, without a word."""
    on, next_ones = set(), ["tls", "default"] if "tls" in package["features"] else []
    while next_ones:
        feature = next_ones.pop()
        if feature not in on:
            on.add(feature)
            next_ones += package["features"].get(feature, [])
    return "tls" in on and on >= set(target.get("required-features", []))


def read(root: Path) -> Facts:
    """Reads the code below `root`."""
    reference = json.loads((root / "docs/configuration.json").read_text())
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"], cwd=root, check=True, capture_output=True, text=True
    )
    packages = json.loads(metadata.stdout)["packages"]
    sources = [path for part in ("crates", "services") for path in (root / part).glob("*/src/**/*.rs")]
    routes = [
        route
        for source in ("crates/process/src/http.rs", "crates/http-server/src/metrics.rs")
        for route in re.findall(r'\.route\(\s*"(/\w+)"', (root / source).read_text())
    ]
    return Facts(
        services=read_services(reference),
        keys=read_keys(reference),
        secret_names=read_secret_names((root / "crates/settings/src/secret.rs").read_text()),
        programs=frozenset(some([t["name"] for p in packages for t in p["targets"] if "bin" in t["kind"]], "binaries")),
        with_tls=frozenset(t["name"] for p in packages for t in p["targets"] if "bin" in t["kind"] and builds_with_tls(p, t)),
        members=frozenset(str(Path(p["manifest_path"]).parent.relative_to(root)) for p in packages),
        routes=frozenset(some(routes, "routes")),
        topics=frozenset(some([path.stem for path in (root / "schemas/topics").glob("*.yaml")], "topics")),
        metrics=frozenset(some([n for s in sources for n in re.findall(r'"(orbweaver_[a-z0-9_]+)"', s.read_text())], "metrics")),
        version=some(re.search(r'^version = "([^"]+)"', (root / "Cargo.toml").read_text(), re.MULTILINE), "version").group(1),
        toolchain=some(re.search(r'channel = "([^"]+)"', (root / "rust-toolchain.toml").read_text()), "toolchain").group(1),
        files=root,
    )
