"""Changes from what is usual, in datasets whose truth is known."""

import ipaddress
import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars
import pytest
import tidegate
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


def test_an_alert_gets_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    change = {"client_asn": 64501, "measure": "policed_share", "value": 0.5, "hour": NOW}
    tell(change, f"cat > {tmp_path}/alert")
    assert json.loads((tmp_path / "alert").read_text())["hour"] == "2026-11-22T13:00:00+00:00"
    tell(change, "exit 3")
    assert "failed with 3" in capfd.readouterr().err


def test_the_command_prints_a_summary(dataset: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tidegate", "report"]
    ran = subprocess.run([*command, str(dataset), "--save", str(tmp_path)], capture_output=True, text=True, check=True)
    assert "AS64502" in ran.stdout and (tmp_path / "report.html").exists()
    ran = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True)
    assert ran.returncode == 1 and "no dataset" in ran.stderr
