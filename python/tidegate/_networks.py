"""What autonomous systems are like: their policers, and the plans that these show. [Flach16 §3.2, 4.4, 4.5]"""

from __future__ import annotations

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
    """By AS: the country of most segments, the round trip, and what policers and losses are like."""
    import polars as pl

    policed = pl.col("policed")
    share = {name: pl.when(policed > 0).then(pl.col(name) / policed) for name in ["rate_known", *PATTERNS]}
    return rows.traits().select(
        "client_asn",
        "country",
        "rtt_median_ms",
        pl.col("limit_rate_bps").cast(pl.UInt64).alias("policing_rate_median_bps"),
        share["rate_known"].alias("share_rate_known"),
        pl.col("limit_depth_bytes").cast(pl.UInt64).alias("bucket_median_bytes"),
        *[share[name].alias(_share(name)) for name in PATTERNS],
    )


def _share(pattern: str) -> str:
    return f"share_{pattern.replace('-', '_')}"


def policed_networks(networks: pl.DataFrame) -> list[int]:
    """The systems where policers are prevalent, for sure enough to speak of their rates: there are some even at the interval's low end."""
    import polars as pl

    share, low = (pl.coalesce(f"prevalence{end}", f"policed_share{end}") for end in ("", "_low"))
    found = networks.filter(share >= PREVALENT, low > 0, pl.col("client_asn").is_not_null())
    numbers: list[int] = found["client_asn"].to_list()
    return numbers


def cluster(known: pl.DataFrame, least: int) -> pl.DataFrame:
    """The rates that cover most policed segments of an AS, and what the policers of each rate are like.

    Segments count whose rate is known as closely as a cluster is wide. Tiny buckets leave it open.
    """
    import polars as pl

    def row(inside: pl.DataFrame, centre: float, share: float) -> pl.DataFrame:
        weight = pl.col("weight")
        patterns = [((pl.col("pattern") == name) * weight).sum().truediv(weight.sum()).alias(_share(name)) for name in PATTERNS]
        return inside.group_by("client_asn").agg(
            pl.lit(round(centre), dtype=pl.UInt64).alias("rate_bps"),
            pl.lit(share).alias("share"),
            pl.len().cast(pl.UInt32).alias("sampled_segments"),
            pl.col("client_address").n_unique().cast(pl.UInt32).alias("clients"),
            median("loss_rate").alias("loss_rate_median"),
            median("limit_depth_bytes").cast(pl.UInt64).alias("bucket_median_bytes"),
            *patterns,
        )

    tables = [row(known.clear(), 0, 0.0)]
    if known["client_address"].n_unique() >= max(least, 1):
        rates = known["limit_rate_bps"]
        for centre, count in _native.rate_clusters(rates.to_list(), COVERED):
            inside = known.filter((rates - centre).abs() <= SPREAD * centre)
            tables.append(row(inside, centre, count / len(known)))
    return pl.concat(tables)


def clusters(rows: Rows, least: int) -> pl.DataFrame:
    """The clusters of all these systems."""
    return rows.clusters(least).sort("client_asn", "share", "rate_bps", descending=[False, True, False])


def spread(rates: pl.DataFrame, least: int) -> int | None:
    """How many clusters cover these rates of an AS, if there are clients enough."""
    if rates["client_address"].n_unique() < least:
        return None
    return len(_native.rate_clusters(rates["rate"].to_list(), COVERED))


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
