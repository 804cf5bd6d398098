"""Captures: rows of all transfers, and the story of one."""

import json
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any, Literal

from . import _native, _progress

By = Literal["segment", "flow", "client", "packet"]
Basis = Literal["segment", "connection", "client"]
PathLike = str | os.PathLike[str]


def each(given: PathLike | Iterable[PathLike]) -> list[Path]:
    """One path, or several."""
    return [Path(path) for path in ([given] if isinstance(given, (str, os.PathLike)) else given)]


def _captures(given: PathLike | Iterable[PathLike]) -> list[Path]:
    """The captures that the paths name. In folders, `tidegate detect` finds the same."""
    found: list[Path] = []
    for path in each(given):
        if path.is_dir():
            inside = _native.captures_in(path)
            if not inside:
                raise FileNotFoundError(f"{path}: no captures in this folder: none of its files is named or begins like one")
            found.extend(inside)
        else:
            found.append(path)
    return found


def _pieces(files: Iterable[Path]) -> list[tuple[str, Path]]:
    """Files with their names. Rows have text, and what is none in a name is replaced."""
    return [(os.fsencode(file).decode(errors="replace"), file) for file in files]


def check_threads(threads: int | None) -> None:
    """Refuses a number of threads that is below 0. With 0 there is one."""
    if threads is not None and threads < 0:
        raise ValueError(f"threads={threads}: it is 1 or more")


def read(
    paths: PathLike | Iterable[PathLike],
    by: By = "segment",
    *,
    detector: str = "tidegate",
    basis: Basis | None = None,
    errors: Literal["raise", "keep"] = "raise",
    threads: int | None = None,
    join: bool = False,
    asn: PathLike | Iterable[PathLike] = (),
    sampled: float | Literal["header"] | None = None,
    progress: bool | None = None,
) -> _native.Rows:
    """Rows of captures: what `tidegate detect --by …` gives, with the same columns.

    The result is an Arrow stream (`__arrow_c_stream__`): give it to `polars.DataFrame`, `pyarrow.table`,
    `pandas.DataFrame.from_arrow`, or to DuckDB by way of pyarrow. Or iterate over it: it gives batches, as they come.
    Captures are read when somebody takes the rows, on other threads, and again when somebody takes them again.

    `errors="raise"` ends the reading at the first bad capture. A loop over the rows raises `CaptureError`; a library that
    takes the stream raises an error of its own, with the same text. With `errors="keep"` the rows up to the damage and the
    other captures are read. In both cases the attribute `problems` of the result has the errors afterwards.

    `threads` is how many captures are read at the same time: by default, as many as there are processor cores.

    `join=True` takes all files as the pieces of one capture, as `tcpdump -G` and `tidegate sample` write them: a flow may
    begin in one and end in another.

    `asn` names tables of networks (MMDB). Segments get the columns that datasets have beside those of segments: the
    client's network, country and continent, and `sampled_fraction`: the share of all flows that the captures hold. It is
    `sampled`, or what the captures of `tidegate sample` say of themselves, or 1. `sampled` adds these columns too;
    `sampled="header"` takes what the captures say.

    `progress` shows how far the reading is: by default, in terminals and notebooks, if it takes longer than a second.
    """
    if errors not in ("raise", "keep"):
        raise ValueError(f'errors={errors!r}: it is "raise" or "keep"')
    check_threads(threads)
    files = _captures(paths)
    pieces = _pieces(files)
    captures = [pieces] if join else [[piece] for piece in pieces]
    tables = each(asn)
    networks = _native.Networks(tables) if tables else None
    shown = _progress.somebody_looks() if progress is None else progress
    bar = partial(_progress.Bar, sum(file.stat().st_size for file in files if file.is_file())) if shown else None
    return _native.read(captures, by, detector, basis, errors == "raise", threads, networks, sampled, bar)


class Explanation:
    """What limited a transfer. A notebook shows its picture."""

    def __init__(self, data: dict[str, Any], svg: str) -> None:
        #: Everything that is known, as docs/reference/explain.md describes it.
        self.data = data
        #: The picture.
        self.svg = svg

    @property
    def headline(self) -> str:
        """The verdict as a sentence."""
        return str(self.data["headline"])

    @property
    def verdict(self) -> str:
        """The cause: policer, queue, aqm …"""
        return str(self.data["verdict"])

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __repr__(self) -> str:
        return f"<Explanation: {self.headline}>"

    def _repr_svg_(self) -> str:
        return self.svg


def explain(
    path: PathLike | Iterable[PathLike],
    *,
    flow: int | None = None,
    segment: int | None = None,
    sender: Literal["client", "server"] | None = None,
    detector: str = "tidegate",
    join: bool = False,
) -> Explanation:
    """What limited one transfer of a capture: by default the one that took longest.

    `flow` and `segment` are the numbers that `read` gives. `join=True` takes all files, or all captures in a folder, as the
    pieces of one capture, as `read` does. Raises `CaptureError` if the capture cannot be read, or does not
    hold the transfer.
    """
    if sender not in (None, "client", "server"):
        raise ValueError(f'sender={sender!r}: it is "client" or "server"')
    for name, number in (("flow", flow), ("segment", segment)):
        if number is not None and number < 0:
            raise ValueError(f"{name}={number}: it is a number that read gives, 0 or more")
    from_client = None if sender is None else sender == "client"
    if join:
        files = _captures(path)
    else:
        files = each(path)
        if len(files) != 1 or files[0].is_dir():
            raise ValueError("explain takes one capture: name it, or say join=True if these are the pieces of one")
    data, svg = _native.explain(_pieces(files), flow, segment, from_client, detector)
    return Explanation(json.loads(data), svg)
