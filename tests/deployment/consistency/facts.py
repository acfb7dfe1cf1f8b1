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
    # Which of its values are redacted, as in the code: Never, Always or ByName.
    secret: str = "Never"
    # Whether its redacted values are secrets whatever their names.
    holds_secrets: bool = False

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
        """Whether the value at a path is a secret, by the same rule as `Key::is_secret` in the code."""
        key = self.key(path)
        named = any(name in path.lower() for name in self.secret_names)
        if key is None or key.secret == "Never" or (key.secret == "ByName" and not named):
            return False
        return key.holds_secrets or named

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


def words_of(source: str, function: str) -> dict[str, str]:
    """The arms of `const fn FUNCTION`: from the variant to its text."""
    body = re.search(rf"const fn {function}\(self\) -> &'static str \{{\s*match self \{{(.*?)\}}", source, re.DOTALL)
    arms = re.findall(r'Self::(\w+) => "([^"]*)"', body.group(1)) if body else []
    return dict(some(arms, f"arms of fn {function}"))


def read_services(source: str) -> dict[str, Service]:
    """The services by variant, from `service.rs`."""
    names, binaries, listens = (words_of(source, fn) for fn in ("name", "binary", "default_listen"))
    if not names.keys() == binaries.keys() == listens.keys():
        raise Unreadable("name, binary and default_listen know different services")
    return {variant: Service(names[variant], binaries[variant], int(listens[variant].rpartition(":")[2])) for variant in names}


def read_keys(source: str, services: dict[str, Service]) -> list[Key]:
    """The tables of keys, from the files in `keys`. `services` are by variant."""
    sets = {"ALL": frozenset(service.name for service in services.values())}
    for name, variants in re.findall(r"const (\w+): &\[ServiceId\] = &\[([^\]]*)\]", source):
        sets[name] = frozenset(services[variant].name for variant in re.findall(r"ServiceId::(\w+)", variants))
    table = "".join(part.partition("\n];")[0] for part in re.split(r"const KEYS: &\[Key\]", source)[1:])
    keys = []
    for entry in re.split(r"Key::new\(", table)[1:]:
        name = re.match(r'\s*\(\s*"([a-z_]+)",\s*"([a-z_.*]+)",?\s*\)', entry)
        readers = [word for word in re.findall(r",\s*([A-Z]+)\s*,", entry) if word in sets]
        if not name or not readers:
            raise Unreadable(f"a key that cannot be read: {entry[:60]!r}")
        default = re.search(r'\.is\((?:concat!\()?"([^"]*)"', entry)
        secret = re.search(r"\.secret\(Secret::(Never|Always|ByName)\)", entry)
        kind = re.search(r"\bKind::(\w+)", entry)
        if not kind or (".secret(" in entry and not secret):
            raise Unreadable(f"a key whose kind or secrecy cannot be read: {entry[:60]!r}")
        keys.append(
            Key(
                ".".join(name.groups()),
                default and default.group(1),
                ".required()" in entry,
                sets[readers[0]],
                secret.group(1) if secret else "Never",
                kind.group(1) == "Secret",
            )
        )
    some([key for key in keys if key.secret != "Never"], "secret keys")
    return some(keys, "keys")


def read_secret_names(source: str) -> frozenset[str]:
    """The parts of names that mark properties and headers as secret, from `key.rs`."""
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
    process = root / "crates/process/src"
    by_variant = read_services((process / "service.rs").read_text())
    metadata = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"], cwd=root, check=True, capture_output=True, text=True
    )
    packages = json.loads(metadata.stdout)["packages"]
    sources = [path for part in ("crates", "services") for path in (root / part).glob("*/src/**/*.rs")]
    routes = re.findall(r'\.route\(\s*"(/\w+)"', (process / "http.rs").read_text())
    return Facts(
        services={service.name: service for service in by_variant.values()},
        keys=read_keys(
            "".join((process / f"configuration/keys/{part}.rs").read_text() for part in ("connections", "services")), by_variant
        ),
        secret_names=read_secret_names((process / "configuration/key.rs").read_text()),
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
