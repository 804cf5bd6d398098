"""`python -m tidegate report DATASET`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from ._changes import watch
from ._report import report


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tidegate")
    commands = options.add_subparsers(required=True)
    about = commands.add_parser("report", help="what a dataset of `tidegate detect --dataset` says of networks")
    about.add_argument("dataset")
    about.add_argument("--since", metavar="DAY", help="count segments from this day on (UTC), such as 2026-11-22")
    about.add_argument("--until", metavar="DAY", help="count segments up to this day, which counts too")
    about.add_argument("--save", metavar="DIR", help="write report.html and each table as Parquet")
    about.add_argument("--playback", metavar="FILE", help="a log of players (CSV or Parquet): tell also how policed playbacks rebuffer")
    about.add_argument("--watch", action="store_true", help="tell where loss or policing changed, each hour, until Ctrl-C")
    about.add_argument("--alert", metavar="COMMAND", help="with --watch: run this command for each change, with JSON on its input")
    about.add_argument("--least-clients", type=int, default=20, help="groups with fewer clients are only counted (20 unless you say another number)")
    given = options.parse_args()
    if given.watch and (given.since or given.until):
        options.error("--watch looks at the last hours: leave out --since and --until")
    try:
        if given.watch:
            watch(given.dataset, lambda change: tell(change, given.alert), least_clients=given.least_clients)
        made = report(
            given.dataset, since=given.since, until=given.until, least_clients=given.least_clients, playback=given.playback
        )
    except (OSError, ValueError) as problem:
        sys.exit(f"tidegate: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
    if given.save:
        made.save(given.save)
    print(made)


def tell(change: dict[str, Any], command: str | None) -> None:
    """Prints a change as JSON, and hands it to the command. One that fails is told, and the watch goes on."""
    line = json.dumps({**change, "hour": change["hour"].isoformat()})
    print(line, flush=True)
    if command is not None:
        ended = subprocess.run(["sh", "-c", command], input=line, text=True, check=False)
        if ended.returncode != 0:
            print(f"tidegate: the alert command failed with {ended.returncode}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
