"""The report, of rows that Spark has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .._capture import Basis
from .._dataset import BASIS_NOTE, basis_in, one_basis
from .._misjudged import USUAL_BASIS, Errors, Tested
from .._report import Report, tables_of
from .._rows import no_rows
from . import _types
from ._rows import SparkRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Datasets have times in nanoseconds, Spark in microseconds.
_NANOSECONDS = 1000


def report(
    rows: DataFrame,
    *,
    least_clients: int = 20,
    detector_errors: Tested | None = None,
    detector_errors_of_lossy: Tested | None = None,
    playback: str | DataFrame | None = None,
    basis: Basis | None = None,
) -> Report:
    """The tables of `tidegate.report`, of segments that `analyse` made or `dataset` reads: equal to the last digit.

    Spark adds up. The driver gets sums for each group, and the tables are polars data frames here too. The rows are read
    once, and what the report needs of them is kept on the executors' disks meanwhile. `playback` is a data frame, or the address
    of CSV or Parquet files.

    `basis` says what was judged together: the measured errors of the detector hold for "client" only. Without it, the rows of
    `analyse` and `dataset` say it themselves, those that Spark wrote too, and others count as judged by client.
    """
    from pyspark import StorageLevel

    if basis not in (None, "segment", "connection", "client"):
        raise ValueError(f'basis={basis!r}: it is "segment", "connection" or "client"')
    is_usual = (basis or one_basis(_noted_basis(rows))) == USUAL_BASIS
    needed = SparkRows.of_dataset(rows)
    needed.rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        played = None if playback is None else needed.playbacks(_log(rows.sparkSession, playback))
        return tables_of(needed, least_clients, Errors(detector_errors, detector_errors_of_lossy), played, is_usual)
    finally:
        needed.rows.unpersist()


def _log(spark: SparkSession, log: str | DataFrame) -> DataFrame:
    if not isinstance(log, str):
        return log
    csv = log.endswith((".csv", ".csv.gz", ".csv.zst"))
    return spark.read.csv(log, header=True) if csv else spark.read.parquet(log)


def dataset(spark: SparkSession, folder: str) -> DataFrame:
    """The rows of a dataset, whose files `tidegate detect --dataset` or Spark wrote. Times have microseconds."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f
    from pyspark.sql.types import DecimalType, IntegerType, LongType, StringType, StructField, StructType

    columns = pa.schema(no_rows())
    times = [field.name for field in columns if pa.types.is_timestamp(field.type)]
    large = [field.name for field in columns if field.type == pa.uint64()]
    # As Spark's reader takes the types of the program.
    kinds = dict.fromkeys(times, LongType()) | dict.fromkeys(large, DecimalType(20, 0))

    def files(names: str, kinds: dict[str, Any]) -> DataFrame:
        fields = [StructField(field.name, kinds[field.name]) if field.name in kinds else _types.field(field) for field in columns]
        place = [StructField("date", StringType()), StructField("hour", IntegerType())]
        reader = spark.read.schema(StructType([*fields, *place])).option("pathGlobFilter", names)
        return reader.parquet(f"{folder.rstrip('/')}/segments")

    numbers = {name: f.col(name).cast("bigint") for name in large}
    of_program = files("[^p]*", kinds).withColumns(
        numbers | {name: f.timestamp_micros(f.expr(f"{name} DIV {_NANOSECONDS}")) for name in times}
    )
    # Spark's files are named part-…, those of the program by digits of a hash.
    rows = of_program.unionByName(files("part-*", {}))
    about = f"{folder.rstrip('/')}/dataset.json"
    try:
        note = "".join(row.value for row in spark.read.text(about, wholetext=True).collect())
    except AnalysisException:
        # Spark alone wrote it.
        note = None
    try:
        of_spark = _noted_basis(spark.read.option("pathGlobFilter", "part-*").parquet(f"{folder.rstrip('/')}/segments"))
    except AnalysisException:
        # The program alone wrote it.
        of_spark = None
    basis = one_basis(None if note is None else basis_in(note, about), of_spark)
    return rows.withMetadata("detector", {**rows.schema["detector"].metadata, BASIS_NOTE: basis})


def _noted_basis(rows: DataFrame) -> str | None:
    return rows.schema["detector"].metadata.get(BASIS_NOTE) if "detector" in rows.columns else None
