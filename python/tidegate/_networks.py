"""What autonomous systems are like: their policers, and the plans that these show. [Flach16 §3.2, 4.4, 4.5]"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from . import _native

if TYPE_CHECKING:
    import polars as pl

    from ._rows import Rows

#: The share of an AS's rates that its clusters cover. [Flach16 §3.2]
COVERED = 0.75
#: Rates of an AS are given from this share of policed segments on: fewer may be mistakes. [Flach16 §3.2]
PREVALENT = 0.03
#: A cluster holds the rates within this share of its centre. [Flach16 §3.2]
SPREAD = 0.05
#: How TCP and the losses interact. [Flach16 §4.4]
PATTERNS = ["staircase", "congestion-avoidance", "doubling-window"]


def median(name: str, test: pl.Expr | None = None) -> pl.Expr:
    """The median of what is known, in a group. Each row counts as often as its weight says."""
    import polars as pl

    known = pl.col(name).is_not_null() & (pl.lit(True) if test is None else test)
    value, weight = pl.col(name).filter(known), pl.col("weight").filter(known)
    half = 2 * weight.sort_by(value).cum_sum() >= weight.sum()
    return value.sort().filter(half).first()


def traits(rows: Rows) -> pl.DataFrame:
    """By AS: the organisation and the country of most segments, the round trip, and what policers and losses are like."""
    import polars as pl

    policed = pl.col("policed")
    share = {name: pl.when(policed > 0).then(pl.col(name) / policed) for name in ["rate_known", *PATTERNS]}
    table = rows.traits()
    for name in ("client_organisation", "client_country"):
        table = table.join(rows.most(name), on="client_asn", how="left", nulls_equal=True)
    return table.select(
        "client_asn",
        "client_organisation",
        pl.col("client_country").alias("country"),
        "rtt_median_ms",
        pl.col("limit_rate_bps").cast(pl.UInt64).alias("policing_rate_median_bps"),
        share["rate_known"].alias("share_rate_known"),
        pl.col("limit_depth_bytes").cast(pl.UInt64).alias("bucket_median_bytes"),
        *[share[name].alias(_share(name)) for name in PATTERNS],
    )


def traits_of_enough(least: int) -> list[pl.Expr]:
    """The traits of systems, without those that fewer clients show. The loss rate of policed segments tells whether enough clients have some."""
    import polars as pl

    policers = ["policing_rate_median_bps", "share_rate_known", "bucket_median_bytes", *map(_share, PATTERNS)]
    enough = {"rtt_median_ms": pl.col("clients") >= least} | dict.fromkeys(policers, pl.col("loss_rate_policed").is_not_null())
    return [pl.when(test).then(pl.col(name)).alias(name) for name, test in enough.items()]


def most_frequent(counts: pl.DataFrame, name: str) -> pl.DataFrame:
    """By AS the value of this column with the highest `count`. Of equally frequent ones it is the first by the alphabet."""
    import polars as pl

    ordered = counts.sort("count", name, descending=[True, False])
    return ordered.group_by("client_asn", maintain_order=True).agg(pl.col(name).first())


def _share(pattern: str) -> str:
    return f"share_{pattern.replace('-', '_')}"


def policed_networks(networks: pl.DataFrame) -> list[int]:
    """The systems where policers are prevalent, for sure enough to speak of their rates: there are some even at the interval's low end."""
    import polars as pl

    share, low = (pl.coalesce(f"prevalence{end}", f"policed_share{end}") for end in ("", "_low"))
    found = networks.filter(share >= PREVALENT, low > 0, pl.col("client_asn").is_not_null())
    numbers: list[int] = found["client_asn"].to_list()
    return numbers


def windows(rates: pl.Series, weights: pl.Series) -> pl.DataFrame:
    """The windows of ±5 % that cover 75 % of the weight of these rates: each `rate` that is in one, with its `weight` and `window`.

    Each time, the window is chosen that covers most of the weight that no earlier one does (the greedy algorithm for partial set
    cover). [Flach16 §3.2] A rate is in one window only. Rates that are not finite and positive are left out.
    """
    import polars as pl

    # All rates that are equal are in the same window.
    every = pl.DataFrame({"rate": rates, "weight": weights.cast(pl.Int128)}).filter(pl.col("rate").is_finite(), pl.col("rate") > 0)
    table = every.group_by("rate").agg(pl.col("weight").sum()).sort("rate")
    weight: list[int] = table["weight"].to_list()
    # A window can be moved up until its lower edge is a rate, without covering less. Places of rates stand for them from here on.
    edge = pl.col("rate") / (1 - SPREAD) * (1 + SPREAD)
    end: list[int] = table.select(pl.col("rate").search_sorted(edge, side="right"))["rate"].to_list()
    window = _native.cover(end, weight, ceil(COVERED * sum(weight)))
    return table.with_columns(pl.Series("window", window, dtype=pl.UInt32)).drop_nulls("window")


def cluster(known: pl.DataFrame, least: int) -> pl.DataFrame:
    """The rates that cover most policed segments of an AS, and what the policers of each rate are like.

    Segments count whose rate is known as closely as a cluster is wide. Tiny buckets leave it open. Each segment counts as many
    times as flows that it stands for, since parts of the dataset may be sampled more rarely than others.
    """
    import polars as pl

    weight, rate = pl.col("weight"), pl.col("rate")
    chosen = known if known["client"].n_unique() >= max(least, 1) else known.clear()
    # Spark has shorter ones, and their sums may be too long for these.
    chosen = chosen.with_columns(weight.cast(pl.Int128))
    inside = windows(chosen["limit_rate_bps"], chosen["weight"])
    # Integers, so that the mean does not depend on the order in which an engine adds.
    mean = (rate.cast(pl.Int128) * weight).sum().cast(pl.Float64) / weight.sum()
    # A window may be wider than its rates. Their mean is moved no further than keeps all of them within 5 %.
    centre = mean.clip(rate.max() / (1 + SPREAD), rate.min() / (1 - SPREAD))
    centres = inside.group_by("window").agg(
        centre.round().cast(pl.UInt64).alias("rate_bps"),
        (weight.sum() / chosen["weight"].sum()).alias("share"),
    )
    patterns = [((pl.col("pattern") == name) * weight).sum().truediv(weight.sum()).alias(_share(name)) for name in PATTERNS]
    segments = chosen.join(inside.select("rate", "window"), left_on="limit_rate_bps", right_on="rate")
    about = segments.group_by("client_asn", "window").agg(
        pl.len().cast(pl.UInt32).alias("sampled_segments"),
        pl.col("client").n_unique().cast(pl.UInt32).alias("clients"),
        median("loss_rate").alias("loss_rate_median"),
        median("limit_depth_bytes").cast(pl.UInt64).alias("bucket_median_bytes"),
        *patterns,
    )
    table = about.join(centres, on="window")
    return table.select("client_asn", "rate_bps", "share", pl.exclude("client_asn", "rate_bps", "share", "window"))


def clusters(rows: Rows, least: int) -> pl.DataFrame:
    """The clusters of all these systems."""
    return rows.clusters(least).sort("client_asn", "share", "rate_bps", descending=[False, True, False])


def spread(rates: pl.DataFrame, least: int) -> int | None:
    """How many clusters cover these rates of an AS, if there are clients enough."""
    if rates["client"].n_unique() < least:
        return None
    many: int = windows(rates["rate"], rates["weight"])["window"].n_unique()
    return many


def spreads(rows: Rows, policed: list[int], least: int) -> pl.DataFrame:
    """How many clusters cover the policing rates of each AS, beside those that cover the goodputs of what was not policed.

    Plans make few rates; where nothing polices, goodputs lie far apart. [Flach16, figure 3]
    """
    import polars as pl

    found = [group for group in rows.spreads(least) if group[0] in policed or not group[1]]
    schema = {"client_asn": pl.UInt32, "policed": pl.Boolean, "clusters": pl.UInt32}
    table = pl.DataFrame(found, schema=schema, orient="row")
    count = pl.col("clusters")
    return table.group_by("client_asn").agg(
        count.filter("policed").first().alias("clusters_of_policing_rates"),
        count.filter(~pl.col("policed")).first().alias("clusters_of_other_goodputs"),
    )
