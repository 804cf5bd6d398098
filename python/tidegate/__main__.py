"""`python -m tidegate report DATASET`."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from ._changes import watch
from ._errors import reason
from ._report import is_day, report

#: An alert command that takes longer is ended, so that it does not hold up what comes after it.
ALERT_SECONDS = 60


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
    _check(about, given)
    try:
        if given.watch:
            watch(given.dataset, lambda change: tell(change, given.alert), least_clients=given.least_clients)
        _report(given)
    except BrokenPipeError:
        # The reader of the summary has closed the pipe. Otherwise Python would report the lines that are left when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as problem:
        if not _expected(problem):
            raise
        sys.exit(f"tidegate: {reason(problem)}")


def _check(about: argparse.ArgumentParser, given: argparse.Namespace) -> None:
    """Ends with code 2 if words do not go together, or mean nothing."""
    for name in ("since", "until"):
        day = getattr(given, name)
        if day is not None and not is_day(day):
            about.error(f"--{name} is a day such as 2026-11-22, not {day!r}")
    if given.since and given.until and given.since > given.until:
        about.error("--since is later than --until")
    if given.least_clients < 1:
        about.error("--least-clients is 1 or more")
    if given.alert is not None and not given.watch:
        about.error("--alert needs --watch")
    if given.watch and (given.since or given.until):
        about.error("--watch looks at the last hours: leave out --since and --until")
    if given.watch and (given.save or given.playback):
        about.error("--watch makes no report: leave out --save and --playback")


def _report(given: argparse.Namespace) -> None:
    made = report(
        given.dataset, since=given.since, until=given.until, least_clients=given.least_clients, playback=given.playback
    )
    if given.save:
        made.save(given.save)
    print(made, flush=True)


def _expected(problem: Exception) -> bool:
    """Whether input or a disk is at fault."""
    if isinstance(problem, (OSError, ValueError)):
        return True
    # Nobody waits for polars before it is needed.
    import polars as pl

    return isinstance(problem, pl.exceptions.PolarsError)


def tell(change: dict[str, Any], command: str | None) -> None:
    """Prints a change as JSON, and hands it to the command. One that fails is told, and the watch goes on."""
    line = json.dumps({**change, "hour": change["hour"].isoformat()})
    print(line, flush=True)
    if command is not None:
        try:
            subprocess.run(["sh", "-c", command], input=line + "\n", text=True, check=True, timeout=ALERT_SECONDS)
        except subprocess.CalledProcessError as ended:
            print(f"tidegate: the alert command failed with {ended.returncode}", file=sys.stderr, flush=True)
        except subprocess.TimeoutExpired:
            print(f"tidegate: the alert command was ended: it took more than {ALERT_SECONDS} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
