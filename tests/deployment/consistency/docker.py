"""The Dockerfile and .dockerignore."""

import fnmatch
import re

from .facts import Facts
from .findings import Finding, image


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions with their arguments; continued lines are joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    return [(word.upper(), rest.strip()) for word, _, rest in (line.strip().partition(" ") for line in joined.splitlines()) if word]


def check(text: str, ignore: str, facts: Facts) -> list[Finding]:
    """All findings."""
    where, steps = "Dockerfile", instructions(text)
    found, defaults = [], {}
    for word, rest in steps:
        if word == "ARG" and "=" in rest:
            defaults.setdefault(*rest.partition("=")[::2])
    for name, expected in (("RUST_VERSION", facts.toolchain), ("VERSION", facts.version)):
        if defaults.get(name) != expected:
            found.append(Finding(where, f"ARG {name} is {defaults.get(name)}, the workspace has {expected}"))
    stages = [rest.split() for word, rest in steps if word == "FROM"]
    names = {stage[2] for stage in stages if len(stage) == 3}
    for stage in stages:
        base = re.sub(r"\$\{(\w+)\}", lambda found: defaults.get(found[1], ""), stage[0])
        if base not in names:
            found += image(where, base)
    found += build(where, steps, facts)
    found += last_stage(where, steps, facts)
    return found + context(ignore, facts)


def build(where: str, steps: list[tuple[str, str]], facts: Facts) -> list[Finding]:
    """Every program of the deployment is built, with TLS, and nothing else is asked for."""
    found = []
    command = next((rest for word, rest in steps if word == "RUN" and "cargo build" in rest), "")
    built = set(re.findall(r"--package (\S+)", command))
    wanted = {service.binary for service in facts.services.values()} | {"orbweaver"}
    for name in sorted(built ^ wanted):
        found.append(Finding(where, f"{name} is {'built, but no program of a cluster' if name in built else 'not built'}"))
    installed = set(re.findall(r"target/dist/(\S+)", command))
    for name in sorted(built ^ installed):
        found.append(Finding(where, f"{name} is {'not copied' if name in built else 'copied, but not built'} to /out"))
    for name in sorted(built - facts.programs):
        found.append(Finding(where, f"{name} is built, and the workspace has no such binary"))
    if "--features tls" not in command or "--locked" not in command:
        found.append(Finding(where, "cargo build needs --features tls and --locked"))
    for name in sorted((built & facts.programs) - facts.with_tls):
        found.append(Finding(where, f"{name} is not built by --features tls: the package has no such feature, or it does not turn on what the binary requires"))
    return found


def last_stage(where: str, steps: list[tuple[str, str]], facts: Facts) -> list[Finding]:
    """What runs: not as root, no shell, ports, signal."""
    start = max((i for i, (word, _) in enumerate(steps) if word == "FROM"), default=0)
    last = steps[start:]
    found = []
    only = {word: rest for word, rest in last}
    if not re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", only.get("USER", "")):
        found.append(Finding(where, f"USER is {only.get('USER')}; Kubernetes can check only a number, and not 0"))
    if "distroless" not in only.get("FROM", "") or any(word == "RUN" for word, _ in last):
        found.append(Finding(where, "the last stage has a shell"))
    if only.get("STOPSIGNAL") != "SIGTERM":
        found.append(Finding(where, "STOPSIGNAL is not SIGTERM"))
    if not only.get("ENTRYPOINT", "").startswith("["):
        found.append(Finding(where, "ENTRYPOINT is not a JSON array, so that a shell would get the signals"))
    copied = re.findall(r"^--from=\S+ (\S+) /usr/local/bin/$", "\n".join(rest for word, rest in last if word == "COPY"), re.MULTILINE)
    if copied != ["/out/"] or only.get("ENTRYPOINT", "").strip('[]"').rpartition("/")[0] != "/usr/local/bin":
        found.append(Finding(where, "the programs in /out are not in /usr/local/bin, where deployments start them"))
    exposed = {int(port) for port in only.get("EXPOSE", "").split() if port.isdigit()}
    ports = {service.port for service in facts.services.values()}
    if exposed != ports:
        found.append(Finding(where, f"EXPOSE says {sorted(exposed)}, the binaries listen on {sorted(ports)}"))
    if "org.opencontainers.image.version" not in only.get("LABEL", ""):
        found.append(Finding(where, "the label org.opencontainers.image.version is missing"))
    return found


def context(ignore: str, facts: Facts) -> list[Finding]:
    """Every member of the workspace reaches the builder: cargo loads all of them."""
    patterns = [line for line in ignore.splitlines() if line and not line.startswith("#")]

    def sent(path: str) -> bool:
        last = True
        for pattern in patterns:
            name = pattern.removeprefix("!")
            above = ["/".join(path.split("/")[: n + 1]) for n in range(path.count("/") + 1)]
            if any(fnmatch.fnmatch(part, name) for part in above):
                last = pattern.startswith("!")
        return last

    needed = sorted(facts.members | {"Cargo.toml", "Cargo.lock", "schemas"})
    return [Finding(".dockerignore", f"{path} does not reach the builder") for path in needed if not sent(path)] + [
        Finding(".dockerignore", f"{path} reaches the builder") for path in (".git", "target") if sent(path)
    ]
