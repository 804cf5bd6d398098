"""Simulations, and limiters alone."""

import signal
from array import array
from pathlib import Path
from typing import Any

import numpy
import polars
import pytest
import tidegate


def test_examples_run() -> None:
    assert "policer-or-shaper" in tidegate.lab.examples()
    run = tidegate.lab.run("policer-or-shaper", seed=1, duration="3s")
    flows = polars.DataFrame(run.flows)
    assert len(run.points) >= 1
    assert len(flows) == len(run.flows) > 0
    again = polars.DataFrame(tidegate.lab.run("policer-or-shaper", seed=1, duration="3s").flows)
    assert flows.equals(again), "a run depends on its plan and its seed alone"
    assert not flows.equals(polars.DataFrame(tidegate.lab.run("policer-or-shaper", seed=1, duration="4s").flows))


def test_captures_of_a_run_are_read(tmp_path: Path) -> None:
    run = tidegate.lab.run("capture", captures=True)
    assert run.captures
    for name, content in run.captures.items():
        (tmp_path / f"{Path(name).name}.pcap").write_bytes(content)
    assert len(polars.DataFrame(tidegate.read(tmp_path))) > 0


def test_mistakes_have_a_place() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        tidegate.lab.run("policer-or-shaper", nonsense=1)
    for unknown in ("no-such-scenario.toml", "nosuch", ""):
        with pytest.raises(FileNotFoundError, match=r"tidegate.lab.examples\(\)"):
            tidegate.lab.run(unknown)
    with pytest.raises(ValueError, match="threads=-1"):
        tidegate.lab.run("policer-or-shaper", threads=-1)


def test_a_policer_passes_its_burst_and_its_rate() -> None:
    # 12,000 packets of 1,000 bytes at 8 Mbit/s: a millisecond apart.
    times = numpy.arange(0, 12_000_000_000, 1_000_000)
    sizes = numpy.full(12_000, 1_000)
    table = polars.DataFrame(tidegate.limiter.policer(times, sizes, rate="2mbit", burst="30000"))
    passed = table.filter("passed")["bytes"].sum()
    # The bucket, and 2 Mbit/s for 12 s.
    assert passed == pytest.approx(30_000 + 250_000 * 12, abs=1_000)
    assert table["leaves_ns"].drop_nulls().equals(table.filter("passed")["time_ns"])


def test_a_shaper_delays_what_a_policer_drops() -> None:
    times = array("q", range(0, 100_000_000, 1_000_000))
    sizes = [1_000] * 100
    table = polars.DataFrame(tidegate.limiter.shaper(times, sizes, rate="4mbit", queue="1MB"))
    assert table["passed"].all()
    gaps = table["leaves_ns"].diff().drop_nulls()
    assert gaps.min() == pytest.approx(2_000_000, rel=0.001), "1,000 bytes take 2 ms at 4 Mbit/s"


def test_queues_share_fairly() -> None:
    # One flow sends three times as much as the other one.
    packets = sorted([(time * 1_000_000, 0) for time in range(6_000)] + [(time * 3_000_000, 1) for time in range(2_000)])
    times, queues = zip(*packets, strict=True)
    for limiter in (tidegate.limiter.pqp, tidegate.limiter.bc_pqp):
        table = limiter(times, [1_000] * len(times), rate="4mbit", queue="50kB", queues=2, of=queues)
        sums = dict(polars.DataFrame(table).filter("passed").group_by("queue").agg(polars.col("bytes").sum()).iter_rows())
        assert sums[0] == pytest.approx(sums[1], rel=0.1)


def test_wrong_arrays_are_value_errors() -> None:
    for times, sizes, match in [
        ([1, 2], [1], "2 times, 1 sizes"),
        ([2, 1], [1, 1], "packet 1: it comes before"),
        ([-1], [1], "below 0"),
        ([1], [-1], "not one of a packet"),
    ]:
        with pytest.raises(ValueError, match=match):
            tidegate.limiter.policer(times, sizes, rate="1mbit", burst="3kB")
    for wrong in (["a"], numpy.array([1], dtype="datetime64[ns]"), [2**63], numpy.array(1), numpy.array([[1]])):
        with pytest.raises(TypeError, match="times: these are no integers of 64 bits"):
            tidegate.limiter.policer(wrong, [1], rate="1mbit", burst="3kB")  # type: ignore[arg-type]
    nothing: Any
    for nothing in ([], numpy.array([], dtype="int64")):
        assert len(tidegate.limiter.policer(nothing, nothing, rate="1mbit", burst="3kB")) == 0
    with pytest.raises(ValueError, match="rate"):
        tidegate.limiter.policer([1], [1], rate="fast", burst="3kB")


def test_times_in_seconds_are_refused_and_not_cut_to_integers() -> None:
    times = numpy.array([0.1, 0.2, 0.3])
    for wrong in (times, list(times)):
        with pytest.raises(TypeError, match="integer"):
            tidegate.limiter.policer(wrong, [1, 1, 1], rate="1mbit", burst="3kB")
    # Any integers will do, also if they do not lie beside each other.
    apart = numpy.arange(6)[::2]
    few = numpy.array([0, 1, 2], dtype="uint32")
    table = polars.DataFrame(tidegate.limiter.policer(apart, few, rate="1mbit", burst="3kB"))
    assert table["time_ns"].to_list() == [0, 2, 4] and table["bytes"].to_list() == [0, 1, 2]


def test_control_c_ends_a_limiter() -> None:
    times = numpy.arange(0, 3_000_000_000, 1_000)
    sizes = numpy.full(len(times), 1_000)
    queues: Any = times // 1_000 % 1_000
    looks = 0

    def look(*_: object) -> None:
        # Without a look at signals while packets are offered, there is one when the call returns.
        nonlocal looks
        looks += 1
        if looks == 3:
            raise KeyboardInterrupt

    # Its timer counts the time of this process alone, however busy the machine is.
    before = signal.signal(signal.SIGPROF, look)
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
        with pytest.raises(KeyboardInterrupt):
            tidegate.limiter.shaper(times, sizes, of=queues, queues=1_000, rate="10gbit", queue="1GB")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
