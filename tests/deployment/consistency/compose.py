"""docker-compose.yml."""

import re
from pathlib import Path

from .facts import Facts, seconds
from .findings import Finding, grace, hosts, image, listens, program, required, variables


def check(document: dict, facts: Facts) -> list[Finding]:
    """All findings in a compose file, read as YAML."""
    services = document.get("services", {})
    found = []
    for name, service in services.items():
        found += any_service(name, service, services, facts)
        if is_ours(service):
            found += ours(name, service, services, facts)
    builders = [name for name, service in services.items() if "build" in service]
    if len(builders) != 1:
        found.append(Finding("services", f"{len(builders)} of them build the image, not one"))
    deployed = {program(service.get("entrypoint")) for service in services.values()}
    for service in facts.services.values():
        if service.binary not in deployed:
            found.append(Finding("services", f"{service.binary} is not among them"))
    return found


def is_ours(service: dict) -> bool:
    """Whether it runs a program of the project."""
    return any(key.startswith("ORBWEAVER_") for key in environment(service)) or "build" in service


def environment(service: dict) -> dict[str, str | None]:
    """The variables of a service, from either form."""
    given = service.get("environment") or {}
    if isinstance(given, list):
        given = dict(entry.partition("=")[::2] for entry in given)
    return {name: None if value is None else str(value) for name, value in given.items()}


def any_service(name: str, service: dict, services: dict, facts: Facts) -> list[Finding]:
    """What holds for every container."""
    found = image(name, service.get("image", ""))
    for port in service.get("ports", []):
        host = port.get("host_ip", "") if isinstance(port, dict) else (re.match(r"(\[[^]]*\]|[\d.]+):[\d-]*:", str(port)) or [""])[0]
        if not re.match(r"127\.|\[::1\]|::1$", host):
            found.append(Finding(name, f"the port {port} is not published on loopback alone"))
    if service.get("network_mode") == "host":
        found.append(Finding(name, "network_mode host publishes every port"))
    for other, how in (service.get("depends_on") or {}).items():
        target = services.get(other)
        if target is None:
            found.append(Finding(name, f"depends on {other}, which there is not"))
        elif how["condition"] == "service_healthy" and "healthcheck" not in target:
            found.append(Finding(name, f"waits for {other} to be healthy, which has no healthcheck"))
        elif how["condition"] == "service_completed_successfully" and target.get("restart") != "no":
            found.append(Finding(name, f"waits for {other} to end, which is started again whenever it ends"))
    for volume in service.get("volumes", []):
        source = str(volume).partition(":")[0]
        if source.startswith("./") and not (facts.files / source).exists():
            found.append(Finding(name, f"mounts {source}, which there is not"))
    if "limits" not in service.get("deploy", {}).get("resources", {}):
        found.append(Finding(name, "has no limit of memory and processors"))
    return found


def ours(name: str, service: dict, services: dict, facts: Facts) -> list[Finding]:
    """What holds for the programs of the project."""
    found, variables_of = [], environment(service)
    binary = program(service.get("entrypoint"))
    if binary not in facts.programs:
        found.append(Finding(name, f"starts {binary}, and the workspace has no such binary"))
    if "build" not in service and service.get("pull_policy") != "never":
        found.append(Finding(name, "does not build its image, which no registry has: it needs pull_policy never"))
    found += image(name, service.get("image", ""), f"orbweaver:{facts.version}")
    found += variables(name, [key for key in variables_of if key.startswith("ORBWEAVER_")], facts)
    for key in ("ORBWEAVER_KAFKA__BROKERS", "ORBWEAVER_CQL__NODES"):
        found += [Finding(name, f"{key} names {host}, which there is not") for host in hosts(variables_of.get(key) or "") if host not in services]
    if not service.get("read_only") or service.get("cap_drop") != ["ALL"] or "no-new-privileges:true" not in service.get("security_opt", []):
        found.append(Finding(name, "needs read_only, cap_drop [ALL] and no-new-privileges"))
    which = facts.by_binary(binary or "")
    if which is None:
        return found
    found += required(name, variables_of, which.name, facts)
    found += listens(name, variables_of.get("ORBWEAVER_HTTP__LISTEN"), which.port)
    period = service.get("stop_grace_period")
    found += grace(name, None if period is None else seconds(period), variables_of, facts)
    if facts.reads(which.name, "state.dir"):
        folder = variables_of.get("ORBWEAVER_STATE__DIR")
        targets = [str(volume).split(":")[1] for volume in service.get("volumes", [])]
        if folder not in targets:
            found.append(Finding(name, f"ORBWEAVER_STATE__DIR is {folder}, where no volume is: the index would be gone with the container"))
    return found


def commands(document: dict) -> list[tuple[str, str, dict[str, str]]]:
    """The services that are to be asked with --check-config: name, binary, environment."""
    result = []
    for name, service in document.get("services", {}).items():
        env = {key: interpolated(value or "") for key, value in environment(service).items() if key.startswith("ORBWEAVER_")}
        result.append((name, program(service.get("entrypoint")) or "", env))
    return result


def interpolated(text: str) -> str:
    """`${NAME:-default}` as it is when NAME is not set."""
    return re.sub(r"\$\{\w+(?::?-([^}]*))?\}", lambda found: found[1] or "", text)


def file_of(root: Path) -> Path:
    """Where it is."""
    return root / "docker-compose.yml"
