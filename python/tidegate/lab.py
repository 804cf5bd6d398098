"""Simulations of senders, limiters and links, in virtual time."""

import errno
import os
from pathlib import Path
from typing import Any

from . import _native
from ._capture import check_threads

__all__ = ["Run", "examples", "run"]


def examples() -> dict[str, str]:
    """The scenarios that come with Tidegate: their names and texts."""
    return _native.examples()


class Run:
    """The tables of a run. Each one is an Arrow stream, which any data frame takes."""

    def __init__(self, tables: dict[str, _native.Table], captures: dict[str, bytes]) -> None:
        #: A row for each point of the sweep, over all its seeds.
        self.points = tables["points"]
        #: A row for each flow.
        self.flows = tables["flows"]
        #: A row for each window of time of an aggregate or a flow.
        self.windows = tables["windows"]
        #: A row for each element: its counts.
        self.elements = tables["elements"]
        #: A row for each time at which a queue was looked at.
        self.samples = tables["samples"]
        #: A row for each transfer that was completed.
        self.transfers = tables["transfers"]
        #: A row for each time at which a sender was looked at; empty unless the scenario asks for it.
        self.connections = tables["connections"]
        #: What the scenario's taps saw, as pcap files by name; empty unless they were asked for.
        self.captures = captures

    def __repr__(self) -> str:
        return f"<Run: {len(self.points)} points, {len(self.flows)} flows>"


def run(
    scenario: str | os.PathLike[str],
    *,
    captures: bool = False,
    threads: int | None = None,
    **changes: Any,
) -> Run:
    """Runs a scenario, with all points of its sweep and all its seeds.

    `scenario` is the name of an example, a file, or the text of a scenario. Each change replaces a value of it, and its
    sweep: `seed=7`, `duration="5s"`. For a key of a table, write two underscores: `gate__rate="5mbit"` is `gate.rate`. One
    underscore stands for a hyphen. A name with a dot is taken as it is: `**{"gate.rate": "5mbit"}`.

    `threads` is how many points are computed at the same time: by default, as many as there are processor cores.

    Raises ValueError if the scenario has a mistake, and FileNotFoundError if there is none of this name.
    """
    check_threads(threads)
    name, text = _text(scenario)
    settings = [f"{_key(key)}={_value(value)}" for key, value in changes.items()]
    tables, taps = _native.run(name, text, settings, captures, threads)
    return Run(tables, taps)


def _text(scenario: str | os.PathLike[str]) -> tuple[str, str]:
    if isinstance(scenario, str):
        if scenario in (known := examples()):
            return scenario, known[scenario]
        if "\n" in scenario:
            return "scenario", scenario
        if not Path(scenario).is_file():
            raise FileNotFoundError(
                errno.ENOENT, "this is no example, no file and no text of a scenario. tidegate.lab.examples() has the examples", scenario
            )
    return str(scenario), Path(scenario).read_text(encoding="utf-8")


def _key(name: str) -> str:
    return name if "." in name else name.replace("__", ".").replace("_", "-")


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
