"""What autonomous systems are like: their policers, and the plans that these show. [Flach16 §3.2, 4.4, 4.5]"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _native
from ._distributions import median

if TYPE_CHECKING:
    import polars as pl

#: The share of an AS's rates that its clusters cover. [Flach16 §3.2]
COVERED = 0.75
#: Rates of an AS are given from this share of policed segments on: fewer may be mistakes. [Flach16 §3.2]
PREVALENT = 0.03
#: A cluster holds the rates within this share of its centre. [Flach16 §3.2]
SPREAD = 0.05
#: How TCP and the losses interact. [Flach16 §4.4]
PATTERNS = ["staircase", "congestion-avoidance", "doubling-window"]


def traits(rows: pl.LazyFrame) -> pl.DataFrame:
    """By AS: the country of most segments, the round trip, and what policers and losses are like."""
    import polars as pl

    of_all = rows.group_by("client_asn").agg(
        pl.col("client_country").drop_nulls().mode().sort().first().alias("country"),
        median("rtt_median_ms").alias("rtt_median_ms"),
    )
    rate = median("limit_rate_bps").alias("policing_rate_median_bps")
    known = (pl.col("rate_known") * pl.col("weight")).sum() / pl.col("weight").sum()
    of_policed = rows.filter("policed").group_by("client_asn").agg(rate, known.alias("share_rate_known"), *_policers())
    both = of_all.join(of_policed, on="client_asn", how="left", nulls_equal=True)
    return both.collect(engine="streaming")


def _policers() -> list[pl.Expr]:
    import polars as pl

    weight = pl.col("weight")
    shares = [
        ((pl.col("pattern") == name) * weight).sum().truediv(weight.sum()).alias(f"share_{name.replace('-', '_')}")
        for name in PATTERNS
    ]
    return [median("limit_depth_bytes").alias("bucket_median_bytes"), *shares]


def policed_networks(networks: pl.DataFrame) -> list[int]:
    """The systems where policers are prevalent, for sure enough to speak of their rates."""
    import polars as pl

    found = networks.filter(pl.col("policed_share") >= PREVALENT, pl.col("client_asn").is_not_null())
    numbers: list[int] = found["client_asn"].to_list()
    return numbers


def clusters(policed: pl.DataFrame, least: int) -> pl.DataFrame:
    """The rates that cover most policed segments of each AS, and what the policers of each rate are like.

    Segments count whose rate is known as closely as a cluster is wide. Tiny buckets leave it open.
    """
    import polars as pl

    def row(inside: pl.DataFrame, centre: float, share: float) -> pl.DataFrame:
        return inside.group_by("client_asn").agg(
            pl.lit(round(centre), dtype=pl.UInt64).alias("rate_bps"),
            pl.lit(share).alias("share"),
            pl.len().alias("sampled_segments"),
            pl.col("client_address").n_unique().alias("clients"),
            median("loss_rate").alias("loss_rate_median"),
            *_policers(),
        )

    known = policed.filter("rate_known")
    tables = [row(known.clear(), 0, 0.0)]
    for _, rows in known.group_by("client_asn"):
        if rows["client_address"].n_unique() < least:
            continue
        rates = rows["limit_rate_bps"].cast(pl.Float64)
        for centre, count in _native.rate_clusters(rates.to_list(), COVERED):
            inside = rows.filter((rates - centre).abs() <= SPREAD * centre)
            tables.append(row(inside, centre, count / len(rows)))
    return pl.concat(tables).sort("client_asn", "share", "rate_bps", descending=[False, True, False])


def spread(rows: pl.LazyFrame, policed: list[int], least: int) -> pl.DataFrame:
    """How many clusters cover the policing rates of each AS, beside those that cover the goodputs of what was not policed.

    Plans make few rates; where nothing polices, goodputs lie far apart. [Flach16, figure 3]
    """
    import polars as pl

    found = []
    chosen = rows.filter(pl.col("rate_known") | ~pl.col("policed")).select(
        "client_asn",
        "client_address",
        "policed",
        rate=pl.when("policed").then("limit_rate_bps").otherwise("goodput_bps").cast(pl.Float64),
    )
    for (asn, is_policed), group in chosen.drop_nulls().collect(engine="streaming").group_by("client_asn", "policed"):
        if group["client_address"].n_unique() >= least and (asn in policed or not is_policed):
            found.append((asn, is_policed, len(_native.rate_clusters(group["rate"].to_list(), COVERED))))
    schema = {"client_asn": pl.UInt32, "policed": pl.Boolean, "clusters": pl.UInt32}
    table = pl.DataFrame(found, schema=schema, orient="row")
    count = pl.col("clusters")
    return table.group_by("client_asn").agg(
        count.filter("policed").first().alias("clusters_of_policing_rates"),
        count.filter(~pl.col("policed")).first().alias("clusters_of_other_goodputs"),
    )
