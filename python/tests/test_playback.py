"""Playbacks beside segments, where the truth is known."""

import ipaddress
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars
import pytest
import tidegate
from test_report import BEGIN, dataset, rows, write  # noqa: F401: a fixture
from tidegate import _playback

#: As the class of the playbacks that these tests look at, in bit/s.
CLASS = 1_500_000


def log_of(folder: Path) -> polars.DataFrame:
    """Playbacks of the clients of a dataset: two each, one of 100 s from the first segment on, and one a day later."""
    chance = random.Random(7)
    table = polars.read_parquet(folder / "segments" / "**" / "*.parquet").filter(~polars.col("from_client"))
    clients = table.group_by("client_address").agg(polars.col("policed_any").any(), polars.col("start_s").min()).sort("client_address")
    found = []
    for address, policed, start in clients.iter_rows():
        stalled = chance.random() < (0.6 if policed else 0.1)
        played: dict[str, Any] = {"client_address": str(ipaddress.IPv6Address(address).ipv4_mapped), "watch_s": 90.0, "join_s": 1.5}
        played |= {"rebuffer_s": chance.uniform(1, 30) if stalled else 0.0}
        found += [{**played, "start_s": start}, {**played, "start_s": start.replace(day=start.day + 1), "rebuffer_s": 60.0}]
    return polars.DataFrame(found)


def test_playbacks_are_those_during_which_segments_began(dataset: Path, tmp_path: Path) -> None:  # noqa: F811
    log = log_of(dataset)
    report = tidegate.report(dataset, playback=log)
    assert report.playbacks is not None and report.rebuffering is not None
    segments = [row for row in rows() if not row["from_client"] and abs(row["goodput_bps"] - CLASS) <= 0.15 * CLASS]
    policed: dict[str, bool] = {}
    for row in segments:
        address = str(ipaddress.IPv6Address(row["client_address"]).ipv4_mapped)
        policed[address] = policed.get(address, False) or row["policed_any"]
    # Of each client the first playback, since nothing was sent during the other one.
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for row in log.iter_rows(named=True):
        if row["client_address"] in policed and row["start_s"].day == BEGIN.day:
            ratios[policed[row["client_address"]]].append(row["rebuffer_s"] / 90)
    (told,) = report.playbacks.filter(goodput_class_bps=CLASS).to_dicts()
    assert told["playbacks"] == told["clients"] == len(policed) > 50
    assert told["policed_share"] == pytest.approx(len(ratios[True]) / len(policed))
    for name, of in [("policed", ratios[True]), ("not_policed", ratios[False])]:
        share = sum(ratio > 0 for ratio in of) / len(of)
        assert told[f"rebuffering_share_{name}"] == pytest.approx(share)
        assert told[f"rebuffering_share_{name}_low"] < share < told[f"rebuffering_share_{name}_high"]
        quantiles = report.rebuffering.filter(goodput_class_bps=CLASS, measure=f"rebuffering_ratio_{name}")["value"]
        assert quantiles.to_list() == pytest.approx([sorted(of)[-(-step * len(of) // 100) - 1] for step in range(1, 100)])
    assert "PLAYBACKS AT" in str(report) and "1.5 Mbit/s" in str(report)
    assert "Time rebuffering over time watching, at 1.5 Mbit/s" in report.html()
    report.save(tmp_path)
    assert polars.read_parquet(tmp_path / "rebuffering.parquet").equals(report.rebuffering)


def households(folder: Path) -> polars.DataFrame:
    """Writes a dataset with three hosts in each of 20 households with IPv6, and gives the log of their players."""
    template = next(row for row in rows() if not row["from_client"])
    addresses = [ipaddress.IPv6Address(f"2001:db8:0:{household:x}::{host:x}") for household in range(20) for host in range(1, 4)]
    write([{**template, "client_address": address.packed, "goodput_bps": CLASS} for address in addresses], folder)
    played = {"start_s": template["start_s"], "join_s": 1.0, "rebuffer_s": 0.0, "watch_s": 90.0}
    return polars.DataFrame([{"client_address": str(address), **played} for address in addresses])


def test_playbacks_have_addresses_and_clients_have_prefixes(tmp_path: Path) -> None:
    report = tidegate.report(tmp_path, playback=households(tmp_path))
    assert report.playbacks is not None
    (told,) = report.playbacks.to_dicts()
    assert (told["playbacks"], told["clients"]) == (60, 20)
    few = tidegate.report(tmp_path, playback=households(tmp_path / "again"), least_clients=21)
    assert few.playbacks is not None and few.playbacks["policed_share"].to_list() == [None]


def test_without_a_log_nothing_is_said(dataset: Path) -> None:  # noqa: F811
    report = tidegate.report(dataset)
    assert report.playbacks is None and "playbacks" not in report.tables()
    assert "PLAYBACKS" not in str(report) and "Playbacks" not in report.html()


def test_a_log_of_other_clients_is_said_to_fit_nothing(dataset: Path) -> None:  # noqa: F811
    report = tidegate.report(dataset, playback=log_of(dataset).with_columns(client_address=polars.lit("203.0.113.250")))
    assert report.playbacks is not None and not len(report.playbacks)
    for said in (str(report), report.html()):
        assert "No playback of the log belongs to a segment with a goodput within 15 % of 0.3 or 1.5 or 3 Mbit/s" in said
        assert "PLAYBACKS AT" not in said and "<h2>Playbacks" not in said
    assert "No playback" not in str(tidegate.report(dataset, playback=log_of(dataset)))


def test_a_log_may_be_a_file_of_any_form(dataset: Path, tmp_path: Path) -> None:  # noqa: F811
    log = log_of(dataset)
    there = tidegate.report(dataset, playback=log)
    log.write_parquet(tmp_path / "log.parquet")
    log.write_csv(tmp_path / "times.csv", datetime_format="%Y-%m-%dT%H:%M:%S%.fZ")
    log.with_columns(polars.col("start_s").dt.timestamp("us") / 1e6).write_csv(tmp_path / "seconds.csv")
    for name in ("log.parquet", "times.csv", "seconds.csv"):
        here = tidegate.report(dataset, playback=tmp_path / name)
        assert here.playbacks is not None and here.rebuffering is not None
        assert here.playbacks.equals(there.playbacks) and here.rebuffering.equals(there.rebuffering)
    command = [sys.executable, "-m", "tidegate", "report", str(dataset), "--playback", str(tmp_path / "times.csv")]
    assert "PLAYBACKS AT" in subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_values_that_are_nan_are_missing() -> None:
    whole = {"client_address": "192.0.2.1", "start_s": 1.0, "rebuffer_s": 2.0, "watch_s": 10.0, "join_s": 1.0}
    for name in ("start_s", "rebuffer_s", "watch_s", "join_s"):
        missing, nan = (_playback.normal(polars.DataFrame([whole, {**whole, name: value}])) for value in (None, float("nan")))
        assert nan.equals(missing), name
        assert _playback.normal(polars.DataFrame([whole, {**whole, name: float("nan")}]).cast(polars.String)).equals(missing)
        with pytest.raises(ValueError, match=f"a {name} that is no number"):
            _playback.normal(polars.DataFrame([{**whole, name: float("inf")}]))


def test_ports_tell_players_of_an_address_apart(dataset: Path) -> None:  # noqa: F811
    log = log_of(dataset)
    both = polars.concat([log.with_columns(client_port=polars.lit(port)) for port in (40_000, 40_001)])
    report = tidegate.report(dataset, playback=both)
    there = tidegate.report(dataset, playback=log)
    assert report.playbacks is not None
    assert report.playbacks.equals(there.playbacks), "all segments have the port 40000"


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("client_address", "example.net", "client_address 'example.net'"),
        ("start_s", "yesterday", "start_s that is no time"),
        ("rebuffer_s", "much", "rebuffer_s that is no number"),
        ("watch_s", None, "no column watch_s"),
    ],
)
def test_mistakes_of_a_log_are_told(dataset: Path, column: str, value: str | None, told: str) -> None:  # noqa: F811
    log = polars.DataFrame({"client_address": ["192.0.2.0/24"], "start_s": ["1763816400"], "join_s": ["1"], "rebuffer_s": ["0"], "watch_s": ["9"]})
    wrong = log.drop(column) if value is None else log.with_columns(polars.lit(value).alias(column))
    with pytest.raises(ValueError, match=told):
        tidegate.report(dataset, playback=wrong)


#: Videos of which the lab knows whether a policer limits them, and how they play.
SCENARIO = """
title = "Players"
duration = "4min"

[[element]]
name = "server"
kind = "tap"
shared = true

[[element]]
name = "policer"
kind = "policer"
rate = "1600kbit"
burst = "400kB"

[[element]]
name = "line"
kind = "link"
rate = "1600kbit"
queue = "60kB"
"""
#: Clients behind each limiter, with a player each.
CLIENTS = 25


def scenario() -> str:
    parts = [SCENARIO]
    for number, limiter in enumerate(["policer", "line"]):
        addresses = ", ".join(f'"10.128.{number}.{client + 1}"' for client in range(CLIENTS))
        parts.append(
            f'[[aggregate]]\nname = "behind-{limiter}"\ncount = {CLIENTS}\n[[flow]]\nname = "video-{limiter}"\naggregate = "behind-{limiter}"\n'
            f'per-aggregate = ["client"]\nclient = [{addresses}]\nrtt = "20ms..60ms"\nstart = "0s..20s"\nslow-start-after-idle = false\n'
            f'path = ["server", "{limiter}"]\nback = ["server"]\n'
            'traffic = { kind = "adaptive", ladder = ["600kbit", "1200kbit", "2400kbit"], initial = "1200kbit", segment = "5s", length = "60s" }\n'
        )
    return "\n".join(parts)


def test_the_lab_knows_who_rebuffers(tmp_path: Path) -> None:
    run = tidegate.lab.run(scenario(), captures=True, seed=1)
    for name, content in run.captures.items():
        (tmp_path / f"{Path(name).name}.pcap").write_bytes(content)
    table = polars.DataFrame(tidegate.read(sorted(tmp_path.glob("*.pcap")), sampled=1.0))
    place = tmp_path / "segments" / "date=1970-01-01" / "hour=00"
    place.mkdir(parents=True)
    table.write_parquet(place / "0.parquet")
    flows = polars.DataFrame(run.flows).with_columns(polars.col("aggregate").str.extract(r"(\d+)$").alias("client"))
    behind = polars.when(polars.col("flow") == "video-policer").then(polars.lit("10.128.0.")).otherwise(polars.lit("10.128.1."))
    log = flows.select((behind + polars.col("client")).alias("client_address"), "start_s", "join_s", rebuffer_s="stalled_s", watch_s=polars.lit(60.0))
    report = tidegate.report(tmp_path, playback=log)
    assert report.playbacks is not None and report.rebuffering is not None
    told = report.playbacks.filter(goodput_class_bps=CLASS).to_dicts()[0]
    assert told["playbacks"] == 2 * CLIENTS and told["policed_share"] == 0.5
    for limiter, name in [("policer", "policed"), ("line", "not_policed")]:
        ratios = flows.filter(flow=f"video-{limiter}")["rebuffering_ratio"].sort().to_list()
        assert told[f"rebuffering_share_{name}"] == sum(ratio > 0 for ratio in ratios) / CLIENTS
        quantiles = report.rebuffering.filter(goodput_class_bps=CLASS, measure=f"rebuffering_ratio_{name}")["value"].to_list()
        assert quantiles == pytest.approx([ratios[-(-step * CLIENTS // 100) - 1] for step in range(1, 100)], abs=1e-6)
    # The bucket lets players choose a quality that cannot be sustained [Flach16 §5.1]; behind the line none did.
    assert told["rebuffering_share_policed"] > 0.9 and told["rebuffering_share_not_policed"] == 0
