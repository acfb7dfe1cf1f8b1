"""`python3 -m consistency ROOT docker|compose|monitoring|texts|chart|write-chart`, or `… ROOT kubernetes|literals FILE…`, or `… ROOT settings|operator DIR FILE…`.

Prints what is wrong, a line each; exit code 1 when there is anything, 70 when the code could not be read.
`settings` starts the binaries in DIR with `--check-config` and the variables of the compose file and of the objects in FILEs.
`operator` checks objects of the Prometheus Operator against the definitions in DIR, and their rules and dashboards against monitoring/.
`write-chart` writes the generated parts of the chart.
"""

import subprocess
import sys
from pathlib import Path

import yaml

from . import chart, compose, custom, docker, facts, kubernetes, literals, monitoring, texts
from .findings import Finding


def objects(file: str) -> list[dict]:
    """The Kubernetes objects of a file."""
    return [document for document in yaml.safe_load_all(Path(file).read_text()) if document]


def settings(binaries: Path, commands: list[tuple[str, str, dict[str, str]]], services: set[str]) -> list[Finding]:
    """Asks each binary of a service whether it would take its variables."""
    found = []
    for name, binary, environment in commands:
        if binary not in services:
            continue
        asked = subprocess.run(
            [binaries / binary, "--check-config"], env=environment, cwd="/", capture_output=True, text=True, timeout=30, check=False
        )
        if asked.returncode != 0:
            found.append(Finding(name, f"{binary} --check-config ends with {asked.returncode}: {asked.stderr.strip() or asked.stdout.strip()}"))
    return found


def main(root: str, what: str, *rest: str) -> list[Finding]:
    """The findings of one check."""
    base = Path(root).resolve()
    known = facts.read(base)
    document = yaml.safe_load(compose.file_of(base).read_text())
    match what:
        case "docker":
            return docker.check((base / "Dockerfile").read_text(), (base / ".dockerignore").read_text(), known)
        case "compose":
            return compose.check(document, known)
        case "monitoring":
            return monitoring.check(base, document, known)
        case "texts":
            return texts.check(base, known)
        case "kubernetes":
            return [finding for file in rest for finding in kubernetes.check(Path(file).stem, objects(file), known)]
        case "chart":
            return chart.check(base, known)
        case "write-chart":
            for file, text in chart.generated(base, known).items():
                file.write_text(text)
            return []
        case "operator":
            schemas = custom.schemas(Path(rest[0]))
            found = [finding for file in rest[1:] for finding in custom.check(Path(file).stem, objects(file), schemas)]
            return found + [finding for file in rest[1:] for finding in monitoring.copies(Path(file).stem, objects(file), base)]
        case "literals":
            made = [finding for file in rest for finding in literals.check_documents(Path(file).stem, objects(file), known)]
            return literals.check(base, known) + made
        case "settings":
            commands = compose.commands(document) + [entry for file in rest[1:] for entry in kubernetes.commands(objects(file))]
            return settings(Path(rest[0]), commands, {service.binary for service in known.services.values()})
    raise SystemExit(f"{what}: allowed: docker, compose, monitoring, texts, chart, write-chart, kubernetes, literals, operator and settings")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    try:
        findings = main(*sys.argv[1:])
    except facts.Unreadable as error:
        print(error)
        raise SystemExit(70) from error
    for finding in findings:
        print(finding)
    raise SystemExit(1 if findings else 0)
