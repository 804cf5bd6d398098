"""The Python package beside the program, nfstream and pyshark; Spark on two cores beside the program on two threads.

`make python-bench` runs it. TIDEGATE_PROGRAM names the program, as a release builds it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import struct
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
    #: Processor time of this process and of all that it started, which other work on the machine changes less.
    cpu: float


def cpu() -> float:
    """Of this process, of those that it started, such as Spark's, and of those that ended: proc(5)."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(") ")[2].split()
        except OSError:  # It ended in between.
            continue
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[11:15]))

    def is_ours(process: int) -> bool:
        while process not in (os.getpid(), 0):
            process = parents.get(process, 0)
        return process != 0

    return sum(used for process, used in ticks.items() if is_ours(process)) / os.sysconf("SC_CLK_TCK")


def took(do: Callable[[], object]) -> Time:
    began, used = time.perf_counter(), cpu()
    do()
    return Time(time.perf_counter() - began, cpu() - used)


def short_flows(file: Path, flows: int) -> Path:
    """A capture of flows with ten packets each: handshake, request, a response of two packets, and the end. Ten begin each millisecond."""
    packets: list[tuple[int, int, bytes]] = []
    # Who sends, flags, and bytes of payload.
    dialogue = [(0, 2, 0), (1, 18, 0), (0, 16, 0), (0, 24, 300), (1, 16, 1400), (1, 24, 1000), (0, 16, 0), (1, 17, 0), (0, 17, 0), (1, 16, 0)]
    for flow in range(flows):
        address, port = struct.pack(">I", 0x0A000000 + flow), 20_000 + flow % 40_000
        ends = [(address, b"\xc0\0\2\1", port, 443), (b"\xc0\0\2\1", address, 443, port)]
        sent = [1, 1]
        for step, (side, flags, payload) in enumerate(dialogue):
            source, destination, from_port, to_port = ends[side]
            tcp = struct.pack(">HHIIBBHHH", from_port, to_port, sent[side], sent[1 - side] if flags != 2 else 0, 0x50, flags, 65535, 0, 0)
            ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + payload, 0, 0x4000, 64, 6, 0) + source + destination
            packets.append((flow * 100 + step * 5_000, 54 + payload, bytes(12) + b"\x08\0" + ip + tcp))
            sent[side] += payload + (1 if flags & 3 else 0)
    packets.sort()
    with file.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAPLEN, 1))
        for micros, length, kept in packets:
            out.write(struct.pack("<IIII", 1_700_000_000 + micros // 10**6, micros % 10**6, len(kept), length) + kept)
    return file


def native(files: list[Path], jobs: int, by: str = "segment") -> None:
    command = [PROGRAM, "detect", "--quiet", "--format", "csv", "--by", by, "--jobs", str(jobs), *map(str, files)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read(files: list[Path], threads: int) -> int:
    return sum(map(len, tidegate.read(files, threads=threads, progress=False)))


def with_nfstream(files: list[Path], **how: object) -> int:
    """Flows with nfstream's statistics, which are nearest to what Tidegate measures, in one process that reads; nDPI is off."""
    from nfstream import NFStreamer

    how = how or {"statistical_analysis": True, "n_dissections": 0, "n_meters": 1}
    return sum(1 for file in files for _ in NFStreamer(source=str(file), **how))


def with_nfstream_as_it_comes(files: list[Path]) -> int:
    """With nDPI, without statistics, on all cores: what its first example does."""
    return with_nfstream(files, n_dissections=20)


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


def short(figures: Figures, folder: Path, rounds: int) -> None:
    """The program on flows of ten packets, as most flows of a network are short."""
    flows = 100_000
    file = [short_flows(folder / "short_flows.pcap", flows)]
    for by, times in in_turn({by: partial(native, file, 1, by) for by in ("flow", "segment")}, rounds).items():
        figures.add(f"native.short_flows_by_{by}", flows / median(times).wall, "flows/s")
        figures.add(f"native.short_flows_by_{by}_cpu", median(times).cpu / flows * 1e6, "us/flow")


def others(figures: Figures, folder: Path, files: list[Path], rounds: int) -> None:
    """Flows per second of other packages. pyshark is so slow that it gets the beginning of a capture."""
    short = folder / "short.pcap"
    whole = files[0].read_bytes()
    short.write_bytes(whole[: packets_in(whole)[:2001][-1]])
    brief = [short_flows(folder / "brief.pcap", 20_000)]
    kinds: list[tuple[str, Callable[[list[Path]], int], list[Path]]] = [
        ("nfstream", with_nfstream, files[:5]),
        ("nfstream_as_it_comes", with_nfstream_as_it_comes, files[:5]),
        ("nfstream_on_short_flows", with_nfstream, brief),
        ("nfstream_as_it_comes_on_short_flows", with_nfstream_as_it_comes, brief),
        ("pyshark", with_pyshark, [short]),
    ]
    for name, package, given in kinds:
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
        # The kernel counts processor time in hundredths of a second: too coarse for a small capture.
        if median(times["python"]).cpu >= 0.1:
            figures.add(f"python.flow_cpu_rate_over_{name}", median(times[name]).cpu / median(times["python"]).cpu, "x")


def compressed(folder: Path, files: list[Path], least: int) -> list[Path]:
    """The same files as `tidegate sample` compresses them, so many times that they have this many bytes."""
    folder.mkdir()
    codec = pa.Codec("zstd", 3)
    once = [folder / f"{file.name}.zst" for file in files]
    for file, small in zip(files, once, strict=True):
        small.write_bytes(codec.compress(file.read_bytes(), asbytes=True))
    made = list(once)
    for copy in range(1, -(-least // sum(file.stat().st_size for file in once))):
        for file in once:
            made.append(folder / f"{copy}-{file.name}")
            made[-1].hardlink_to(file)
    return made


def spark(figures: Figures, folder: Path, files: list[Path], packets: int, rounds: int) -> None:
    """Two cores, once the session and its workers run."""
    from pyspark.sql import SparkSession
    from tidegate import spark as on_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    # As docs/how-to/analyse-captures-on-many-machines.md advises.
    session = build.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()

    def analyse(given: list[Path]) -> None:
        found = on_spark.analyse(session, [str(file) for file in given])
        # Makes all rows, and drops them.
        found.found.write.format("noop").mode("overwrite").save()

    figures.add("spark.first_run", took(lambda: analyse(files)).wall, "s")
    # What a job costs by itself.
    nothing = session.range(0, 8, 1, 8).write.format("noop").mode("overwrite")
    fixed = in_turn({"empty_job": nothing.save, "job_of_one_capture": lambda: analyse(files[:1])}, rounds)
    for name, found in fixed.items():
        figures.add(f"spark.{name}_cpu", median(found).cpu, "s")
    small = compressed(folder / "compressed", files, sum(file.stat().st_size for file in files))
    for name, given, times_as_many in [("", files, 1), ("_compressed", small, len(small) // len(files))]:
        times = in_turn({"native": partial(native, given, 2), "spark": partial(analyse, given)}, rounds)
        rates(figures, times, packets * times_as_many, f"two_threads{name}")
        for way, found in times.items():
            figures.add(f"{way}.two_threads{name}_cpu", median(found).cpu, "s")
        figures.add(f"spark.rate_over_native{name}", median(times["native"]).wall / median(times["spark"]).wall, "x")
        figures.add(f"spark.cpu_rate_over_native{name}", median(times["native"]).cpu / median(times["spark"]).cpu, "x")
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
    options.add_argument("--only", choices=["read", "short", "others", "spark"], help="a part of it")
    options.add_argument("--record", action="store_true", help="write the figures to bench/runs")
    given = options.parse_args()
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        files = captures(Path(folder), given.size * 10**6)
        packets = sum(len(packets_in(file.read_bytes())) - 1 for file in files)
        figures.add("captures", len(files), "files")
        figures.add("captures.size", sum(file.stat().st_size for file in files) / 1e6, "MB")
        figures.add("captures.packets", packets, "packets")
        if given.only in (None, "read"):
            sizes(figures, Path(folder), files, packets)
            reading(figures, files, packets, given.rounds)
        if given.only in (None, "short"):
            short(figures, Path(folder), given.rounds)
        if given.only in (None, "others"):
            others(figures, Path(folder), files, given.rounds)
        if given.only in (None, "spark"):
            spark(figures, Path(folder), files, packets, given.rounds)
        figures.add("load", os.getloadavg()[0], "running processes, mean of the last minute")
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
