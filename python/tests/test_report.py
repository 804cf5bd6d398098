"""The report, on datasets whose truth is known."""

import dataclasses
import ipaddress
import json
import operator
import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy
import polars
import pytest
import tidegate
from polars.testing import assert_frame_equal
from tidegate import _misjudged, _networks, _page, _shares

#: AS number, country, continent, share of clients behind a policer, plans in bit/s.
NETWORKS = [
    (64500, "KE", "AF", 0.30, [1e6, 2e6]),
    (64501, "IN", "AS", 0.10, [10e6]),
    (64502, "DE", "EU", 0.05, [50e6]),
    (64503, "US", "NA", 0.0, []),
]
CLIENTS = 400
SAMPLED = 0.1
BEGIN = datetime(2026, 11, 22, 13, tzinfo=UTC)


def rows() -> list[dict[str, Any]]:
    """Segments of clients: those behind a policer are policed in all that they lose."""
    chance = random.Random(1)
    found = []
    for number, (asn, country, continent, share, plans) in enumerate(NETWORKS):
        for client in range(CLIENTS):
            policed = chance.random() < share
            plan = chance.choice(plans) if policed else None
            address = ipaddress.IPv6Address(f"::ffff:10.{number}.{client // 250}.{client % 250}")
            for segment in range(chance.randint(1, 9)):
                lossy = policed or chance.random() < 0.2
                found.append(
                    {
                        "from_client": False,
                        "detector": "tidegate",
                        "client_address": address.packed,
                        "receiver_port": 40_000,
                        "start_s": BEGIN + timedelta(seconds=10 * segment),
                        "client_asn": asn,
                        "client_organisation": f"Network {number} <b>",
                        "client_country": country,
                        "client_continent": continent,
                        "sampled_fraction": SAMPLED,
                        "policed_any": policed,
                        "lost_packets": 40 if lossy else 2,
                        "loss_rate": chance.uniform(0.1, 0.3) if policed else chance.uniform(0, 0.02),
                        # Some lie far off, as those of segments that were judged wrongly do.
                        "limit_rate_bps": None
                        if plan is None
                        else round(chance.uniform(1e5, 9e7) if chance.random() < 0.1 else plan * chance.gauss(1, 0.01)),
                        "limit_rate_low_bps": None if plan is None else round(plan * 0.99),
                        "limit_rate_high_bps": None if plan is None else round(plan * 1.01),
                        "policer_rate_bps": None if plan is None else round(plan * 0.95),
                        "limit_depth_bytes": None if plan is None else 60_000,
                        "capacity_bps": 100_000_000,
                        # Some goodputs are alike with and without a policer.
                        "goodput_bps": round(plan * 0.8) if plan else round([chance.uniform(1e6, 9e7), 1.4e6][client % 5 == 0]),
                        "rtt_median_ms": chance.uniform(10, 100),
                        "pattern": "staircase" if policed else "none",
                        "wait_ms": chance.uniform(500, 2000) if policed else chance.uniform(1, 20),
                    }
                )
    # What clients sent does not count.
    return found + [{**row, "from_client": True, "policed_any": True} for row in found[:500]]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dataset")
    write(rows(), folder)
    return folder


def write(segments: list[dict[str, Any]], folder: Path) -> None:
    """A dataset of these segments, dealt out to four hours."""
    kinds: dict[str, Any] = dict.fromkeys(["limit_rate_low_bps", "limit_rate_high_bps"], polars.UInt64)
    kinds |= {"start_s": polars.Datetime("ns", "UTC"), "receiver_port": polars.UInt16}
    kinds |= {"client_asn": polars.UInt32, "limit_rate_bps": polars.UInt64, "policer_rate_bps": polars.UInt64, "limit_depth_bytes": polars.UInt64}
    table = polars.DataFrame(segments, schema_overrides=kinds, infer_schema_length=None)
    for hour in range(4):
        place = folder / "segments" / "date=2026-11-22" / f"hour={hour:02}"
        place.mkdir(parents=True)
        table.gather_every(4, hour).write_parquet(place / "0.parquet")


#: Of an autonomous system: policing rate, number of segments, share that was sampled, organisation.
MIXED: dict[int, list[tuple[float, int, float, str]]] = {
    # As many segments of each plan.
    64500: [(1e6, 10, 0.01, "One"), (2e6, 100, 0.1, "One")],
    # The window from 1 Mbit/s on ends before 1.14 Mbit/s. That around 1.14 Mbit/s would reach 1.09 Mbit/s.
    64501: [(1e6, 20, 0.1, "Two"), (1.09e6, 10, 0.1, "Two"), (1.14e6, 15, 0.1, "Two")],
    # Renamed, and more segments with the new name are sampled, although they stand for fewer.
    64502: [(5e6, 20, 0.01, "Three"), (5e6, 30, 0.1, "Drei")],
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of several versions of the program, with shares that differ and a system that was renamed."""
    template = next(row for row in rows() if row["policed_any"])
    segments: list[dict[str, Any]] = []
    for asn, groups in MIXED.items():
        for rate, many, sampled, organisation in groups:
            for _ in range(many):
                client = len(segments)
                segments.append(
                    {
                        **template,
                        "client_address": ipaddress.IPv6Address(f"::ffff:10.0.{client // 250}.{client % 250}").packed,
                        "client_asn": asn,
                        "client_organisation": organisation,
                        "sampled_fraction": sampled,
                        **dict.fromkeys(["limit_rate_bps", "limit_rate_low_bps", "limit_rate_high_bps"], round(rate)),
                    }
                )
    folder = tmp_path_factory.mktemp("mixed")
    write(segments, folder)
    for hour, file in enumerate(sorted(folder.rglob("*.parquet"))):
        # Columns that only some files have: one that this version knows, and one that it does not.
        if hour in (1, 2):
            polars.read_parquet(file).with_columns(queue_kind=polars.lit("fifo"), of_a_later_version=polars.lit(hour)).write_parquet(file)
    return folder


@pytest.fixture(scope="module")
def temporary(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same dataset with IPv6: each client has a prefix of 64 bits, and each of its segments a temporary address in it."""
    folder = tmp_path_factory.mktemp("temporary") / "d"
    shutil.copytree(dataset, folder)
    chance = random.Random(5)
    for file in folder.rglob("*.parquet"):
        table = polars.read_parquet(file)
        addresses = [b"\x20\x01\x0d\xb8" + address[12:] + chance.randbytes(8) for address in table["client_address"]]
        table.with_columns(client_address=polars.Series(addresses, dtype=polars.Binary)).write_parquet(file)
    return folder


def test_temporary_addresses_of_a_client_are_one_client(dataset: Path, temporary: Path) -> None:
    here, there = tidegate.report(temporary), tidegate.report(dataset)
    assert here.networks["clients"].to_list() == [CLIENTS] * len(NETWORKS)
    for name, table in there.tables().items():
        assert_frame_equal(here.tables()[name], table, check_exact=True)
    assert tidegate.report(temporary, least_clients=CLIENTS + 1).networks["policed_share"].null_count() == len(NETWORKS)


def test_files_of_several_versions_are_read(dataset: Path, tmp_path: Path) -> None:
    here = tidegate.report(dataset)
    for newer in (0, 3):
        folder = tmp_path / f"{newer}"
        shutil.copytree(dataset, folder)
        file = folder / "segments" / "date=2026-11-22" / f"hour={newer:02}" / "0.parquet"
        table = polars.read_parquet(file)
        table.with_columns(queue_kind=polars.lit("fifo"), of_a_later_version=polars.lit(1)).write_parquet(file)
        for name, there in tidegate.report(folder).tables().items():
            assert there.equals(here.tables()[name]), name


def test_clusters_weigh_what_was_sampled(mixed: Path) -> None:
    clusters = tidegate.report(mixed).clusters
    plans = clusters.filter(client_asn=64500).sort("rate_bps")
    assert plans["rate_bps"].to_list() == [1_000_000, 2_000_000]
    assert plans["share"].to_list() == [0.5, 0.5]
    assert plans["sampled_segments"].to_list() == [10, 100]


def test_no_segment_is_in_two_clusters(mixed: Path) -> None:
    clusters = tidegate.report(mixed).clusters.filter(client_asn=64501)
    assert clusters["sampled_segments"].to_list() == clusters["clients"].to_list() == [30, 15]
    assert clusters["share"].to_list() == pytest.approx([30 / 45, 15 / 45])
    # The mean would be 1.03 Mbit/s, from which 1.09 Mbit/s is too far.
    assert clusters["rate_bps"].to_list() == [round(1.09e6 / 1.05), 1_140_000]


def test_windows_cover_the_share_greedily() -> None:
    chance = numpy.random.default_rng(7)
    for _ in range(50):
        rates = 10 ** chance.uniform(6, 7, chance.integers(1, 200)).round(2)
        weights = chance.integers(1, 10, len(rates)) * 10**7
        given = polars.DataFrame({"rate": rates, "weight": weights})
        found = _networks.windows(given["rate"], given["weight"])
        assert found["rate"].n_unique() == len(found), "each rate is in one window"
        ends = found.group_by("window").agg(polars.col("weight").sum(), low=polars.col("rate").min(), high=polars.col("rate").max())
        ends = ends.sort("window")
        left = list(zip(rates, weights, strict=True))
        goal, covered = 0.75 * weights.sum(), 0
        for _, weight, low, high in ends.iter_rows():
            assert covered < goal, "there are no more windows than it takes"
            # By hand, each time: the window from each rate on that covers most of what is left.
            best = max(sum(w for r, w in left if start <= r <= start / 0.95 * 1.05) for start, _ in left)
            inside = [w for r, w in left if low <= r <= high]
            assert high <= low / 0.95 * 1.05 and weight == sum(inside) == best
            left = [(r, w) for r, w in left if not low <= r <= high]
            covered += weight
        assert covered >= goal
    # What is no rate counts for nothing.
    odd = polars.DataFrame({"rate": [1e6, float("nan"), float("inf"), 0.0, -1.0, None], "weight": [1] * 6})
    assert _networks.windows(odd["rate"], odd["weight"])["rate"].to_list() == [1e6]
    assert _networks.windows(odd["rate"].clear(), odd["weight"].clear()).is_empty()


def test_a_system_that_changes_its_name_stays_one(mixed: Path) -> None:
    (row,) = tidegate.report(mixed).networks.filter(client_asn=64502).to_dicts()
    assert list(row)[:2] == ["client_asn", "client_organisation"]
    assert (row["client_organisation"], row["clients"], row["sampled_segments"], row["segments"]) == ("Drei", 50, 50, 2300)
    assert tidegate.report(mixed).networks["client_asn"].is_unique().all()


def test_the_truth_is_in_the_intervals(dataset: Path) -> None:
    report = tidegate.report(dataset)
    served = [row for row in rows() if not row["from_client"]]
    for asn, country, _, share, plans in NETWORKS:
        (row,) = report.networks.filter(polars.col("client_asn") == asn).to_dicts()
        of = [segment for segment in served if segment["client_asn"] == asn]
        policed = [segment for segment in of if segment["policed_any"]]
        lossy = [segment for segment in of if segment["lost_packets"] >= 15]
        assert row["clients"] == CLIENTS
        assert row["segments"] == pytest.approx(len(of) / SAMPLED, abs=1)
        assert row["policed_share"] == pytest.approx(len(policed) / len(of))
        assert row["policed_share_of_lossy"] == pytest.approx(len(policed) / len(lossy))
        assert row["policed_share_low"] <= share <= row["policed_share_high"]
        assert row["prevalence_low"] <= share <= row["prevalence_high"]
        if lossy:
            of_lossy = sum(segment["policed_any"] for segment in lossy) / len(lossy)
            assert row["prevalence_of_lossy_low"] <= of_lossy <= row["prevalence_of_lossy_high"]
        # Segments of a client are alike: the interval is that of clients, wider than that of segments would be.
        assert row["policed_share_high"] - row["policed_share_low"] < 0.15
        rates = report.clusters.filter(polars.col("client_asn") == asn)["rate_bps"].to_list()
        for plan in plans:
            assert any(rate == pytest.approx(plan, rel=0.03) for rate in rates)
        assert bool(rates) == bool(plans), "without policers there are no policing rates"
        if policed:
            loss = sum(segment["loss_rate"] for segment in policed) / len(policed)
            assert row["loss_rate_policed"] == pytest.approx(loss)
            assert row["share_staircase"] == 1
            assert row["loss_rate_policed_low"] < loss < row["loss_rate_policed_high"]
            assert (row["bucket_median_bytes"], row["country"]) == (60_000, country)
            # Plans make few rates, and goodputs of what is not policed lie far apart.
            assert row["clusters_of_policing_rates"] == len(plans) < row["clusters_of_other_goodputs"]
        else:
            assert row["loss_rate_policed"] is None and row["clusters_of_policing_rates"] is None


def few(chance: random.Random) -> int:
    """Segments of a client: about equally many."""
    return chance.randint(1, 20)


def heavy(chance: random.Random) -> int:
    """A few clients have most of the segments, such as proxies do."""
    return min(int(3 * chance.paretovariate(1.1)), 5000)


@pytest.mark.parametrize("sizes", [few, heavy])
@pytest.mark.parametrize("clients", [20, 60, 400])
@pytest.mark.parametrize("share", [0.02, 0.2])
def test_intervals_hold_the_truth_as_often_as_they_say(sizes: Callable[[random.Random], int], clients: int, share: float) -> None:
    # A share of the clients is policed. Of the others, the loss rates lie close together.
    chance = random.Random(2)
    held = {True: 0, False: 0}
    for _ in range(400):
        wholes = [1000 * sizes(chance) for _ in range(clients)]
        policed = [whole * (chance.random() < share) for whole in wholes]
        lost = [int(whole * chance.betavariate(100 * share, 100 * (1 - share))) for whole in wholes]
        for parts, mean in ((policed, False), (lost, True)):
            products = [sum(map(operator.mul, *pair)) for pair in [(parts, parts), (parts, wholes), (wholes, wholes)]]
            _, low, high = _shares.interval(_shares.Sums(clients, sum(parts), sum(wholes), *products), mean)
            held[mean] += low <= share <= high
    assert held[False] / 400 >= 0.92
    assert held[True] / 400 >= 0.91


def test_one_client_says_nothing_of_others() -> None:
    # Of a client that has all segments but for a few, nothing follows for shares.
    (part, whole), others = (0, 10**6), 30
    sums = _shares.Sums(1 + others, part, whole + others, 0, 0, whole**2 + others)
    assert _shares.interval(sums)[2] > 0.75
    assert _shares.interval(sums, mean=True) == (0, 0, 1)


@pytest.mark.parametrize("truth", [0.0, 0.004, 0.2, 1.0])
def test_prevalences_hold_the_truth_although_the_detector_errs(truth: float) -> None:
    # It finds 97 % of the policed and takes 0.4 % of the others for policed. The report knows both from samples only.
    chance = numpy.random.default_rng(4)

    def judged(many: int, share: float) -> int:
        return int(chance.binomial(many, share))

    held = naive = 0
    for _ in range(2000):
        tested = tidegate.Tested(800, judged(800, 0.97), 2500, judged(2500, 0.004))
        policed = judged(1500, truth)
        share = (judged(policed, 0.97) + judged(1500 - policed, 0.004)) / 1500
        _, low, high = _misjudged.prevalence(share, 1500, tested)
        held += low <= truth <= high
        part = round(1500 * share)
        _, low, high = _shares.interval(_shares.Sums(1500, part, 1500, part, part, 1500))
        naive += low <= truth <= high
    assert held / 2000 >= 0.94
    if truth in (0, 1):
        assert naive / 2000 < 0.1, "without correction they do not"


def test_a_detector_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no more often"):
        _misjudged.prevalence(0.1, 100, tidegate.Tested(100, 10, 100, 10))
    for impossible in (tidegate.Tested(0, 0, 100, 1), tidegate.Tested(100, 101, 100, 1), tidegate.Tested(100, 99, 100, -1)):
        with pytest.raises(ValueError, match="found is at most policed"):
            _misjudged.prevalence(0.1, 100, impossible)


def test_errors_are_those_of_the_detector(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "pd")
    for file in (tmp_path / "pd").rglob("*.parquet"):
        polars.read_parquet(file).with_columns(polars.lit("pd").alias("detector")).write_parquet(file)
    unknown = tidegate.report(tmp_path / "pd")
    for name in ("prevalence", "prevalence_of_lossy"):
        assert unknown.networks[name].null_count() == len(NETWORKS), "nothing was measured of it"
    assert "%" in str(unknown), "what was judged is said nevertheless"
    half = tidegate.Tested(1000, 500, 1000, 0)
    told = tidegate.report(tmp_path / "pd", detector_errors=half).networks
    double = (2 * told["policed_share"]).clip(0, 1).to_list()
    assert told["prevalence"].to_list() == pytest.approx(double), "half of the policers are found"
    assert told["prevalence_of_lossy"].null_count() == len(NETWORKS), "errors among all segments are not those among lossy ones"
    assert told["policed_share"].equals(tidegate.report(dataset).networks["policed_share"])
    told = tidegate.report(tmp_path / "pd", detector_errors_of_lossy=half).networks
    double = (2 * told["policed_share_of_lossy"]).clip(0, 1).to_list()
    assert told["prevalence_of_lossy"].to_list() == pytest.approx(double)
    assert told["prevalence"].null_count() == len(NETWORKS)


def test_the_share_of_lossy_segments_is_corrected(tmp_path: Path) -> None:
    # A segment of each of 100 clients: 40 are lossy, 18 of these are judged policed. Those with 14 losses are not lossy.
    template = next(row for row in rows() if not row["policed_any"])
    segments = []
    for client in range(100):
        address = ipaddress.IPv6Address(f"::ffff:10.0.0.{client}").packed
        losses = 15 if client < 40 else 14
        segments.append({**template, "client_address": address, "policed_any": client < 18, "lost_packets": losses})
    write(segments, tmp_path)
    # 80 % of the policed are found, and 10 % of the others are mistaken: (0.45 - 0.1) / (0.8 - 0.1).
    report = tidegate.report(tmp_path, detector_errors_of_lossy=tidegate.Tested(100, 80, 100, 10))
    for table in (report.regions, report.countries, report.networks):
        (row,) = table.to_dicts()
        assert row["policed_share_of_lossy"] == pytest.approx(0.45)
        assert row["prevalence_of_lossy"] == pytest.approx(0.5)
        # By hand, as Lang and Reiczigel have it, with 39 independent samples: the variance of 40 clients has 39 as its divisor.
        assert row["prevalence_of_lossy_low"] == pytest.approx(0.27878, abs=2e-5)
        assert row["prevalence_of_lossy_high"] == pytest.approx(0.73670, abs=2e-5)
        assert row["prevalence"] == pytest.approx(0.1804, abs=1e-4), "all segments have errors of their own: (0.18 - 0.0024) / (0.9869 - 0.0024)"
    for table in (report.hours, report.network_hours):
        assert table["prevalence_of_lossy"].null_count() == 4, "ten lossy segments in each hour are too few"
    least = tidegate.report(tmp_path, detector_errors_of_lossy=tidegate.Tested(100, 80, 100, 10), least_clients=5)
    # Hours have 5, 5, 4 and 4 of the 18 segments that were judged policed, among ten lossy ones each.
    for table in (least.hours, least.network_hours):
        assert table["prevalence_of_lossy"].to_list() == pytest.approx([4 / 7, 4 / 7, 3 / 7, 3 / 7])
    assert "OF LOSSY" in str(report) and "50.0 % (27.9 to 73.7)" in str(report)
    assert "<th>prevalence of lossy</th>" in report.html() and "<span>50.0 %</span> <span>(27.9 to 73.7)</span>" in report.html()


@pytest.mark.parametrize("measured", [_misjudged.ERRORS["tidegate"].of_all, _misjudged.ERRORS["tidegate"].of_lossy])
def test_mistakes_alone_are_no_policers(measured: tidegate.Tested) -> None:
    told, low, _ = _misjudged.prevalence(measured.mistaken / measured.others, 10_000, measured)
    assert (told, low) == (0, 0)


def test_regions_are_those_of_the_paper(dataset: Path) -> None:
    report = tidegate.report(dataset)
    assert set(report.regions["region"]) == {"Africa", "India", "Europe", "North America"}
    assert report.hours.filter(region="Africa")["hour"].to_list() == [0, 1, 2, 3]
    quantiles = report.distributions.filter(region="Africa", measure="policing_rate_bps")
    assert quantiles["value"].is_sorted()
    assert 1e6 <= quantiles.filter(quantile=0.5)["value"].item() <= 2.1e6


def test_hours_of_a_network_are_those_of_its_rows(dataset: Path) -> None:
    report = tidegate.report(dataset)
    told = report.network_hours.filter(client_asn=64500)
    assert told["hour"].to_list() == [0, 1, 2, 3]
    for hour, share in told.select("hour", "policed_share").iter_rows():
        # As the dataset's rows were dealt out to hours.
        of = [row for row in rows()[hour::4] if not row["from_client"] and row["client_asn"] == 64500]
        assert share == pytest.approx(sum(row["policed_any"] for row in of) / len(of))
    assert "Hours of the day (UTC): share of segments policed" in report.html()


def test_few_samples_say_nothing(dataset: Path) -> None:
    report = tidegate.report(dataset, least_clients=CLIENTS + 1)
    assert report.networks["segments"].min() > 0
    assert report.networks["policed_share"].null_count() == len(NETWORKS)
    assert report.networks["loss_rate_not_policed"].null_count() == len(NETWORKS)
    traits = ["rtt_median_ms", "policing_rate_median_bps", "bucket_median_bytes", "share_rate_known", "share_staircase"]
    assert all(report.networks[name].null_count() == len(NETWORKS) for name in traits)
    assert len(report.clusters) == len(report.distributions) == len(report.network_distributions) == 0
    assert "AS6450" not in report.html(), "no system has a page of its own"


def test_rare_samples_count_for_many_flows(dataset: Path, tmp_path: Path) -> None:
    # Weights whose sums have more than 64 bits.
    shutil.copytree(dataset, tmp_path / "d")
    for file in (tmp_path / "d").rglob("*.parquet"):
        polars.read_parquet(file).with_columns(sampled_fraction=polars.lit(1e-9)).write_parquet(file)
    rare, often = tidegate.report(tmp_path / "d"), tidegate.report(dataset)
    for name, table in often.tables().items():
        # Losses are rounded to a smaller part of a weight.
        assert_frame_equal(rare.tables()[name].drop("segments", strict=False), table.drop("segments", strict=False), rel_tol=1e-6)
    # Fewer bits than these do not hold the sums.
    for file in (tmp_path / "d").rglob("*.parquet"):
        polars.read_parquet(file).with_columns(sampled_fraction=polars.lit(1e-15)).write_parquet(file)
    with pytest.raises(ValueError, match="more than 128 bits"):
        tidegate.report(tmp_path / "d")
    assert rare.networks["segments"].sum() == pytest.approx(often.networks["segments"].sum() * SAMPLED * 1e9, rel=1e-3)


def test_measured_errors_are_those_of_the_usual_basis(dataset: Path, tmp_path: Path) -> None:
    shutil.copytree(dataset, tmp_path / "d")
    about = tmp_path / "d" / "dataset.json"
    for basis, known in (("client", True), ("segment", False)):
        about.write_text(json.dumps({"settings": {"--basis": basis}}))
        assert (tidegate.report(tmp_path / "d").networks["prevalence"].count() > 0) == known
    about.write_text("{")
    with pytest.raises(tidegate.DatasetError, match="dataset.json"):
        tidegate.report(tmp_path / "d")


def test_folders_may_be_named_like_patterns_but_not_like_columns(dataset: Path, tmp_path: Path) -> None:
    odd = tmp_path / "region=eu" / "year=[20]" / "d*s"
    shutil.copytree(dataset, odd)
    assert tidegate.report(odd).networks.equals(tidegate.report(dataset).networks)
    shutil.copytree(dataset, tmp_path / "detector=pd" / "d")
    with pytest.raises(tidegate.DatasetError, match="detector=pd above it is named like the column detector"):
        tidegate.report(tmp_path / "detector=pd" / "d")


def test_a_report_says_why_groups_have_no_shares(dataset: Path) -> None:
    few = str(tidegate.report(dataset, least_clients=CLIENTS + 1))
    assert f"have fewer than {CLIENTS + 1} clients, and counts only" in few
    assert "--least-clients" in few
    enough = tidegate.report(dataset, least_clients=1)
    assert "counts only" not in str(enough) and "counts only" not in enough.html()
    assert "counts only" in tidegate.report(dataset, least_clients=CLIENTS + 1).html()


def said(*words: str) -> tuple[int, str]:
    """The exit code of `report`, and what it prints."""
    ended = subprocess.run([sys.executable, "-m", "tidegate", "report", *words], capture_output=True, text=True, check=False, timeout=60)
    return ended.returncode, ended.stdout + ended.stderr


def test_days_are_chosen_on_the_command_line(dataset: Path) -> None:
    assert said(str(dataset), "--since", "2026-01-01", "--until", "2099-01-01") == (0, f"{tidegate.report(dataset)}\n")


def test_a_report_is_written(dataset: Path, tmp_path: Path) -> None:
    report = tidegate.report(dataset, since="2026-11-22", until="2026-11-22")
    report.save(tmp_path / "out")
    again = polars.read_parquet(tmp_path / "out" / "networks.parquet")
    assert again.equals(report.networks)
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<summary>AS") == sum(bool(plans) for *_, plans in NETWORKS)
    assert "Network 0 &lt;b&gt;" in page and "<b>" not in page
    assert "http" not in page.replace("http-equiv", ""), "the page needs nothing from elsewhere"
    for picture in page.split("<svg")[1:]:
        xml.etree.ElementTree.fromstring("<svg" + picture.split("</svg>")[0] + "</svg>")
    assert "Africa" in str(report)
    empty = tidegate.report(dataset, until="2026-11-21")
    assert len(empty.networks) == 0 and str(empty).startswith("The dataset has no rows, or none in these days.")


def test_sections_are_those_of_the_most_policed_segments(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tidegate.report(dataset)
    # The system with the largest share has few segments now.
    few = polars.when(client_asn=64500).then(polars.lit(10, polars.UInt64)).otherwise("segments")
    report = dataclasses.replace(report, networks=report.networks.with_columns(few.alias("segments")))
    shares = dict(report.networks.select("client_asn", "policed_share").iter_rows())
    assert shares[64500] > shares[64501] > shares[64502] > 0
    found = [re.findall(r"<summary>AS(\d+)", report.html())]
    monkeypatch.setattr(_page, "_MOST_SECTIONS", 1)
    found.append(re.findall(r"<summary>AS(\d+)", report.html()))
    assert found == [["64501", "64502", "64500"], ["64501"]]


def test_files_of_other_days_are_not_opened(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(dataset, folder)
    for day in (21, 23):
        other = folder / "segments" / f"date=2026-11-{day}" / "hour=00"
        other.mkdir(parents=True)
        (other / "0.parquet").write_bytes(b"PAR1 no more")
    assert tidegate.report(folder, since="2026-11-22", until="2026-11-22").networks.equals(tidegate.report(dataset).networks)
    with pytest.raises(tidegate.DatasetError, match="date=2026-11-23"):
        tidegate.report(folder, since="2026-11-22")


def test_what_is_no_dataset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no dataset"):
        tidegate.report(tmp_path)
    (tmp_path / "segments").mkdir()
    with pytest.raises(ValueError, match="no rows"):
        tidegate.report(tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda whole: whole[: len(whole) // 2], "PAR1"),
        (lambda whole: whole[:1000] + bytes(len(whole) - 5000) + whole[-4000:], ""),
        # Polars leaves such a file out where it finds files by itself.
        (lambda whole: b"", "at least 12 bytes"),
        (lambda whole: b"a text,\nno rows\n", "PAR1"),
    ],
    ids=["cut", "overwritten", "empty", "text"],
)
def test_a_damaged_file_is_told_with_its_name(dataset: Path, tmp_path: Path, content: Callable[[bytes], bytes], reason: str) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(dataset, folder)
    file = folder / "segments" / "date=2026-11-22" / "hour=02" / "0.parquet"
    file.write_bytes(content(file.read_bytes()))
    with pytest.raises(tidegate.DatasetError) as told:
        tidegate.report(folder)
    assert told.value.file == str(file) and reason in told.value.reason
    code, text = said(str(folder))
    assert (code, text) == (1, f"tidegate: {told.value}\n")


def test_a_damaged_log_is_told_with_its_name(dataset: Path, tmp_path: Path) -> None:
    for name, content in {"log.parquet": b"PAR1\xff\xfe", "log.csv": b"client_address,start_s\n1,2,3\n"}.items():
        log = tmp_path / name
        log.write_bytes(content)
        code, text = said(str(dataset), "--playback", str(log))
        assert code == 1 and text.startswith(f"tidegate: {log}: ") and text.count("\n") == 1, text
    code, text = said(str(dataset), "--playback", str(tmp_path / "none.csv"))
    assert code == 1 and str(tmp_path / "none.csv") in text and text.count("\n") == 1, text


def test_a_report_that_cannot_be_saved_is_told_in_a_line(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, text = said(str(dataset), "--save", str(tmp_path / "file"))
    assert code == 1 and text.startswith("tidegate: ") and text.count("\n") == 1 and str(tmp_path / "file") in text, text


@pytest.mark.parametrize(
    "words",
    [
        ["--since", "yesterday"],
        ["--least-clients", "0"],
        ["--alert", "cat"],
        ["--watch", "--until", "2026-11-22"],
        ["--since", "2026-11-23", "--until", "2026-11-22"],
        ["--watch", "--save", "out"],
        ["--watch", "--playback", "log.csv"],
    ],
)
def test_wrong_usage_has_a_code(dataset: Path, words: list[str]) -> None:
    code, text = said(str(dataset), *words)
    assert code == 2 and words[0] in text and "usage" in text


def test_whoever_reads_a_part_of_the_summary_sees_no_error(dataset: Path) -> None:
    command = [sys.executable, "-m", "tidegate", "report", str(dataset)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""


def test_what_spark_has_not_finished_does_not_count(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "underway"
    shutil.copytree(dataset, folder)
    segments = folder / "segments"
    shutil.copytree(segments / "date=2026-11-22", segments / "_temporary" / "0" / "task_1" / "date=2026-11-22")
    assert tidegate.report(folder).networks.equals(tidegate.report(dataset).networks)
    # Rows that were written without `partitionBy` have no place.
    shutil.copy(next(segments.glob("date=*/*/*.parquet")), segments / "part-0.parquet")
    with pytest.raises(tidegate.DatasetError, match="part-0.parquet: it is in no folder such as date=2026-11-22/hour=13"):
        tidegate.report(folder)


LATER = {"since": "2026-11-23", "until": "2026-11-22"}


@pytest.mark.parametrize("words", [{"since": "yesterday"}, {"until": "26.11.2026"}, {"since": "20261122"}, LATER, {"least_clients": 0}])
def test_words_that_mean_nothing_are_refused(dataset: Path, words: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="2026-11-22|1 or more"):
        tidegate.report(dataset, **words)
