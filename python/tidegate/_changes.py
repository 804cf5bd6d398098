"""Where loss or policing changed: an hour beside the same hour of the days before. [Flach16 §2.2]"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from ._dataset import damage_in, files_of, hour_of, of_hours, rows_of
from ._errors import DatasetError, reason
from ._report import shares_by
from ._student import normal_deviation

if TYPE_CHECKING:
    import polars as pl

#: Days with the same hour that are needed to know what is usual.
LEAST_DAYS = 5
#: Changes are reported from this many standard deviations of a normal distribution on. By chance alone, one of 15,000 comparisons would be.
DEVIATIONS = 4.0
#: And from this difference on, so that nobody is woken by what does not matter.
LEAST_CHANGE = 0.01
#: What is compared.
MEASURES = ["policed_share", "loss_rate_policed", "loss_rate_not_policed"]
#: An hour is over this long after its end, and complete if none of its files was written for so long: captures arrive late.
LATE = timedelta(minutes=10)
#: An hour that is over waits for so long at most until it is complete.
PATIENCE = timedelta(hours=3)
#: A watch reads an hour at most this many times,
ATTEMPTS = 5
#: with so many seconds between them.
PAUSE_S = 30


def hours_of(dataset: str | os.PathLike[str]) -> list[datetime]:
    """The hours that have rows, in order."""
    return sorted(_files_by_hour(files_of(dataset)))


def _files_by_hour(files: list[Path]) -> dict[datetime, list[Path]]:
    """Spark and the program may both have written an hour, with and without a zero in front."""
    found: dict[datetime, list[Path]] = {}
    for file in files:
        hour = hour_of(file)
        if hour is not None:
            found.setdefault(hour, []).append(file)
    return found


def changes(
    dataset: str | os.PathLike[str], hour: datetime | None = None, *, weeks: int = 4, least_clients: int = 20
) -> pl.DataFrame:
    """Autonomous systems where the share of policed segments or a loss rate differs from what was usual at this hour.

    `hour` is in UTC unless it has another time zone; by default, the last one that has rows. The same hour of each day in the `weeks` before says what is
    usual, if at least five of them have `least_clients` clients. A difference counts if chance makes it as rarely as four
    standard deviations of a normal distribution. What is known of few days is less certain, so with few days it takes more:
    `deviations` are those of a normal distribution that are as rare as Student's t, with the standard deviations of the days and
    of the choice of clients.
    """
    import polars as pl

    every = files_of(dataset)
    known = _files_by_hour(every)
    if hour is None and not known:
        raise ValueError(f"{dataset}: the dataset has no rows")
    now = max(known) if hour is None else _in_utc(hour).replace(minute=0, second=0, microsecond=0)
    days = [now - timedelta(days=day) for day in range(7 * weeks + 1)]
    # Of a large dataset they are few.
    files = of_hours(every, set(days).__contains__)
    at = (pl.col("hour") == now.hour) & pl.col("date").is_in([f"{day:%Y-%m-%d}" for day in days])
    rows = rows_of(dataset, files).where(at)
    with damage_in(files):
        table = shares_by(rows, ["client_asn", "date"], least_clients)
    today = pl.col("date") == f"{now:%Y-%m-%d}"
    found = [_deviations(table.filter(~today), table.filter(today), measure) for measure in MEASURES]
    told = pl.concat(found).filter(
        pl.col("deviations").abs() >= DEVIATIONS, (pl.col("value") - pl.col("usual")).abs() >= LEAST_CHANGE
    )
    named = told.join(rows.most("client_organisation"), on="client_asn", how="left")
    columns = ["client_asn", "client_organisation", "clients", "measure", "value", "usual", "deviations"]
    return named.select(*columns, pl.lit(now).alias("hour")).sort(pl.col("deviations").abs(), descending=True)


def _in_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


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
    found = both.select(
        "client_asn",
        "clients",
        pl.lit(measure).alias("measure"),
        value.alias("value"),
        "usual",
        "days",
        ((value - pl.col("usual")) / variance.sqrt()).alias("t"),
    ).drop_nulls(["value", "usual"])
    # Were all systems usual, the difference over the standard deviation of the days would be Student's t. Where that of the choice
    # of clients takes its place, because it is larger, the quotient is smaller. So no more are told than t has beyond the threshold.
    deviations = [normal_deviation(t, days - 1) for t, days in found.select("t", "days").iter_rows()]
    return found.drop("t", "days").with_columns(pl.Series("deviations", deviations, dtype=pl.Float64))


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

    An hour is judged once: when none of its files was written for ten minutes. If they are still written three hours later, it
    is judged by the rows that are there, and standard error says so. An hour whose files arrive late is judged when they are
    there, unless it is older than the `weeks` that are compared.

    Hours that are over when it begins are not told, but for the last one. If files cannot be read, such as those that are
    replaced meanwhile, it says so on standard error and reads them again. After five attempts it leaves the hour out. Raises
    FileNotFoundError if there is no dataset.
    """
    for hour in _hours_that_end(dataset, weeks, clock, wait):
        # They are known before the first alert, so that no attempt alerts of a change twice.
        for change in _patiently(lambda: changes(dataset, hour, weeks=weeks, least_clients=least_clients), hour, wait):
            alert(change)


def _patiently(read: Callable[[], pl.DataFrame], hour: datetime, wait: Callable[[float], None]) -> list[dict[str, Any]]:
    """The rows that were read for this hour. There are none if that failed each time."""
    import polars as pl

    for attempt in range(1, ATTEMPTS + 1):
        try:
            found: list[dict[str, Any]] = read().to_dicts()
            return found
        # Polars panics if a file gets shorter while it is read.
        except (OSError, DatasetError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as problem:
            then = f"again in {PAUSE_S} s" if attempt < ATTEMPTS else "this hour is left out"
            print(f"tidegate: reading for the hour {hour:%Y-%m-%d %H:%M} UTC failed, {then}: {reason(problem)}", file=sys.stderr, flush=True)
        if attempt < ATTEMPTS:
            wait(PAUSE_S)
    return []


def _hours_that_end(
    dataset: str | os.PathLike[str], weeks: int, clock: Callable[[], datetime], wait: Callable[[float], None]
) -> Iterator[datetime]:
    done: set[datetime] | None = None
    #: When the watch first saw hours that are over but not complete.
    seen: dict[datetime, datetime] = {}
    while True:
        now = clock()
        files = _files_by_hour(files_of(dataset))
        over = sorted(hour for hour in files if hour + timedelta(hours=1) + LATE <= now)
        if over:
            # Not the largest alone: hours come in any order after the follower was down.
            oldest = over[-1] - timedelta(weeks=weeks)
            done = {hour for hour in (over[:-1] if done is None else done) if hour >= oldest}
            for hour in over:
                if hour >= oldest and hour not in done and _is_due(hour, files[hour], seen.setdefault(hour, now), now):
                    yield hour
                    done.add(hour)
                    del seen[hour]
        wait(60)


def _is_due(hour: datetime, files: list[Path], seen: datetime, now: datetime) -> bool:
    """Whether an hour can be judged that is over: its files are complete, or it has waited long enough for them."""
    try:
        is_complete = max(file.stat().st_mtime for file in files) <= (now - LATE).timestamp()
    except FileNotFoundError:
        # One is being replaced.
        is_complete = False
    if not is_complete and now - seen >= PATIENCE:
        waited = f"{PATIENCE // timedelta(hours=1)} h"
        print(f"tidegate: files of the hour {hour:%Y-%m-%d %H:%M} UTC are still written after {waited}: it is judged by the rows that are there", file=sys.stderr, flush=True)
        return True
    return is_complete
