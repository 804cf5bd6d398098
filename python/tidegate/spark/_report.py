"""The report, of rows that Spark has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from .. import _native
from .._report import Report, tables_of
from . import _types
from ._rows import SparkRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Datasets have times in nanoseconds, Spark in microseconds.
_NANOSECONDS = 1000


def report(rows: DataFrame, *, least_clients: int = 20) -> Report:
    """The tables of `tidegate.report`, of segments that `analyse` made or `dataset` reads: equal to the last digit.

    Spark adds up. The driver gets sums for each group, and the tables are polars data frames here too. The rows are read
    once, and what the report needs of them is kept on the executors' disks meanwhile.
    """
    from pyspark import StorageLevel

    needed = SparkRows.of_dataset(rows)
    needed.rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return tables_of(needed, least_clients)
    finally:
        needed.rows.unpersist()


def dataset(spark: SparkSession, folder: str) -> DataFrame:
    """The rows of a dataset of `tidegate detect --dataset`. Times have microseconds. (Spark reads rows that it wrote by itself.)"""
    from pyspark.sql import functions as f
    from pyspark.sql.types import DecimalType, IntegerType, LongType, StringType, StructField, StructType

    columns = pa.schema(_native.read([], "segment", "tidegate", None, False, 1, None, 1.0, None))
    times = [field.name for field in columns if pa.types.is_timestamp(field.type)]
    large = [field.name for field in columns if field.type == pa.uint64()]
    # As Spark's reader takes these types.
    kinds = dict.fromkeys(times, LongType()) | dict.fromkeys(large, DecimalType(20, 0))
    fields = [StructField(field.name, kinds[field.name]) if field.name in kinds else _types.field(field) for field in columns]
    place = [StructField("date", StringType()), StructField("hour", IntegerType())]
    rows = spark.read.schema(StructType([*fields, *place])).parquet(f"{folder.rstrip('/')}/segments")
    numbers = {name: f.col(name).cast("bigint") for name in large}
    return rows.withColumns(numbers | {name: f.timestamp_micros(f.expr(f"{name} DIV {_NANOSECONDS}")) for name in times})
