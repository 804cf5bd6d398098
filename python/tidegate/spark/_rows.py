"""What reports need of rows, by Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from .. import _playback
from .._distributions import STEPS
from .._networks import PATTERNS, cluster, most_frequent, spread
from .._rows import COUNTRY_OF_ITS_REGION, KNOWN, LOSSY, MAPPED, NUMBERS, PREFIX_BYTES, REGIONS, key_types
from .._shares import SCALE, Sums

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import Column, DataFrame

#: Sums over all rows have more digits than a long integer.
_EXACT = "DECIMAL(38, 0)"
#: Values are put in order within a bucket, and buckets among each other, so that no machine has to sort a whole region.
_BUCKETS_IN_AN_OCTAVE = 8


@dataclass(frozen=True)
class SparkRows:
    """See `tidegate._rows.Rows`."""

    rows: DataFrame

    @classmethod
    def of_dataset(cls, rows: DataFrame) -> SparkRows:
        """Takes rows with the columns of a dataset."""
        return cls(rows.where("NOT from_client").selectExpr(*_needed()))

    def detectors(self) -> set[str]:
        return set(self.rows.select("detector").distinct().toArrow().column("detector").to_pylist())

    def of_networks(self, numbers: list[int]) -> SparkRows:
        from pyspark.sql import functions as f

        return SparkRows(self.rows.where(f.col("client_asn").isin(numbers)))

    def playbacks(self, log: DataFrame) -> SparkRows:
        near = _playback.NEAR
        classes = [f"WHEN abs(goodput_bps - {rate}) <= {near!r}D * {rate} THEN {rate}L" for rate in _playback.CLASSES]
        segments = self.rows.selectExpr(
            "client", "client_address", "client_port", "sent_us", "policed", f"CASE {' '.join(classes)} END AS goodput_class_bps"
        )
        played = log.mapInArrow(_normal, ", ".join(f"{name} {kind}" for name, kind in _PLAYBACK.items()))
        together = segments.where("goodput_class_bps IS NOT NULL").join(played, on="client_address").where(
            "sent_us BETWEEN begin_us AND end_us AND (playback_port IS NULL OR playback_port = client_port)"
        )
        return SparkRows(
            together.groupBy("goodput_class_bps", "client", *_PLAYBACK)
            .agg(*_named({"policed": "bool_or(policed)"}))
            .selectExpr("*", f"{SCALE}L AS weight", "rebuffering_ratio > 0 AS stalled")
        )

    def sums(
        self, keys: list[str], parts: dict[str, tuple[str, bool | None, str | None]], shares: dict[str, tuple[str, str]]
    ) -> Iterator[dict[str, Any]]:
        terms_of = {name: _part(*part) for name, part in parts.items()}
        clients = self.rows.groupBy(*keys, "client").agg(*_named(terms_of), *_named({"sampled_segments": "count(*)"}))
        columns = {"clients": "count(*)", "sampled_segments": "sum(sampled_segments)", "whole": f"sum(cast(`all` AS {_EXACT}))"}
        for name, (part_name, whole_name) in shares.items():
            part, whole = (f"cast(`{column}` AS DECIMAL(19, 0))" for column in (part_name, whole_name))
            products = [part, whole, f"{part} * {part}", f"{part} * {whole}", f"{whole} * {whole}"]
            terms = [f"count_if({whole} > 0)", *[f"sum({product})" for product in products]]
            columns |= {f"{name} {field}": f"cast({term} AS {_EXACT})" for field, term in zip(Sums._fields, terms, strict=True)}
        for group in clients.groupBy(*keys).agg(*_named(columns)).toArrow().to_pylist():
            numbers = {name: value if name in keys else int(value) for name, value in group.items()}
            sums_of = {name: Sums(*(numbers[f"{name} {field}"] for field in Sums._fields)) for name in shares}
            yield numbers | sums_of | {"all": numbers["whole"]}

    def traits(self) -> pl.DataFrame:
        import polars as pl

        tests = {"policed": "policed", "rate_known": "policed AND rate_known"}
        tests |= {name: f"policed AND pattern = '{name}'" for name in PATTERNS}
        weights = {name: f"cast(sum(cast(if({test}, weight, 0) AS {_EXACT})) AS {_EXACT})" for name, test in tests.items()}
        table = _polars(self.rows.groupBy("client_asn").agg(*_named(weights))).with_columns(pl.col(*weights).cast(pl.Int128))
        medians = {"rtt_median_ms": "rtt_median_ms"}
        medians |= {name: f"if(policed, {name}, NULL)" for name in ["limit_rate_bps", "limit_depth_bytes"]}
        known = _polars(_steps(self.rows, "client_asn", medians, [50])).select("client_asn", "measure", "value")
        wide = known.pivot("measure", index="client_asn", values="value")
        missing = [pl.lit(None, dtype=pl.Float64).alias(name) for name in medians if name not in wide.columns]
        table = table.join(wide.with_columns(missing), on="client_asn", how="left", nulls_equal=True)
        return table.with_columns(pl.col("client_asn").cast(key_types()["client_asn"]))

    def most(self, column: str) -> pl.DataFrame:
        import polars as pl

        counts = _polars(self.rows.dropna(subset=[column]).groupBy("client_asn", column).count())
        return most_frequent(counts, column).with_columns(pl.col("client_asn").cast(key_types()["client_asn"]))

    def quantiles(
        self, key: str, measures: dict[str, tuple[bool, str]]
    ) -> tuple[dict[tuple[Any, str], int], list[tuple[Any, str, int, float]]]:
        values = {name: f"if({'policed' if policed else 'NOT policed'}, {column}, NULL)" for name, (policed, column) in measures.items()}
        rows = self.rows.where(f"{key} IS NOT NULL")
        counted = _long(rows, key, values).groupBy(key, "measure").agg(*_named({"clients": "count(DISTINCT client)"}))
        clients = {(row[key], row["measure"]): row["clients"] for row in counted.toArrow().to_pylist()}
        found = _steps(rows, key, values, list(STEPS)).toArrow().to_pylist()
        return clients, [(row[key], row["measure"], row["step"], row["value"]) for row in found]

    def clusters(self, least: int) -> pl.DataFrame:
        import polars as pl

        columns = ["client_asn", "client", "weight", "limit_rate_bps", "loss_rate", "limit_depth_bytes", "pattern"]
        known = self.rows.where("policed AND rate_known").select(columns)
        empty = cluster(_polars(known.limit(0)), least)
        kinds = {name: kind for name, kind in empty.schema.items()}
        found = _by_group(known, ["client_asn"], lambda of: cluster(of, least), empty)
        return found.cast(kinds).with_columns(pl.col("client_asn").cast(key_types()["client_asn"]))

    def spreads(self, least: int) -> list[tuple[int | None, bool, int]]:
        import polars as pl

        rows = self.rows.where("rate_known OR NOT policed").selectExpr(
            "client_asn", "client", "policed", "weight", "if(policed, limit_rate_bps, goodput_bps) AS rate"
        )
        empty = pl.DataFrame(schema={"client_asn": pl.Int64, "policed": pl.Boolean, "clusters": pl.Int64})

        def many(of: pl.DataFrame) -> pl.DataFrame:
            count = spread(of, least)
            asn, policed = of.select("client_asn", "policed").row(0)
            found = [] if count is None else [(asn, policed, count)]
            return pl.DataFrame(found, schema=empty.schema, orient="row")

        known = rows.dropna(subset=["client_asn", "client", "policed", "rate"])
        found: list[tuple[int | None, bool, int]] = _by_group(known, ["client_asn", "policed"], many, empty).rows()
        return found


def _needed() -> list[str]:
    """The columns of reports, as `tidegate._local` has them."""
    regions = ", ".join(f"'{code}', '{name}'" for code, name in REGIONS.items())
    country, region = COUNTRY_OF_ITS_REGION
    weight = f"({SCALE}D / cast(sampled_fraction AS DOUBLE))"
    low, high = (f"cast(limit_rate_{end}_bps AS DOUBLE)" for end in ("low", "high"))
    policer = "cast(policer_rate_bps AS DOUBLE)"
    return [
        f"if(client_country = '{country}', '{region}', coalesce(try_element_at(map({regions}), client_continent), 'unknown')) AS region",
        "client_country",
        "cast(client_asn AS BIGINT) AS client_asn",
        "client_organisation",
        "cast(date AS STRING) AS date",
        "cast(hour AS BIGINT) AS hour",
        f"if(startswith(client_address, X'{MAPPED.hex()}'), client_address, substring(client_address, 1, {PREFIX_BYTES})) AS client",
        "client_address",
        "cast(receiver_port AS BIGINT) AS client_port",
        "unix_micros(start_s) AS sent_us",
        "detector",
        "pattern",
        "policed_any AS policed",
        f"{high} <= {KNOWN!r}D * {low} AS rate_known",
        f"lost_packets >= {LOSSY} AS lossy",
        f"cast(floor({weight} + 0.5D) AS BIGINT) AS weight",
        f"cast(floor({weight} * loss_rate + 0.5D) AS BIGINT) AS weighted_loss",
        f"if({policer} > 0, cast(capacity_bps AS DOUBLE) / {policer}, NULL) AS capacity_over_rate",
        *[f"cast({name} AS DOUBLE) AS {name}" for name in NUMBERS],
    ]


#: Playbacks as `_playback.normal` gives them.
_PLAYBACK = {
    "client_address": "BINARY",
    "playback_port": "BIGINT",
    "begin_us": "BIGINT",
    "end_us": "BIGINT",
    "rebuffering_ratio": "DOUBLE",
    "join_s": "DOUBLE",
}


def _normal(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import polars as pl

    for batch in batches:
        log = pl.from_arrow(batch)
        assert isinstance(log, pl.DataFrame)
        yield from _playback.normal(log).select(*_PLAYBACK).to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


def _part(column: str, policed: bool | None, mark: str | None) -> str:
    """A term of `_shares.PARTS`."""
    which = [] if policed is None else ["policed" if policed else "NOT policed"]
    tests = " AND ".join([*which, *([] if mark is None else [mark])])
    return f"sum(if({tests}, {column}, 0))" if tests else f"sum({column})"


def _named(terms: dict[str, str]) -> list[Column]:
    from pyspark.sql import functions as f

    return [f.expr(term).alias(name) for name, term in terms.items()]


def _long(rows: DataFrame, key: str, measures: dict[str, str]) -> DataFrame:
    """A row for each measure that is known."""
    values = ", ".join(f"struct('{name}' AS measure, {term} AS value)" for name, term in measures.items())
    long = rows.selectExpr(key, "client", "weight", f"inline(array({values}))")
    return long.where("value IS NOT NULL")


def _steps(rows: DataFrame, key: str, measures: dict[str, str], steps: list[int]) -> DataFrame:
    """By key and measure, the values at which sums of weights reach these percentages."""
    from pyspark.sql import functions as f

    octave = f"cast(floor(log2(value) * {_BUCKETS_IN_AN_OCTAVE}) AS INT)"
    values = (
        _long(rows, key, measures)
        .selectExpr("*", f"if(value > 0, {octave}, -100000) AS bucket")
        .groupBy(key, "measure", "bucket", "value")
        .agg(*_named({"weight": f"sum(cast(weight AS {_EXACT}))"}))
    )
    buckets = values.groupBy(key, "measure", "bucket").agg(*_named({"weight": f"cast(sum(weight) AS {_EXACT})"}))
    group = f"PARTITION BY {key}, measure"
    offsets = buckets.selectExpr(
        f"{key} AS of",
        "measure AS of_measure",
        "bucket AS of_bucket",
        f"cast(sum(weight) OVER ({group} ORDER BY bucket) - weight AS {_EXACT}) AS before",
        f"cast(sum(weight) OVER ({group}) AS {_EXACT}) AS total",
    )
    joined = values.join(offsets.hint("broadcast"), on=f.expr(f"{key} <=> of AND measure = of_measure AND bucket = of_bucket"))
    within = f"sum(weight) OVER ({group}, bucket ORDER BY value)"
    reached = joined.selectExpr(key, "measure", "value", "weight", "total", f"cast(before + {within} AS {_EXACT}) AS reached")
    low = f"cast(100 * (reached - weight) AS {_EXACT}) DIV total + 1"
    high = f"cast(100 * reached AS {_EXACT}) DIV total"
    bounds = reached.selectExpr(key, "measure", "value", f"{low} AS low", f"least({high}, {steps[-1]}) AS high")
    at_least = bounds.selectExpr(key, "measure", "value", f"greatest(low, {steps[0]}) AS low", "high").where("low <= high")
    return at_least.selectExpr(key, "measure", "value", "explode(sequence(cast(low AS INT), cast(high AS INT))) AS step")


def _polars(table: DataFrame) -> pl.DataFrame:
    """A small table, on the driver."""
    import polars as pl

    found = pl.from_arrow(table.toArrow())
    assert isinstance(found, pl.DataFrame)
    return found


def _by_group(rows: DataFrame, keys: list[str], do: Callable[[pl.DataFrame], pl.DataFrame], empty: pl.DataFrame) -> pl.DataFrame:
    """What a function makes of each group, on the executors. A group must fit in the memory of one of them."""
    import polars as pl

    def run(group: pa.Table) -> pa.Table:
        of = pl.from_arrow(group)
        assert isinstance(of, pl.DataFrame)
        return do(of).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(kinds)

    signed = {pl.UInt32: pl.Int64, pl.UInt64: pl.Int64}
    kinds = empty.cast({name: signed[kind] for name, kind in empty.schema.items() if kind in signed}).to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    ddl = ", ".join(f"{field.name} {_SQL[str(field.type)]}" for field in kinds)
    return _polars(rows.groupBy(*keys).applyInArrow(run, ddl))


_SQL = {"int64": "BIGINT", "double": "DOUBLE", "bool": "BOOLEAN", "string": "STRING"}
