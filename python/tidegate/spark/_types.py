"""Rows as Spark has them: it knows no unsigned numbers and no nanoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pyspark.sql.types import StructField

_MOST = 2**63 - 1
_TIME = pa.timestamp("us", tz="UTC")


def kind(of: pa.DataType) -> pa.DataType:
    """The type of a column in Spark's rows."""
    wider = {pa.uint64(): pa.int64(), pa.uint32(): pa.int64(), pa.uint16(): pa.int32()}
    if pa.types.is_timestamp(of):
        return _TIME
    if pa.types.is_fixed_size_binary(of):
        return pa.binary()
    return wider.get(of, of)


def column(values: pa.Array) -> pa.Array:
    """Its values. Numbers that are too large can only be faults of a capture: they become the largest."""
    if values.type == pa.uint64():
        values = pc.min_element_wise(values, pa.scalar(_MOST, pa.uint64()), skip_nulls=False)
    return values.cast(kind(values.type), safe=False)


def field(of: pa.Field, more: dict[str, str] | None = None) -> StructField:
    """A column of a data frame, with its meaning as comment, and with more notes."""
    from pyspark.sql import types

    kinds = {
        pa.string(): types.StringType(),
        pa.int64(): types.LongType(),
        pa.int32(): types.IntegerType(),
        pa.float64(): types.DoubleType(),
        pa.bool_(): types.BooleanType(),
        pa.binary(): types.BinaryType(),
        _TIME: types.TimestampType(),
    }
    notes = of.metadata or {}
    meaning = notes.get(b"meaning", b"").decode()
    told = ({"comment": meaning} if meaning else {}) | (more or {})
    return types.StructField(of.name, kinds[kind(of.type)], True, told or None)
