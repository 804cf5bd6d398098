"""What a dataset says of networks: the tables of sections 3.2 and 4 of [Flach16].

Only data that servers sent counts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from . import _playback
from ._dataset import basis_of, damage_in, files_of, of_hours, rows_of
from ._distributions import MEASURES, distributions
from ._misjudged import ERRORS, USUAL_BASIS, Errors, Tested
from ._networks import clusters, policed_networks, spreads, traits, traits_of_enough
from ._rows import Rows, key_types
from ._shares import PARTS, SHARES, shares

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Report:
    """Tables as polars data frames. A value is missing where there are too few samples to say anything."""

    #: Table 2: by region, the share of policed segments among the lossy and among all, with loss rates. `policed_share` and
    #: `policed_share_of_lossy` count segments that were judged policed. `prevalence` and `prevalence_of_lossy` are what these say
    #: of the truth, given how often the detector errs.
    regions: pl.DataFrame
    #: The same by country.
    countries: pl.DataFrame
    #: The same by autonomous system, with round trips, and what its policers are like (table 4).
    networks: pl.DataFrame
    #: Policing rates of each autonomous system: windows of ±5 % that cover 75 % of its policed segments, each of which is in one
    #: window only. `share` is divided by the share of flows that was sampled. [§3.2]
    clusters: pl.DataFrame
    #: Figures 4 to 8 by region: quantiles of policing rate, goodput, loss rate, capacity over policing rate, and wait time.
    distributions: pl.DataFrame
    #: Figures 11 and 12: the same by autonomous system, where policers are prevalent.
    network_distributions: pl.DataFrame
    #: By region and hour of the day: shares and loss rates. Hours are in UTC, since a region has many time zones.
    hours: pl.DataFrame
    #: The same by autonomous system.
    network_hours: pl.DataFrame
    #: By the goodput of a segment in bit/s (±15 %), if a log of playbacks is given: which share of them rebuffered. [Flach16 §4.3]
    playbacks: pl.DataFrame | None = None
    #: Figure 9: quantiles of the rebuffering ratio of these playbacks, and of the time until they began.
    rebuffering: pl.DataFrame | None = None
    #: Groups with fewer clients have counts only.
    least_clients: int = 20

    def tables(self) -> dict[str, pl.DataFrame]:
        """All tables by name."""
        tables = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "least_clients"}
        return {name: table for name, table in tables.items() if table is not None}

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
    dataset: str | os.PathLike[str],
    *,
    since: str | None = None,
    until: str | None = None,
    least_clients: int = 20,
    detector_errors: Tested | None = None,
    detector_errors_of_lossy: Tested | None = None,
    playback: str | os.PathLike[str] | pl.DataFrame | None = None,
) -> Report:
    """Sums up a dataset of `tidegate detect --dataset`.

    `since` and `until` bound the dates, such as "2026-11-22"; both days count. Of groups with fewer than `least_clients`
    clients (1 or more) only the counts are given. Of IPv6, the prefixes of 64 bits are the clients. Numbers of segments are divided by the share of flows that was sampled.

    `detector_errors` says how often the detector errs among all segments, and `detector_errors_of_lossy` how often among those
    with 15 losses or more. By default, each is what was measured of the detector `tidegate` where the server sends, with `--basis client`.
    Nothing was measured of others: `prevalence` is missing without `detector_errors`, and `prevalence_of_lossy` without
    `detector_errors_of_lossy`.

    `playback` is a log of players: CSV (`.csv`), Parquet, or a data frame. A row is a playback: `client_address` (or a prefix,
    if the captures have prefixes), `start_s` (time, or seconds since 1970), `join_s` (from there to the first picture),
    `rebuffer_s` and `watch_s` (time spent rebuffering and watching), and if it is known `client_port`. A segment belongs to the playbacks of its client during which it began.
    """
    import polars as pl

    for name, day in (("since", since), ("until", until)):
        if day is not None and not is_day(day):
            raise ValueError(f"{name} is a day such as 2026-11-22, not {day!r}")
    if since is not None and until is not None and since > until:
        raise ValueError(f"since={since!r} is later than until={until!r}")
    every = files_of(dataset)
    files = of_hours(every, lambda hour: (since or "") <= f"{hour:%Y-%m-%d}" <= (until or "9999-12-31"))
    rows = rows_of(dataset, files)
    if since is not None:
        rows = rows.where(pl.col("date") >= since)
    if until is not None:
        rows = rows.where(pl.col("date") <= until)
    errors = Errors(detector_errors, detector_errors_of_lossy)
    is_usual = basis_of(dataset, every) == USUAL_BASIS
    played = None if playback is None else rows.playbacks(playback)
    with damage_in(files):
        return tables_of(rows, least_clients, errors, played, is_usual)


def is_day(text: str) -> bool:
    """Whether this is a day such as 2026-11-22."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def tables_of(rows: Rows, least: int, given: Errors, playbacks: Rows | None, is_usual: bool = True) -> Report:
    """The tables, whichever engine has the rows. Errors that are not given are those that were measured of the detector with its usual settings."""
    detectors = rows.detectors()
    measured = ERRORS.get(detectors.pop(), Errors()) if len(detectors) == 1 and is_usual else Errors()
    errors = Errors(given.of_all or measured.of_all, given.of_lossy or measured.of_lossy)
    # By number alone: a system that changes its name stays one.
    networks = shares_by(rows, ["client_asn"], least, errors)
    prevalent = policed_networks(networks)
    inside = rows.of_networks(prevalent)
    for table in (traits(rows), spreads(rows, prevalent, least)):
        networks = networks.join(table, on="client_asn", how="left", nulls_equal=True)
    networks = networks.with_columns(traits_of_enough(least))
    named = ["client_asn", "client_organisation"]
    networks = networks.select(*named, *[name for name in networks.columns if name not in named])
    kinds = key_types()
    viewed = (None, None) if playbacks is None else _playback.tables(playbacks, least)
    return Report(
        regions=shares_by(rows, ["region"], least, errors),
        countries=shares_by(rows, ["client_country"], least, errors),
        networks=networks,
        clusters=clusters(inside, least),
        distributions=distributions(rows, "region", kinds["region"], least, MEASURES),
        network_distributions=distributions(inside, "client_asn", kinds["client_asn"], least, MEASURES),
        hours=shares_by(rows, ["region", "hour"], least, errors).sort("region", "hour"),
        network_hours=shares_by(rows, ["client_asn", "hour"], least, errors).sort("client_asn", "hour"),
        playbacks=viewed[0],
        rebuffering=viewed[1],
        least_clients=least,
    )


def shares_by(rows: Rows, keys: list[str], least: int, errors: Errors = Errors()) -> pl.DataFrame:
    """Shares and loss rates by these keys."""
    kinds = key_types()
    corrected = {
        "prevalence": ("policed_share", errors.of_all),
        "prevalence_of_lossy": ("policed_share_of_lossy", errors.of_lossy),
    }
    return shares(rows.sums(keys, PARTS, SHARES), {key: kinds[key] for key in keys}, least, SHARES, corrected)
