"""The files of a dataset, which the program or Spark wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import DatasetError, reason
from ._local import LocalRows
from ._rows import no_rows

if TYPE_CHECKING:
    import polars as pl

def files_of(dataset: str | os.PathLike[str]) -> list[Path]:
    """The Parquet files with segments. What Spark has not finished is in folders whose names begin with an underscore: it does not count."""
    segments = Path(dataset) / "segments"
    if not segments.is_dir():
        raise FileNotFoundError(f"{dataset}: no dataset of `tidegate detect --dataset`")
    found = []
    # Folders may go meanwhile, which ends no walk.
    for folder, inside, names in os.walk(segments, followlinks=True):
        inside[:] = [name for name in inside if not name.startswith(("_", "."))]
        found += [Path(folder, name) for name in names if name.endswith(".parquet") and not name.startswith(("_", "."))]
    for file in found:
        if hour_of(file.relative_to(segments)) is None:
            raise DatasetError(str(file), "it is in no folder such as date=2026-11-22/hour=13")
    return sorted(found)


def hour_of(file: Path) -> datetime | None:
    """The hour of a file's rows, as its folders say. Spark writes hours without a zero in front."""
    place = dict(part.split("=", 1) for part in file.parent.parts if "=" in part)
    try:
        return datetime.fromisoformat(f"{place['date']}T{int(place['hour']):02}:00:00+00:00")
    except (KeyError, ValueError):
        return None


def settings_of(dataset: str | os.PathLike[str]) -> dict[str, str]:
    """How the captures were analysed, as `tidegate detect --dataset` notes it. What Spark wrote has no note."""
    about = Path(dataset) / "dataset.json"
    try:
        return dict(json.loads(about.read_bytes())["settings"])
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as problem:
        raise DatasetError(str(about), f"it is damaged: {problem!r}") from None


def rows_of(dataset: str | os.PathLike[str]) -> LocalRows:
    """The rows of a dataset."""
    import polars as pl

    files = files_of(dataset)
    if not files:
        raise ValueError(f"{dataset}: the dataset has no rows")
    # Versions of the program may have added columns, so files can lack some that others have. Spark has other types than the
    # program, so files with the same types are read together.
    schema = pl.DataFrame(no_rows()).schema
    # Polars takes the names of folders above the dataset for columns too.
    for folder in Path(dataset).parts:
        name, named, _ = folder.partition("=")
        if named and name in {*schema, "date", "hour"}:
            raise DatasetError(str(dataset), f"the folder {folder} above it is named like the column {name}: rename it, or read the dataset by a link")
    alike: dict[frozenset[tuple[str, Any]], list[Path]] = {}
    for file in files:
        with damage_in([file]):
            kinds = pl.scan_parquet(file, glob=False, hive_partitioning=False).collect_schema()
        others = frozenset((name, kind) for name, kind in kinds.items() if name in schema and schema[name] != kind)
        alike.setdefault(others, []).append(file)
    return LocalRows.of_dataset([_scan(these, {**schema, **dict(others)}) for others, these in alike.items()])


def _scan(files: list[Path], schema: dict[str, Any]) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_parquet(
        files,
        schema=schema,
        missing_columns="insert",
        extra_columns="ignore",
        # These are no patterns, whatever their folders are named.
        glob=False,
        hive_partitioning=True,
        try_parse_hive_dates=False,
    )


@contextmanager
def damage_in(files: list[Path]) -> Iterator[None]:
    """Says which of these files is damaged, if what is done fails and one of them is."""
    import polars as pl

    # Polars panics if a file gets shorter while it is read.
    failures = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
    try:
        yield
    except failures as problem:
        for file in files:
            try:
                pl.read_parquet(file, glob=False, hive_partitioning=False)
            except failures as damage:
                raise DatasetError(str(file), reason(damage)) from problem
        raise
