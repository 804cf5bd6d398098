"""What a dataset says of networks: the tables of sections 3.2 and 4 of [Flach16].

Only data that servers sent counts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ._distributions import distributions
from ._networks import clusters, policed_networks, spread, traits
from ._shares import shares

if TYPE_CHECKING:
    import polars as pl

#: A policing rate is known if the ends of its interval are as close to each other as those of a cluster. [Flach16 §3.2]
KNOWN = 1.05 / 0.95
#: A segment with this many losses is lossy: fewer do not show a policer. [Flach16 Table 2]
LOSSY = 15

_CONTINENTS = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia (without India)",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}


@dataclass(frozen=True)
class Report:
    """Tables as polars data frames. A value is missing where there are too few samples to say anything."""

    #: Table 2: by region, the share of policed segments among the lossy and among all, with loss rates.
    regions: pl.DataFrame
    #: The same by country.
    countries: pl.DataFrame
    #: The same by autonomous system, with round trips, and what its policers are like (table 4).
    networks: pl.DataFrame
    #: Policing rates of each autonomous system: windows of ±5 % that cover 75 % of its policed segments. [§3.2]
    clusters: pl.DataFrame
    #: Figures 4 to 8 by region: quantiles of policing rate, goodput, loss rate, capacity over policing rate, and wait time.
    distributions: pl.DataFrame
    #: Figures 11 and 12: the same by autonomous system, where policers are prevalent.
    network_distributions: pl.DataFrame
    #: By region and hour of the day (UTC): shares and loss rates.
    hours: pl.DataFrame

    def tables(self) -> dict[str, pl.DataFrame]:
        """All tables by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __str__(self) -> str:
        from . import _summary

        return _summary.summary(self)

    def _repr_html_(self) -> str:
        return self.html()

    def html(self) -> str:
        """One page with tables and pictures, which needs nothing else."""
        from . import _page

        return _page.page(self)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes `report.html`, and each table as Parquet."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for name, table in self.tables().items():
            table.write_parquet(target / f"{name}.parquet")
        (target / "report.html").write_text(self.html(), encoding="utf-8")


def report(
    dataset: str | os.PathLike[str], *, since: str | None = None, until: str | None = None, least_clients: int = 20
) -> Report:
    """Sums up a dataset of `tidegate detect --dataset`.

    `since` and `until` bound the dates, such as "2026-11-22"; both days count. Of groups with fewer than `least_clients`
    clients only the counts are given. Numbers of segments are divided by the share of flows that was sampled.
    """
    import polars as pl

    rows = rows_of(dataset)
    if since is not None:
        rows = rows.filter(pl.col("date") >= since)
    if until is not None:
        rows = rows.filter(pl.col("date") <= until)
    networks = shares(rows, ["client_asn", "client_organisation"], least_clients)
    prevalent = policed_networks(networks)
    inside = rows.filter(pl.col("client_asn").is_in(prevalent))
    for table in (traits(rows), spread(rows, prevalent, least_clients)):
        networks = networks.join(table, on="client_asn", how="left", nulls_equal=True)
    return Report(
        regions=shares(rows, ["region"], least_clients),
        countries=shares(rows, ["client_country"], least_clients),
        networks=networks,
        clusters=clusters(inside.filter("policed").collect(engine="streaming"), least_clients),
        distributions=distributions(rows, "region", least_clients),
        network_distributions=distributions(inside, "client_asn", least_clients),
        hours=shares(rows, ["region", "hour"], least_clients).sort("region", "hour"),
    )


def rows_of(dataset: str | os.PathLike[str]) -> pl.LazyFrame:
    """The data that servers sent, with what reports need of it."""
    import polars as pl

    segments = Path(dataset) / "segments"
    if not segments.is_dir():
        raise FileNotFoundError(f"{dataset}: no dataset of `tidegate detect --dataset`")
    if not any(segments.rglob("*.parquet")):
        raise ValueError(f"{dataset}: the dataset has no rows")
    return _rows(pl.scan_parquet(segments / "**" / "*.parquet", hive_partitioning=True, try_parse_hive_dates=False))


def _rows(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The columns that the report needs, of the data that servers sent."""
    import polars as pl

    region = (
        pl.when(pl.col("client_country") == "IN")
        .then(pl.lit("India"))
        .otherwise(pl.col("client_continent").replace_strict(_CONTINENTS, default=None))
        .fill_null("unknown")
    )
    return rows.filter(~pl.col("from_client")).select(
        region.alias("region"),
        "client_country",
        "client_asn",
        "client_organisation",
        "client_address",
        "date",
        "hour",
        "loss_rate",
        "capacity_bps",
        "limit_rate_bps",
        "limit_depth_bytes",
        "policer_rate_bps",
        "pattern",
        "goodput_bps",
        "rtt_median_ms",
        "wait_ms",
        policed=pl.col("policed_any"),
        rate_known=pl.col("limit_rate_high_bps") <= KNOWN * pl.col("limit_rate_low_bps"),
        lossy=pl.col("lost_packets") >= LOSSY,
        weight=1 / pl.col("sampled_fraction"),
    )
