"""The Python package beside the program, nfstream and pyshark; Spark on two cores beside the program on two threads.

`make python-bench` runs it. TIDEGATE_PROGRAM names the program, as a release builds it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import tidegate

BENCH = Path(__file__).parent
PROGRAM = os.environ.get("TIDEGATE_PROGRAM", "tidegate")
#: Bytes that are kept of each packet, as samplers do.
SNAPLEN = 96


def captures(folder: Path, least: int) -> list[Path]:
    """Simulated downloads, of which a tenth lose packets: files of headers, until they have this many bytes."""
    scenario = (BENCH / "src" / "traffic.toml").read_text()
    made: list[Path] = []
    size = 0
    while size < least:
        run = tidegate.lab.run(scenario, captures=True, seed=len(made) + 1, server__snaplen=f"{SNAPLEN}B")
        for content in run.captures.values():
            made.append(folder / f"{len(made)}.pcap")
            made[-1].write_bytes(content)
            size += len(content)
    return made


def took(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def native(files: list[Path], jobs: int) -> None:
    command = [PROGRAM, "detect", "--quiet", "--format", "csv", "--jobs", str(jobs), *map(str, files)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(files: list[Path], threads: int) -> int:
    return sum(map(len, tidegate.read(files, threads=threads, progress=False)))


def with_nfstream(file: Path) -> int:
    from nfstream import NFStreamer

    streamer = NFStreamer(source=str(file), statistical_analysis=True, n_dissections=0, n_meters=1)
    return sum(1 for _ in streamer)


def with_pyshark(file: Path) -> int:
    import pyshark

    capture = pyshark.FileCapture(str(file), keep_packets=False, display_filter="tcp")
    flows = {packet.tcp.stream for packet in capture}
    capture.close()
    return len(flows)


class Figures:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, name: str, value: float, unit: str) -> None:
        self.lines.append(f"{name} {value:.4g} {unit}")
        print(self.lines[-1], flush=True)


def reading(figures: Figures, files: list[Path], packets: int, rounds: int) -> None:
    """One thread, the same files, in turn."""
    ways: dict[str, Callable[[], object]] = {"native": lambda: native(files, 1), "python": lambda: read(files, 1)}
    times = in_turn(ways, rounds)
    for name, found in times.items():
        figures.add(f"{name}.one_thread", packets / statistics.median(found) / 1e6, "Mpackets/s")
    figures.add("python.rate_over_native", ratio(times, "native", "python"), "x")


def in_turn(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """How long each takes, so that what else happens on the machine concerns all alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(took(way))
    return times


def ratio(times: dict[str, list[float]], one: str, other: str) -> float:
    return statistics.median(times[one]) / statistics.median(times[other])


def others(figures: Figures, file: Path) -> None:
    """Flows per second of other packages, on one capture. Each once: they take long."""
    flows = sum(map(len, tidegate.read(file, by="flow", threads=1, progress=False)))
    ours = statistics.median(took(lambda: read([file], 1)) for _ in range(5))
    figures.add("python.flow_rate", flows / ours, "flows/s")
    for name, package in [("nfstream", with_nfstream), ("pyshark", with_pyshark)]:
        try:
            seconds = took(lambda package=package: package(file))  # type: ignore[misc]
        except ImportError as missing:
            print(f"{name} is missing ({missing}): left out", file=sys.stderr)
            continue
        figures.add(f"{name}.flow_rate", flows / seconds, "flows/s")
        figures.add(f"python.flow_rate_over_{name}", seconds / ours, "x")


def spark(figures: Figures, files: list[Path], packets: int, rounds: int) -> None:
    """Two cores, once the session and its workers run."""
    from pyspark.sql import SparkSession
    from tidegate import spark as on_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    session = build.getOrCreate()

    def analyse() -> None:
        found = on_spark.analyse(session, [str(file) for file in files])
        # Makes all rows, and drops them.
        found.found.write.format("noop").mode("overwrite").save()

    figures.add("spark.first_run", took(analyse), "s")
    times = in_turn({"native": lambda: native(files, 2), "spark": analyse}, rounds)
    for name, found in times.items():
        figures.add(f"{name}.two_threads", packets / statistics.median(found) / 1e6, "Mpackets/s")
    figures.add("spark.rate_over_native", ratio(times, "native", "spark"), "x")
    session.stop()


def record(figures: Figures, rounds: int) -> Path:
    """Writes bench/runs/DATE-python.md."""
    now = datetime.now(UTC)
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "unknown")
    about = {"processor": cpu, "cores": os.cpu_count(), "kernel": platform.release(), "Python": platform.python_version()}
    about |= {"load average at the end": f"{os.getloadavg()[0]:.2f}", "rounds": f"{rounds} (medians below)"}
    text = "\n".join([f"# Benchmark of python, {now:%Y-%m-%dT%H:%M:%SZ}", "", *[f"- {what}: {value}" for what, value in about.items()]])
    path = BENCH / "runs" / f"{now:%Y-%m-%d}-python.md"
    path.write_text(f"{text}\n\n```\n" + "\n".join(figures.lines) + "\n```\n")
    return path


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--size", type=int, default=1000, help="megabytes of captures")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--record", action="store_true", help="write the figures to bench/runs")
    given = options.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        files = captures(Path(folder), given.size * 10**6)
        packets = sum(count(file) for file in files)
        figures.add("captures", len(files), "files")
        figures.add("captures.size", sum(file.stat().st_size for file in files) / 1e6, "MB")
        figures.add("captures.packets", packets, "packets")
        reading(figures, files, packets, given.rounds)
        others(figures, files[0])
        spark(figures, files, packets, given.rounds)
    if given.record:
        print(f"written to {record(figures, given.rounds)}", file=sys.stderr)


def count(file: Path) -> int:
    """Packets in a pcap file of this machine's byte order."""
    content = memoryview(file.read_bytes())
    place, packets = 24, 0
    while place < len(content):
        place += 16 + int.from_bytes(content[place + 8 : place + 12], "little")
        packets += 1
    return packets


if __name__ == "__main__":
    main()
