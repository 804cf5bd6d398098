"""Distributions and medians, in which a segment counts for all that its sample stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: The quantiles that stand for a distribution.
QUANTILES = [step / 100 for step in range(1, 100)]


def median(name: str) -> pl.Expr:
    """The median of what is known, in a group."""
    import polars as pl

    known = pl.col(name).is_not_null()
    value, weight = pl.col(name).filter(known), pl.col("weight").filter(known)
    reached = weight.sort_by(value).cum_sum() >= weight.sum() / 2
    return value.sort().filter(reached).first()


def distributions(rows: pl.LazyFrame, key: str, least: int) -> pl.DataFrame:
    """Quantiles by this key. [Flach16, figures 4 to 8, 11 and 12]"""
    import polars as pl

    policed = pl.col("policed")
    measures = {
        "policing_rate_bps": (policed, pl.col("limit_rate_bps")),
        "goodput_not_policed_bps": (~policed, pl.col("goodput_bps")),
        "loss_rate_policed": (policed, pl.col("loss_rate")),
        "loss_rate_not_policed": (~policed, pl.col("loss_rate")),
        "bucket_bytes": (policed, pl.col("limit_depth_bytes")),
        "capacity_over_policing_rate": (policed, pl.col("capacity_bps") / pl.col("policer_rate_bps")),
        "wait_policed_ms": (policed, pl.col("wait_ms")),
        "wait_not_policed_ms": (~policed, pl.col("wait_ms")),
    }
    tables = []
    for name, (test, value) in measures.items():
        values = rows.filter(test).select(key, "client_address", "weight", value=value.cast(pl.Float64))
        known = values.drop_nulls().sort("value").collect(engine="streaming")
        for (group,), samples in known.group_by(key, maintain_order=True):
            if samples["client_address"].n_unique() < least:
                continue
            reached = samples["weight"].cum_sum() / samples["weight"].sum()
            places = reached.search_sorted(pl.Series(QUANTILES), side="left").clip(0, len(samples) - 1)
            quantiles = pl.DataFrame({"quantile": QUANTILES, "value": samples["value"].gather(places)})
            which = pl.lit(group, dtype=known.schema[key])
            tables.append(quantiles.select(which.alias(key), pl.lit(name).alias("measure"), pl.all()))
    kinds = {key: rows.collect_schema()[key], "measure": pl.String, "quantile": pl.Float64, "value": pl.Float64}
    return pl.concat([pl.DataFrame(schema=kinds), *tables]).sort("measure", key, "quantile")
