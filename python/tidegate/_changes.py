"""Where loss or policing changed: an hour beside the same hour of the days before. [Flach16 §2.2]"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from ._report import rows_of, shares_by

if TYPE_CHECKING:
    import polars as pl

#: Days with the same hour that are needed to know what is usual.
LEAST_DAYS = 5
#: Changes are told from this many standard deviations on. By chance alone, one of 15,000 comparisons would be.
DEVIATIONS = 4.0
#: And from this difference on, so that nobody is woken by what does not matter.
LEAST_CHANGE = 0.01
#: What is compared.
MEASURES = ["policed_share", "loss_rate_policed", "loss_rate_not_policed"]
#: An hour is over this long after its end: captures arrive late.
LATE = timedelta(minutes=10)


def hours_of(dataset: str | os.PathLike[str]) -> list[datetime]:
    """The hours that have rows, in order."""
    places = (re.search(r"date=([\d-]+)/hour=(\d+)$", place.as_posix()) for place in Path(dataset).glob("segments/*/*"))
    return sorted(datetime.fromisoformat(f"{place[1]}T{place[2]}:00:00+00:00") for place in places if place)


def changes(
    dataset: str | os.PathLike[str], hour: datetime | None = None, *, weeks: int = 4, least_clients: int = 20
) -> pl.DataFrame:
    """Autonomous systems where the share of policed segments or a loss rate differs from what was usual at this hour.

    `hour` is in UTC; by default, the last one that has rows. The same hour of each day in the `weeks` before says what is
    usual, if at least five of them have `least_clients` clients. A difference counts from four standard deviations on, which
    are those of the days and of the choice of clients.
    """
    import polars as pl

    known = hours_of(dataset)
    if hour is None and not known:
        raise ValueError(f"{dataset}: the dataset has no rows")
    now = known[-1] if hour is None else hour.replace(minute=0, second=0, microsecond=0, tzinfo=UTC)
    days = [now - timedelta(days=day) for day in range(7 * weeks + 1)]
    at = (pl.col("hour") == now.hour) & pl.col("date").is_in([f"{day:%Y-%m-%d}" for day in days])
    table = shares_by(rows_of(dataset).where(at), ["client_asn", "client_organisation", "date"], least_clients)
    today = pl.col("date") == f"{now:%Y-%m-%d}"
    found = [_deviations(table.filter(~today), table.filter(today), measure) for measure in MEASURES]
    told = pl.concat(found).filter(
        pl.col("deviations").abs() >= DEVIATIONS, (pl.col("value") - pl.col("usual")).abs() >= LEAST_CHANGE
    )
    return told.with_columns(pl.lit(now).alias("hour")).sort(pl.col("deviations").abs(), descending=True)


def _deviations(before: pl.DataFrame, now: pl.DataFrame, measure: str) -> pl.DataFrame:
    """How far each system is from what is usual. Days with few clients differ by chance, and so widen what is usual."""
    import polars as pl

    value = pl.col(measure)
    usual = before.group_by("client_asn").agg(
        value.mean().alias("usual"), value.var().alias("variance"), value.count().alias("days")
    )
    both = now.join(usual, on="client_asn").filter(pl.col("days") >= LEAST_DAYS)
    # A quarter of the width of an interval of 95 % is its standard deviation, nearly.
    chosen = (pl.col(f"{measure}_high") - pl.col(f"{measure}_low")) / 4
    variance = pl.max_horizontal(pl.col("variance"), chosen**2) + pl.col("variance") / pl.col("days")
    return both.select(
        "client_asn",
        "client_organisation",
        "clients",
        pl.lit(measure).alias("measure"),
        value.alias("value"),
        "usual",
        ((value - pl.col("usual")) / variance.sqrt()).alias("deviations"),
    ).drop_nulls(["value", "usual"])


def watch(
    dataset: str | os.PathLike[str],
    alert: Callable[[dict[str, Any]], None],
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    wait: Callable[[float], None] = sleep,
    weeks: int = 4,
    least_clients: int = 20,
) -> None:
    """Calls `alert` for each change, with a row of `changes`, when an hour is over. Ends by Ctrl-C only.

    Hours that are over when it begins are not told, but for the last one.
    """
    for hour in _hours_that_end(dataset, clock, wait):
        for change in changes(dataset, hour, weeks=weeks, least_clients=least_clients).iter_rows(named=True):
            alert(change)


def _hours_that_end(
    dataset: str | os.PathLike[str], clock: Callable[[], datetime], wait: Callable[[float], None]
) -> Iterator[datetime]:
    done: datetime | None = None
    while True:
        now = clock()
        over = [hour for hour in hours_of(dataset) if hour + timedelta(hours=1) + LATE <= now]
        new = [hour for hour in over if done is None or hour > done]
        for hour in new[-1:] if done is None else new:
            yield hour
            done = hour
        wait(60)
