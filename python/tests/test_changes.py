"""Changes from what is usual, in datasets whose truth is known."""

import ipaddress
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from math import atan, pi, sqrt
from pathlib import Path
from statistics import NormalDist

import numpy
import polars
import pytest
import tidegate
from tidegate import _changes, _student
from tidegate.__main__ import tell

NOW = datetime(2026, 11, 22, 13, tzinfo=UTC)
DAYS = 15
#: Share of policed clients, and mean loss rate of the others: usually, and now.
TRUTH = {
    64500: ((0.20, 0.01), (0.20, 0.01)),
    64501: ((0.20, 0.01), (0.45, 0.01)),
    64502: ((0.00, 0.01), (0.00, 0.05)),
}


def write_hour(folder: Path, hour: datetime, chance: random.Random) -> None:
    rows = []
    for asn, (usual, now) in TRUTH.items():
        policed_share, loss = now if hour == NOW else usual
        # Some days have more of both.
        day = chance.uniform(0.9, 1.1)
        for client in range(300):
            policed = chance.random() < policed_share * day
            address = ipaddress.IPv6Address(f"::ffff:10.0.{client // 250}.{client % 250}").packed
            row = {"client_address": address, "client_asn": asn, "client_organisation": f"AS {asn}", "policed_any": policed}
            rate = 0.1 if policed else chance.uniform(0, 2 * loss * day)
            rows += [{**row, "loss_rate": rate}] * chance.randint(1, 5)
    numbers = ["limit_rate_bps", "limit_rate_low_bps", "limit_rate_high_bps", "policer_rate_bps", "limit_depth_bytes"]
    others = {name: polars.lit(1_000_000) for name in [*numbers, "capacity_bps", "goodput_bps", "lost_packets"]}
    table = polars.DataFrame(rows).with_columns(
        polars.lit(False).alias("from_client"),
        polars.lit("DE").alias("client_country"),
        polars.lit("EU").alias("client_continent"),
        polars.lit("none").alias("pattern"),
        polars.lit(hour).alias("start_s"),
        polars.lit(40_000).alias("receiver_port"),
        polars.lit("tidegate").alias("detector"),
        polars.lit(1.0).alias("sampled_fraction"),
        polars.lit(10.0).alias("rtt_median_ms"),
        polars.lit(10.0).alias("wait_ms"),
        **others,
    )
    place = folder / "segments" / f"date={hour:%Y-%m-%d}" / f"hour={hour:%H}"
    place.mkdir(parents=True)
    table.write_parquet(place / "0.parquet")
    written_at(place / "0.parquet", hour + timedelta(hours=1))


def written_at(file: Path, time: datetime) -> None:
    os.utime(file, (time.timestamp(), time.timestamp()))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changes")
    chance = random.Random(3)
    for day in range(DAYS):
        write_hour(folder, NOW - timedelta(days=day), chance)
    # Another hour of the day, which has to be left out.
    write_hour(folder, NOW - timedelta(hours=5), chance)
    return folder


def test_what_changed_is_told_and_nothing_else(dataset: Path) -> None:
    found = {(row["client_asn"], row["measure"]): row for row in tidegate.changes(dataset).to_dicts()}
    assert set(found) == {(64501, "policed_share"), (64502, "loss_rate_not_policed")}
    policed = found[64501, "policed_share"]
    assert policed["hour"] == NOW
    assert policed["usual"] == pytest.approx(0.20, abs=0.02)
    assert policed["value"] == pytest.approx(0.45, abs=0.06)
    loss = found[64502, "loss_rate_not_policed"]
    assert loss["usual"] == pytest.approx(0.01, rel=0.1) and loss["value"] == pytest.approx(0.05, rel=0.15)


def test_nothing_is_told_of_usual_days_or_without_enough_of_them(dataset: Path) -> None:
    for day in range(1, 9):
        assert tidegate.changes(dataset, NOW - timedelta(days=day)).is_empty(), day
    assert tidegate.changes(dataset, NOW - timedelta(hours=5)).is_empty(), "no other day has this hour"
    assert tidegate.changes(dataset, least_clients=301).is_empty()


def test_a_system_that_changes_its_name_stays_one(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "renamed"
    shutil.copytree(dataset, folder)
    file = folder / "segments" / f"date={NOW:%Y-%m-%d}" / f"hour={NOW:%H}" / "0.parquet"
    # A third of the clients' addresses has the new name already.
    new = polars.col("client_address").bin.encode("hex").str.slice(-1).is_in(list("01234"))
    name = polars.when(new).then(polars.lit("Another")).otherwise("client_organisation")
    table = polars.read_parquet(file)
    table.with_columns(name.alias("client_organisation")).write_parquet(file)
    found = tidegate.changes(folder)
    assert found.equals(tidegate.changes(dataset))
    assert found["clients"].to_list() == [300, 300] and set(found["client_organisation"]) == {"AS 64501", "AS 64502"}


def test_temporary_addresses_are_no_clients(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    shutil.copytree(dataset, folder)
    # Ten households, whose hosts have 30 addresses each.
    for file in folder.rglob("*.parquet"):
        table = polars.read_parquet(file)
        addresses = [ipaddress.IPv6Address(f"2001:db8:0:{address[15] % 10}::{address[14]}:{address[15]}").packed for address in table["client_address"]]
        table.with_columns(client_address=polars.Series(addresses)).write_parquet(file)
    assert tidegate.changes(folder).is_empty(), "ten clients are fewer than 20"
    assert set(tidegate.changes(folder, least_clients=10)["clients"]) == {10}


def test_files_of_several_versions_are_read(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "versions"
    shutil.copytree(dataset, folder)
    for number, file in enumerate(sorted(folder.rglob("*.parquet"))):
        if number % 2:
            more = [polars.lit("fifo").alias("queue_kind"), polars.lit(1.5).alias("of_a_later_version")]
            polars.read_parquet(file).with_columns(*more).write_parquet(file)
    assert tidegate.changes(folder).equals(tidegate.changes(dataset))


def test_hours_that_spark_wrote_are_hours(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "spark"
    shutil.copytree(dataset, folder)
    # Spark writes hours without a zero in front. The program wrote the hour too.
    (hour,) = folder.glob("segments/*/hour=08")
    shutil.copytree(hour, hour.with_name("hour=8"))
    assert _changes.hours_of(folder) == _changes.hours_of(dataset)
    (other,) = (hour for hour in _changes.hours_of(folder) if hour.hour == 8)
    assert tidegate.changes(folder, other).is_empty()


def test_hours_have_time_zones(dataset: Path) -> None:
    found = tidegate.changes(dataset, NOW.astimezone(timezone(timedelta(hours=5, minutes=30))))
    assert len(found) == 2 and found.equals(tidegate.changes(dataset))
    assert found.equals(tidegate.changes(dataset, NOW.replace(tzinfo=None)))


@pytest.mark.parametrize(
    ("freedom", "one_sided", "quantile"),
    # Tables of Student's distribution have these.
    [
        (1, 0.025, 12.706),
        (4, 0.025, 2.776),
        (4, 0.005, 4.604),
        (4, 0.0005, 8.610),
        (10, 0.05, 1.812),
        (10, 0.0005, 4.587),
        (13, 0.005, 3.012),
        (27, 0.0005, 3.690),
        (30, 0.025, 2.042),
        (120, 0.0005, 3.373),
    ],
)
def test_quantiles_of_student_are_those_of_tables(freedom: int, one_sided: float, quantile: float) -> None:
    low, high = (_student.two_sided(quantile + sign * 0.0005, freedom) for sign in (1, -1))
    assert low <= 2 * one_sided <= high
    assert _student.normal_deviation(-quantile, freedom) == pytest.approx(NormalDist().inv_cdf(one_sided), abs=2e-3)


def test_student_is_what_formulas_say() -> None:
    for t in (1e-6, 0.1, 1.0, 1.9, 2.1, 5.0, 17.4, 300.0):
        assert _student.two_sided(t, 1) == pytest.approx(2 * atan(1 / t) / pi, rel=1e-12)
        # Written so that nothing is lost far out: 1 - t / sqrt(2 + t²).
        assert _student.two_sided(t, 2) == pytest.approx(2 / (sqrt(2 + t * t) * (sqrt(2 + t * t) + t)), rel=1e-12)
    for t in (-6.0, -4.0, -0.5, 0.0, 2.0, 5.0):
        assert _student.normal_deviation(t, 10**7) == pytest.approx(t, abs=1e-5)
    values = [_student.normal_deviation(t, 27) for t in (0.0, 1.0, 10.0, 1e3, 1e6, 1e30, float("inf"))]
    assert values == sorted(values) and values[0] == 0 and values[-1] < 40


@pytest.mark.parametrize("days", [5, 14])
def test_chance_seldom_alarms(days: int) -> None:
    chance = numpy.random.default_rng(6)
    systems = range(2000)

    def day(number: int) -> polars.DataFrame:
        values = chance.normal(0.5, 0.1, len(systems))
        columns = {"client_asn": systems, "clients": 100, "share": values, "share_low": values - 1e-3, "share_high": values + 1e-3}
        return polars.DataFrame(columns).with_columns(polars.lit(number).alias("date"))

    before, now = polars.concat([day(number) for number in range(days)]), day(days)
    found = _changes._deviations(before, now, "share")["deviations"]
    assert len(found) == len(systems)
    # 0.13 are expected. Of a normal distribution, whose variance would be known, 32 were beyond the threshold after five days.
    assert (found.abs() >= _changes.DEVIATIONS).sum() < 5
    # They are those of a normal distribution at all distances, not only at the threshold.
    assert (found.abs() >= 1.96).mean() == pytest.approx(0.05, abs=0.015)
    assert found.mean() == pytest.approx(0, abs=0.1)


class Enough(Exception):
    """Ends a watch."""


def test_a_watch_tells_each_hour_once_when_it_is_over(dataset: Path) -> None:
    times = iter([NOW + timedelta(minutes=65), NOW + timedelta(minutes=71), NOW + timedelta(minutes=72)])
    told: list[tuple[datetime, int]] = []
    waits: list[int] = []

    def wait(seconds: float) -> None:
        waits.append(len(told))
        if len(waits) == 3:
            raise Enough

    with pytest.raises(Enough):
        tidegate.watch(dataset, lambda row: told.append((row["hour"], row["client_asn"])), clock=lambda: next(times), wait=wait)
    # The hour is not over at first; that before is told of, and has no changes.
    assert waits == [0, 2, 2]
    assert sorted(told) == [(NOW, 64501), (NOW, 64502)]


def told_at(folder: Path, steps: Sequence[tuple[datetime, Callable[[], None]]]) -> list[list[tuple[datetime, int]]]:
    """What a watch tells at each of these times, after something has happened to the dataset."""
    told: list[list[tuple[datetime, int]]] = []
    left = iter(steps)

    def clock() -> datetime:
        time, happens = next(left)
        happens()
        told.append([])
        return time

    def wait(seconds: float) -> None:
        if len(told) == len(steps):
            raise Enough

    with pytest.raises(Enough):
        tidegate.watch(folder, lambda row: told[-1].append((row["hour"], row["client_asn"])), clock=clock, wait=wait)
    return told


CHANGED = [(NOW, 64501), (NOW, 64502)]


def nothing() -> None:
    """Happens while the watch waits."""


def test_a_watch_waits_for_files_that_still_arrive(dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "late"
    shutil.copytree(dataset, folder)
    file = folder / "segments" / f"date={NOW:%Y-%m-%d}" / f"hour={NOW:%H}" / "0.parquet"
    written_at(file, NOW + timedelta(minutes=69))
    steps = [(NOW + timedelta(minutes=minute), nothing) for minute in (71, 78, 79, 80)]
    assert [sorted(told) for told in told_at(folder, steps)] == [[], [], CHANGED, []]
    assert capfd.readouterr().err == ""


def test_a_watch_does_not_wait_for_ever(dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "endless"
    shutil.copytree(dataset, folder)
    file = folder / "segments" / f"date={NOW:%Y-%m-%d}" / f"hour={NOW:%H}" / "0.parquet"
    times = [NOW + timedelta(minutes=75), NOW + timedelta(minutes=254), NOW + timedelta(minutes=255), NOW + timedelta(minutes=256)]
    steps = [(time, partial(written_at, file, time)) for time in times]
    assert [sorted(told) for told in told_at(folder, steps)] == [[], [], CHANGED, []]
    (line,) = capfd.readouterr().err.splitlines()
    assert "2026-11-22 13:00 UTC are still written after 3 h" in line


def test_a_watch_tells_hours_that_arrive_after_later_ones(dataset: Path, tmp_path: Path) -> None:
    # The follower was down, and goes on with the newest capture.
    folder = tmp_path / "outage"
    shutil.copytree(dataset, folder)
    place = folder / "segments" / f"date={NOW:%Y-%m-%d}"
    shutil.copytree(place / f"hour={NOW:%H}", place / f"hour={NOW.hour + 1}")
    place.joinpath(f"hour={NOW:%H}").rename(tmp_path / "missing")

    def arrives() -> None:
        (tmp_path / "missing").rename(place / f"hour={NOW:%H}")

    old = folder / "segments" / f"date={NOW - timedelta(days=40):%Y-%m-%d}" / f"hour={NOW:%H}"

    def is_old() -> None:
        shutil.copytree(place / f"hour={NOW:%H}", old)

    steps = [(NOW + timedelta(minutes=minute), happens) for minute, happens in [(140, nothing), (150, arrives), (160, is_old), (170, nothing)]]
    assert [sorted(told) for told in told_at(folder, steps)] == [[], CHANGED, [], []]


def test_files_of_other_hours_are_not_opened(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(dataset, folder)
    (other,) = folder.glob("segments/*/hour=08/0.parquet")
    other.write_bytes(b"PAR1 no more")
    assert tidegate.changes(folder).equals(tidegate.changes(dataset))


def watched(folder: Path, waits: list[float], then: dict[int, tuple[Path, bytes]]) -> list[tuple[datetime, int]]:
    """What a watch tells up to its first wait of a minute. Before it goes on after a wait, a file gets other contents."""
    told: list[tuple[datetime, int]] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if seconds >= 60:
            raise Enough
        if len(waits) in then:
            file, content = then[len(waits)]
            file.write_bytes(content)

    with pytest.raises(Enough):
        tidegate.watch(
            folder, lambda row: told.append((row["hour"], row["client_asn"])), clock=lambda: NOW + timedelta(minutes=71), wait=wait
        )
    return told


def test_a_watch_reads_again_what_could_not_be_read(dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(dataset, folder)
    file = folder / "segments" / f"date={NOW - timedelta(days=1):%Y-%m-%d}" / f"hour={NOW:%H}" / "0.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    waits: list[float] = []
    told = watched(folder, waits, {2: (file, whole)})
    assert sorted(told) == [(NOW, 64501), (NOW, 64502)]
    assert waits == [_changes.PAUSE_S, _changes.PAUSE_S, 60]
    lines = capfd.readouterr().err.splitlines()
    assert [line for line in lines if "again in 30 s" in line] == lines and len(lines) == 2
    assert "2026-11-22 13:00 UTC" in lines[0]


def test_a_watch_leaves_an_hour_out_that_cannot_be_read(
    dataset: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(dataset, folder)
    file = folder / "segments" / f"date={NOW:%Y-%m-%d}" / f"hour={NOW:%H}" / "0.parquet"
    file.write_bytes(b"PAR1 no more")
    written_at(file, NOW + timedelta(hours=1))
    waits: list[float] = []
    assert watched(folder, waits, {}) == []
    assert waits == [_changes.PAUSE_S] * (_changes.ATTEMPTS - 1) + [60]
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == _changes.ATTEMPTS and "left out" in lines[-1]


def test_an_alert_that_fails_is_no_file_that_fails(dataset: Path) -> None:
    told: list[int] = []

    def alert(row: dict[str, object]) -> None:
        told.append(1)
        raise OSError("the alert fails")

    with pytest.raises(OSError, match="the alert fails"):
        tidegate.watch(dataset, alert, clock=lambda: NOW + timedelta(minutes=71), wait=lambda seconds: None)
    assert told == [1], "nobody is told twice"


def test_a_watch_of_no_dataset_ends(tmp_path: Path) -> None:
    def wait(seconds: float) -> None:
        raise Enough

    with pytest.raises(FileNotFoundError, match="no dataset"):
        tidegate.watch(tmp_path, print, wait=wait)
    command = [sys.executable, "-m", "tidegate", "report", str(tmp_path), "--watch"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=50)
    assert ran.returncode == 1 and "no dataset" in ran.stderr
    # A dataset may be empty at first.
    (tmp_path / "segments").mkdir()
    with pytest.raises(Enough):
        tidegate.watch(tmp_path, print, wait=wait)


def test_an_alert_gets_json(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    change = {"client_asn": 64501, "measure": "policed_share", "value": 0.5, "hour": NOW}
    tell(change, f"while read -r line; do echo \"$line\"; done > {tmp_path}/alert")
    assert json.loads((tmp_path / "alert").read_text())["hour"] == "2026-11-22T13:00:00+00:00"
    tell(change, "exit 3")
    assert "failed with 3" in capfd.readouterr().err
    monkeypatch.setattr("tidegate.__main__.ALERT_SECONDS", 0.1)
    tell(change, "exec sleep 30")
    assert "more than 0.1 s" in capfd.readouterr().err


def test_the_command_prints_a_summary(dataset: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidegate", "report"]
    ran = subprocess.run([*command, str(dataset), "--save", str(tmp_path)], capture_output=True, text=True, check=True)
    assert "AS64502" in ran.stdout and (tmp_path / "report.html").exists()
    ran = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 1 and "no dataset" in ran.stderr
