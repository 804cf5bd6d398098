"""Shares and loss rates of groups of clients, with intervals. Segments of a client resemble each other, so intervals count clients.

Sums are exact: weights and losses are integers, so no result depends on the order of rows or on the engine that adds them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from ._misjudged import Z95, Tested, prevalence
from ._student import t95

if TYPE_CHECKING:
    import polars as pl

#: Weights are multiples of a ten-millionth.
SCALE = 10**7
#: What is summed up: a column, of policed segments, of others or of both, and of those with a mark only.
PARTS: dict[str, tuple[str, bool | None, str | None]] = {
    "all": ("weight", None, None),
    "lossy": ("weight", None, "lossy"),
    "policed": ("weight", True, None),
    "policed_lossy": ("weight", True, "lossy"),
    "unpoliced": ("weight", False, None),
    "lost_policed": ("weighted_loss", True, None),
    "lost_unpoliced": ("weighted_loss", False, None),
}
#: Each share, or mean of values from 0 to 1: the sum over a part, and that over the whole.
SHARES = {
    "policed_share_of_lossy": ("policed_lossy", "lossy"),
    "policed_share": ("policed", "all"),
    "loss_rate_policed": ("lost_policed", "policed"),
    "loss_rate_not_policed": ("lost_unpoliced", "unpoliced"),
}
#: Those that are means: the segments of a client are somewhere between having all of it and nothing.
MEANS = {"loss_rate_policed", "loss_rate_not_policed"}


class Sums(NamedTuple):
    """Of a group of clients: what each has of the part and of the whole, summed up."""

    #: Clients that have anything of the whole.
    clients: int
    part: int
    whole: int
    part_part: int
    part_whole: int
    whole_whole: int


def shares(
    groups: Iterable[dict[str, Any]],
    keys: dict[str, pl.DataType],
    least: int,
    names: Iterable[str],
    prevalences: dict[str, tuple[str, Tested | None]],
) -> pl.DataFrame:
    """These shares, with intervals. Each group has the `Sums` of each share by its name.

    `prevalences` names shares to correct for the detector's errors. The results are missing where these are not known.
    """
    import polars as pl

    if least < 1:
        raise ValueError("least_clients is 1 or more")
    rows = []
    for group in groups:
        row = {name: group[name] for name in [*keys, "clients", "sampled_segments"]}
        row["segments"] = (group["all"] + SCALE // 2) // SCALE
        for name in names:
            sums: Sums = group[name]
            told = interval(sums, name in MEANS) if sums.clients >= least else (None, None, None)
            row |= _with_ends(name, told)
        for name, (judged, tested) in prevalences.items():
            sums = group[judged]
            if tested is not None and sums.clients >= least:
                row |= _with_ends(name, prevalence(sums.part / sums.whole, samples(sums), tested))
        rows.append(row)
    intervals = [part for name in [*prevalences, *names] for part in _with_ends(name, (None, None, None))]
    counts = {"clients": pl.UInt32, "sampled_segments": pl.UInt64, "segments": pl.UInt64}
    table = pl.DataFrame(rows, schema={**keys, **counts, **dict.fromkeys(intervals, pl.Float64)})
    return table.sort("segments", *keys, descending=[True] + [False] * len(keys))


def _with_ends(name: str, told: tuple[float | None, float | None, float | None]) -> dict[str, float | None]:
    """A value with its interval, as columns."""
    return dict(zip((name, f"{name}_low", f"{name}_high"), told, strict=True))


def interval(sums: Sums, mean: bool = False) -> tuple[float, float, float]:
    """A share, or a mean of values from 0 to 1, with its interval of 95 %, which is Wilson's: it also suits 0 and 1."""
    share, many = sums.part / sums.whole, samples(sums, mean)
    if many == 0:
        return share, 0.0, 1.0
    middle = (share + Z95**2 / (2 * many)) / (1 + Z95**2 / many)
    half = Z95 / (1 + Z95**2 / many) * sqrt(share * (1 - share) / many + Z95**2 / (4 * many**2))
    return share, max(middle - half, 0.0), min(middle + half, 1.0)


def samples(sums: Sums, mean: bool = False) -> float:
    """The number of independent samples that would have the variance of the share, or of the mean of values from 0 to 1.

    This variance is that of a ratio of sums over clusters (Cochran, Sampling Techniques, 3rd edition, 6.3 and 9A). It says too
    little where a few clients have most of the segments and are alike by chance. So a share has no more samples than there would
    be clients of equal size (Kish, Survey Sampling, 1965, 8.2). That would be far too few for means, whose values lie close
    together: they have fewer samples by what Student's t adds for so few clients (Korn and Graubard, Confidence intervals for
    proportions with small expected number of positive counts estimated from survey data, 1998).
    """
    clients, part, whole, part_part, part_whole, whole_whole = sums
    share = part / whole
    # The sum over clients of (part - share * whole)², times the square of the whole: exact, as nothing was divided yet.
    squares = part_part * whole**2 - 2 * part * whole * part_whole + part**2 * whole_whole
    variance = clients * squares / ((clients - 1) * whole**4) if clients > 1 else 0
    alike = whole**2 / whole_whole
    many = share * (1 - share) / variance if variance > 0 else alike
    if not mean:
        return min(many, alike)
    return many * (1 - 1 / alike) * (Z95 / t95(int(alike) - 1)) ** 2
