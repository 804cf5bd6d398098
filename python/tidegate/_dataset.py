"""The files of a dataset, which the program or Spark wrote."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._errors import DatasetError, reason
from ._local import LocalRows
from ._misjudged import USUAL_BASIS
from ._rows import no_rows

if TYPE_CHECKING:
    import polars as pl

#: What names the basis in the notes on the column `detector`, in a data frame of Spark and in the files that it writes.
BASIS_NOTE = "basis"
#: Where Spark keeps its notes on columns.
_NOTES_OF_SPARK = "org.apache.spark.sql.parquet.row.metadata"


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


def basis_of(dataset: str | os.PathLike[str], files: list[Path]) -> str:
    """What was judged together: as `tidegate detect --dataset` notes it, and as the first of these files says that Spark wrote."""
    about = Path(dataset) / "dataset.json"
    try:
        of_program = basis_in(about.read_bytes(), str(about))
    except FileNotFoundError:
        of_program = None
    of_spark = next((_basis_in_file(file) for file in files if file.name.startswith("part-")), None)
    return one_basis(of_program, of_spark)


def one_basis(*bases: str | None) -> str:
    """The basis of rows whose parts have these, as far as it is known: an unusual one if there is any."""
    return next((basis for basis in bases if basis not in (None, USUAL_BASIS)), None) or USUAL_BASIS


def basis_in(note: str | bytes, name: str) -> str | None:
    """The basis, as the note of `tidegate detect --dataset` in a file of this name says."""
    try:
        basis: str | None = dict(json.loads(note)["settings"]).get("--basis")
        return basis
    except (ValueError, KeyError, TypeError) as problem:
        raise DatasetError(name, f"it is damaged: {problem!r}") from None


def _basis_in_file(file: Path) -> str | None:
    import polars as pl

    with damage_in([file]):
        notes = pl.read_parquet_metadata(file)
    fields = json.loads(notes.get(_NOTES_OF_SPARK, '{"fields": []}'))["fields"]
    basis: str | None = next((field["metadata"].get(BASIS_NOTE) for field in fields if field["name"] == "detector"), None)
    return basis


def of_hours(files: list[Path], is_wanted: Callable[[datetime], bool]) -> list[Path]:
    """The files with rows of these hours. There is one in any case, which says what the columns are."""
    hours = ((file, hour_of(file)) for file in files)
    return [file for file, hour in hours if hour is not None and is_wanted(hour)] or files[:1]


def rows_of(dataset: str | os.PathLike[str], files: list[Path]) -> LocalRows:
    """The rows in these files of a dataset."""
    import polars as pl

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
