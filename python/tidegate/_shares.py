"""Shares and loss rates of groups of clients, with intervals. Segments of a client resemble each other, so intervals count clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

#: The quantile of the normal distribution for intervals of 95 %.
Z95 = 1.959964


def shares(rows: pl.LazyFrame, keys: list[str], least: int) -> pl.DataFrame:
    """Shares of policed segments and mean loss rates, with intervals, by these keys."""
    import polars as pl

    weight = pl.col("weight")
    parts = {
        "all": pl.lit(True),
        "lossy": pl.col("lossy"),
        "policed": pl.col("policed"),
        "policed_lossy": pl.col("policed") & pl.col("lossy"),
        "unpoliced": ~pl.col("policed"),
    }
    sums = [(weight * test).sum().alias(name) for name, test in parts.items()]
    losses = [
        (weight * pl.col("loss_rate") * pl.col("policed")).sum().alias("lost_policed"),
        (weight * pl.col("loss_rate") * ~pl.col("policed")).sum().alias("lost_unpoliced"),
    ]
    clients = (
        rows.group_by([*keys, "client_address"])
        .agg(*sums, *losses, pl.len().alias("sampled_segments"))
        .collect(engine="streaming")
    )
    columns = []
    for share, part, whole in [
        ("policed_share_of_lossy", "policed_lossy", "lossy"),
        ("policed_share", "policed", "all"),
        ("loss_rate_policed", "lost_policed", "policed"),
        ("loss_rate_not_policed", "lost_unpoliced", "unpoliced"),
    ]:
        columns += interval(share, pl.col(part), pl.col(whole), least)
    table = clients.group_by(keys).agg(
        pl.len().alias("clients"),
        pl.col("sampled_segments").sum(),
        pl.col("all").sum().round().cast(pl.UInt64).alias("segments"),
        *columns,
    )
    return table.sort("segments", *keys, descending=[True] + [False] * len(keys))


def interval(name: str, part: pl.Expr, whole: pl.Expr, least: int) -> list[pl.Expr]:
    """A share, or a mean of values from 0 to 1, with its interval of 95 %. Each row is a client.

    The variance is that of a ratio of sums over clusters (Cochran, Sampling Techniques, 3rd edition, 6.3 and 9A). It gives the
    number of independent samples that would have it, and this number the interval of Wilson, which also suits 0 and 1.
    """
    import polars as pl

    with_whole = (whole > 0).sum()
    share = part.sum() / whole.sum()
    variance = with_whole / (with_whole - 1) * ((part - share * whole) ** 2).sum() / whole.sum() ** 2
    samples = pl.when(variance > 0).then(share * (1 - share) / variance).otherwise(with_whole)
    middle = (share + Z95**2 / (2 * samples)) / (1 + Z95**2 / samples)
    half = Z95 / (1 + Z95**2 / samples) * (share * (1 - share) / samples + Z95**2 / (4 * samples**2)).sqrt()
    enough = with_whole >= least
    return [
        pl.when(enough).then(share).alias(name),
        pl.when(enough).then((middle - half).clip(0, 1)).alias(f"{name}_low"),
        pl.when(enough).then((middle + half).clip(0, 1)).alias(f"{name}_high"),
    ]
