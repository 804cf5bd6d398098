"""The Python package beside the program, nfstream and pyshark; Spark on two cores beside the program on two threads.

`make python-bench` runs it. TIDEGATE_PROGRAM names the program, as a release builds it.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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


@dataclass(frozen=True)
class Time:
    """How long something took, in seconds."""

    wall: float
    #: Processor time of this process and of programs that ended, which other work on the machine changes less.
    cpu: float


def cpu() -> float:
    usages = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def took(do: Callable[[], object]) -> Time:
    began, used = time.perf_counter(), cpu()
    do()
    return Time(time.perf_counter() - began, cpu() - used)


def native(files: list[Path], jobs: int) -> None:
    command = [PROGRAM, "detect", "--quiet", "--format", "csv", "--jobs", str(jobs), *map(str, files)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(files: list[Path], threads: int) -> int:
    return sum(map(len, tidegate.read(files, threads=threads, progress=False)))


def with_nfstream(files: list[Path]) -> int:
    from nfstream import NFStreamer

    return sum(1 for file in files for _ in NFStreamer(source=str(file), statistical_analysis=True, n_dissections=0, n_meters=1))


def with_pyshark(files: list[Path]) -> int:
    import pyshark

    (file,) = files
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
    rates(figures, times, packets, "one_thread")
    figures.add("python.rate_over_native", median(times["native"]).wall / median(times["python"]).wall, "x")
    figures.add("python.cpu_rate_over_native", median(times["native"]).cpu / median(times["python"]).cpu, "x")


def rates(figures: Figures, times: dict[str, list[Time]], packets: int, how: str) -> None:
    for name, found in times.items():
        figures.add(f"{name}.{how}", packets / median(found).wall / 1e6, "Mpackets/s")


def in_turn(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[Time]]:
    """How long each takes, so that what else happens on the machine concerns all alike."""
    times: dict[str, list[Time]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            times[name].append(took(way))
    return times


def median(times: list[Time]) -> Time:
    return Time(statistics.median(time.wall for time in times), statistics.median(time.cpu for time in times))


def others(figures: Figures, folder: Path, files: list[Path], rounds: int) -> None:
    """Flows per second of other packages. pyshark is so slow that it gets the beginning of a capture."""
    short = folder / "short.pcap"
    whole = files[0].read_bytes()
    short.write_bytes(whole[: packets_in(whole)[:2001][-1]])
    for name, package, given in [("nfstream", with_nfstream, files[:5]), ("pyshark", with_pyshark, [short])]:
        flows = sum(map(len, tidegate.read(given, by="flow", threads=1, progress=False)))
        ways: dict[str, Callable[[], object]] = {"python": partial(read, given, 1), name: partial(package, given)}
        try:
            times = in_turn(ways, rounds)
        except ImportError as missing:
            print(f"{name} is missing ({missing}): left out", file=sys.stderr)
            continue
        figures.add(f"python.flow_rate_beside_{name}", flows / median(times["python"]).wall, "flows/s")
        figures.add(f"{name}.flow_rate", flows / median(times[name]).wall, "flows/s")
        figures.add(f"python.flow_rate_over_{name}", median(times[name]).wall / median(times["python"]).wall, "x")


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

    figures.add("spark.first_run", took(analyse).wall, "s")
    times = in_turn({"native": lambda: native(files, 2), "spark": analyse}, rounds)
    rates(figures, times, packets, "two_threads")
    figures.add("spark.rate_over_native", median(times["native"]).wall / median(times["spark"]).wall, "x")
    session.stop()


def sizes(figures: Figures, folder: Path, files: list[Path], packets: int) -> None:
    """What captures and rows take, for plans."""
    codec = pa.Codec("zstd", 3)
    compressed = sum(len(codec.compress(file.read_bytes(), asbytes=True)) for file in files)
    figures.add("captures.compressed", compressed / packets, "bytes/packet")
    rows = folder / "rows.parquet"
    command = [PROGRAM, "detect", "--quiet", "--format", "parquet", "--output", str(rows), *map(str, files)]
    subprocess.run(command, check=True)
    segments = pq.read_metadata(rows).num_rows
    figures.add("rows.segments", segments, "rows")
    figures.add("rows.size", rows.stat().st_size / segments, "bytes/row")


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
        packets = sum(len(packets_in(file.read_bytes())) - 1 for file in files)
        figures.add("captures", len(files), "files")
        figures.add("captures.size", sum(file.stat().st_size for file in files) / 1e6, "MB")
        figures.add("captures.packets", packets, "packets")
        sizes(figures, Path(folder), files, packets)
        reading(figures, files, packets, given.rounds)
        others(figures, Path(folder), files, given.rounds)
        spark(figures, files, packets, given.rounds)
    if given.record:
        print(f"written to {record(figures, given.rounds)}", file=sys.stderr)


def packets_in(content: bytes) -> list[int]:
    """Where the packets of a pcap file of this machine's byte order begin, and where the last one ends."""
    places = [24]
    while places[-1] < len(content):
        length = content[places[-1] + 8 : places[-1] + 12]
        places.append(places[-1] + 16 + int.from_bytes(length, sys.byteorder))
    return places


if __name__ == "__main__":
    main()
