"""What is wrong, and the rules that hold for containers wherever they are described."""

import re
from dataclasses import dataclass

from .facts import Facts, path_of


@dataclass(frozen=True)
class Finding:
    """Something in a file that does not agree with the code, or breaks a rule."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def program(command: list[str] | str | None) -> str | None:
    """The name of the program that a command starts."""
    words = command.split() if isinstance(command, str) else command
    return words[0].rpartition("/")[2] if words else None


def image(where: str, name: str, expected: str | None = None) -> list[Finding]:
    """An image is pinned, by a tag other than `latest` or by a digest; ours has the version of the workspace."""
    if "@sha256:" in name:
        return []
    tag = name.rpartition("/")[2].partition(":")[2]
    if tag in ("", "latest"):
        return [Finding(where, f"the image {name} has no fixed tag")]
    if expected and name.rpartition("/")[2] != expected:
        return [Finding(where, f"the image is {name}, not {expected}")]
    return []


def variables(where: str, names, facts: Facts) -> list[Finding]:
    """Every variable is a key of the configuration."""
    found = []
    for name in sorted(names):
        path = path_of(name)
        if path is None:
            found.append(Finding(where, f"{name} is no variable of ours: those are ORBWEAVER_SECTION__NAME"))
        elif facts.key(path) is None:
            found.append(Finding(where, f"{name} names the key {path}, which there is not"))
    return found


def required(where: str, names, service: str, facts: Facts) -> list[Finding]:
    """Every key without which the service does not start is set."""
    paths = {path_of(name) for name in names}
    return [Finding(where, f"the key {key.path} must be set and is not") for key in facts.required(service) if key.path not in paths]


def listens(where: str, address: str | None, port: int) -> list[Finding]:
    """A service in a container listens on all of the container's addresses, on the port that the rest of the files expect."""
    if address is None:
        return [Finding(where, "ORBWEAVER_HTTP__LISTEN is not set; the default is loopback, which nobody reaches from outside")]
    host, _, number = address.rpartition(":")
    if host not in ("0.0.0.0", "[::]"):
        return [Finding(where, f"it listens on {address}, which nobody reaches from outside")]
    return [] if number == str(port) else [Finding(where, f"it listens on port {number}, the default of its binary is {port}")]


def grace(where: str, given: float | None, environment: dict, facts: Facts) -> list[Finding]:
    """A process has the time to end in order."""
    least = facts.least_grace(environment)
    if given is None or given < least:
        return [Finding(where, f"it gets {given or 'the default of'} seconds to end; the budgets of the process need {least:g}")]
    return []


def hosts(servers: str) -> list[str]:
    """The hosts of `HOST:PORT,HOST:PORT`."""
    return [re.sub(r":\d+$", "", server.strip()) for server in servers.split(",") if server.strip()]
