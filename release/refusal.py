"""The one way in which a release is refused."""

import subprocess
from pathlib import Path


class Refused(Exception):
    """A reason not to release, as one line for the person who releases."""


def output(*command: str, root: Path, env: dict | None = None) -> str:
    """Runs a command in the checkout and returns its output; a failure refuses the release with the first error that it printed."""
    try:
        ended = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Refused(f"{command[0]} is not installed") from None
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        said = next((line for line in lines if line.startswith(("error", "fatal"))), (lines or ["no message"])[-1])
        raise Refused(f"{' '.join(command[:2])} failed: {said}")
    return ended.stdout
