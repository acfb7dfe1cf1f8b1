#!/usr/bin/env python3
"""Writes the dashboards below monitoring/grafana/dashboards. Standard library only.

    monitoring/grafana/build.py           writes them
    monitoring/grafana/build.py --check   exits with 1 when one is not up to date
"""

import json
import sys
from pathlib import Path

from overview import overview

FOLDER = Path(__file__).resolve().parent / "dashboards"
DASHBOARDS = {"overview.json": overview}


def text(dashboard):
    return json.dumps(dashboard, indent=2, ensure_ascii=False) + "\n"


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__.strip(), file=sys.stderr)
        return 64
    stale = []
    for name, make in DASHBOARDS.items():
        path, made = FOLDER / name, text(make())
        if arguments:
            stale += [name] if not path.exists() or path.read_text() != made else []
        else:
            path.write_text(made)
    if stale:
        print(f"not up to date: {', '.join(stale)}; run monitoring/grafana/build.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
