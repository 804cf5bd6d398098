"""Shares and loss rates of groups of clients, with intervals. Segments of a client resemble each other, so intervals count clients.

Sums are exact: weights and losses are integers, so no result depends on the order of rows or on the engine that adds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import polars as pl

#: The quantile of the normal distribution for intervals of 95 %.
Z95 = 1.959964
#: Weights are multiples of a ten-millionth.
SCALE = 10**7
#: Each share, or mean of values from 0 to 1: the sum over a part, and that over the whole.
SHARES = {
    "policed_share_of_lossy": ("policed_lossy", "lossy"),
    "policed_share": ("policed", "all"),
    "loss_rate_policed": ("lost_policed", "policed"),
    "loss_rate_not_policed": ("lost_unpoliced", "unpoliced"),
}


class Sums(NamedTuple):
    """Of a group of clients: what each has of the part and of the whole, summed up."""

    #: Clients that have anything of the whole.
    clients: int
    part: int
    whole: int
    part_part: int
    part_whole: int
    whole_whole: int


def shares(groups: Iterable[dict[str, Any]], keys: dict[str, pl.DataType], least: int) -> pl.DataFrame:
    """Shares of policed segments and mean loss rates, with intervals. Each group has the `Sums` of each share by its name."""
    import polars as pl

    rows = []
    for group in groups:
        row = {name: group[name] for name in [*keys, "clients", "sampled_segments"]}
        row["segments"] = (group["all"] + SCALE // 2) // SCALE
        for name in SHARES:
            sums: Sums = group[name]
            told = interval(sums) if sums.clients >= least else (None, None, None)
            row[name], row[f"{name}_low"], row[f"{name}_high"] = told
        rows.append(row)
    intervals = [f"{name}{end}" for name in SHARES for end in ("", "_low", "_high")]
    counts = {"clients": pl.UInt32, "sampled_segments": pl.UInt32, "segments": pl.UInt64}
    table = pl.DataFrame(rows, schema={**keys, **counts, **dict.fromkeys(intervals, pl.Float64)})
    return table.sort("segments", *keys, descending=[True] + [False] * len(keys))


def interval(sums: Sums) -> tuple[float, float, float]:
    """A share, or a mean of values from 0 to 1, with its interval of 95 %.

    The variance is that of a ratio of sums over clusters (Cochran, Sampling Techniques, 3rd edition, 6.3 and 9A). It gives the
    number of independent samples that would have it, and this number the interval of Wilson, which also suits 0 and 1.
    """
    clients, part, whole, part_part, part_whole, whole_whole = sums
    share = part / whole
    # The sum over clients of (part - share * whole)², times the square of the whole: exact, as nothing was divided yet.
    squares = part_part * whole**2 - 2 * part * whole * part_whole + part**2 * whole_whole
    variance = clients * squares / ((clients - 1) * whole**4) if clients > 1 else 0
    samples = share * (1 - share) / variance if variance > 0 else clients
    middle = (share + Z95**2 / (2 * samples)) / (1 + Z95**2 / samples)
    half = Z95 / (1 + Z95**2 / samples) * sqrt(share * (1 - share) / samples + Z95**2 / (4 * samples**2))
    return share, max(middle - half, 0.0), min(middle + half, 1.0)
