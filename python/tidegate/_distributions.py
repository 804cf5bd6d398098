"""Distributions of groups of segments. Each segment counts as many times as flows that it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

    from ._rows import Rows

#: The quantiles that stand for a distribution, in percent.
STEPS = range(1, 100)
#: What is distributed: of policed segments or of others, and in which column. [Flach16, figures 4 to 8, 11 and 12]
MEASURES = {
    "policing_rate_bps": (True, "limit_rate_bps"),
    "goodput_not_policed_bps": (False, "goodput_bps"),
    "loss_rate_policed": (True, "loss_rate"),
    "loss_rate_not_policed": (False, "loss_rate"),
    "bucket_bytes": (True, "limit_depth_bytes"),
    "capacity_over_policing_rate": (True, "capacity_over_rate"),
    "wait_policed_ms": (True, "wait_ms"),
    "wait_not_policed_ms": (False, "wait_ms"),
}


def reached(total: int) -> list[int]:
    """The least sums of weights that reach each step."""
    return [-(-step * total // 100) for step in STEPS]


def distributions(rows: Rows, key: str, kind: pl.DataType, least: int, measures: dict[str, tuple[bool, str]]) -> pl.DataFrame:
    """Quantiles of these measures by this key, of groups that have clients enough."""
    import polars as pl

    clients, values = rows.quantiles(key, measures)
    enough = [(group, name, step / 100, value) for group, name, step, value in values if clients[group, name] >= least]
    kinds = {key: kind, "measure": pl.String, "quantile": pl.Float64, "value": pl.Float64}
    return pl.DataFrame(enough, schema=kinds, orient="row").sort("measure", key, "quantile")
