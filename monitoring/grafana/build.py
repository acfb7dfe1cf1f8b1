#!/usr/bin/env python3
"""Writes the dashboards below monitoring/grafana/dashboards. Standard library only.

    monitoring/grafana/build.py           writes them
    monitoring/grafana/build.py --check   exits with 1 when one is not up to date
"""

import json
import sys
from pathlib import Path

from boards import across, overview, stages

FOLDER = Path(__file__).resolve().parent / "dashboards"


def made():
    """All dashboards, by file name."""
    every = [overview.overview(), *stages.all_stages(), *across.all_across()]
    return {f"{dashboard['uid'].removeprefix('orbweaver-')}.json": text(dashboard) for dashboard in every}


def text(dashboard):
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__.strip(), file=sys.stderr)
        return 64
    wanted, present = made(), {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    if not arguments:
        for name in present.keys() - wanted.keys():
            (FOLDER / name).unlink()
        for name, content in wanted.items():
            (FOLDER / name).write_text(content)
        return 0
    stale = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if stale:
        print(f"not up to date: {', '.join(stale)}; run monitoring/grafana/build.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
