"""Whether `tidegate detect --dataset --follow` keeps up with captures of 1 M packets/s on one core.

`python3 bench/follow.py` runs it. TIDEGATE_PROGRAM names the program, as a release builds it. It prints lines of a name, a value
and its unit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BENCH = Path(__file__).parent
PROGRAM = os.environ.get("TIDEGATE_PROGRAM", "tidegate")


def captures(folder: Path, least: int) -> dict[Path, int]:
    """Simulated downloads, of which a tenth lose packets: files of headers and their packets, until they hold the wanted number of packets."""
    made: dict[Path, int] = {}
    while sum(made.values()) < least:
        out = folder / f"{len(made)}"
        seed = ["--seed", str(len(made) + 1), "--set", "server.snaplen=96B"]
        subprocess.run([PROGRAM, "lab", "run", "--quiet", "--output", str(out), *seed, str(BENCH / "src" / "traffic.toml")], check=True, stdout=subprocess.DEVNULL)
        (capture,) = out.rglob("*.pcap*")
        made[capture] = packets_in(capture)
    return made


def packets_in(file: Path) -> int:
    """Packets of a pcap file of this machine's byte order."""
    content, at, count = file.read_bytes(), 24, 0
    while at < len(content):
        at += 16 + int.from_bytes(content[at + 8 : at + 12], sys.byteorder)
        count += 1
    return count


def cpu(process: int) -> float:
    """Processor time in seconds: proc(5)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--packets", type=int, default=10_000_000)
    options.add_argument("--rate", type=float, default=1e6, help="packets per second that arrive")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as place:
        folder = Path(place)
        files = captures(folder / "made", given.packets)
        arrivals = folder / "arrivals"
        arrivals.mkdir()
        command = [PROGRAM, "detect", "--quiet", "--dataset", str(folder / "rows"), "--follow", "--jobs", "1", str(arrivals)]
        core = {min(os.sched_getaffinity(0))}
        follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, core))
        done: dict[str, float] = {}

        def listen() -> None:
            assert follower.stdout is not None
            for line in follower.stdout:
                name, colon, rows = line.partition(": ")
                if colon and rows.rstrip().endswith(("row", "rows")):
                    done[Path(name).name] = time.monotonic()

        threading.Thread(target=listen, daemon=True).start()
        time.sleep(1)
        began, came, due = time.monotonic(), {}, 0.0
        for number, (file, packets) in enumerate(files.items()):
            # A file is closed when its last packet is there.
            due += packets / given.rate
            time.sleep(max(began + due - time.monotonic(), 0))
            name = f"{number}.pcap"
            file.rename(arrivals / name)
            came[name] = time.monotonic()
        while len(done) < len(came):
            if follower.poll() is not None:
                sys.exit("the follower ended")
            time.sleep(0.01)
        used = cpu(follower.pid)
        follower.terminate()
        follower.wait()
    lags = [done[name] - at for name, at in came.items()]
    packets = sum(files.values())
    for name, value, unit in [
        ("follow.files", len(files), "files"),
        ("follow.packets", packets / 1e6, "Mpackets"),
        ("follow.arrived", packets / (max(came.values()) - began) / 1e6, "Mpackets/s"),
        ("follow.lag_median", statistics.median(lags), "s"),
        ("follow.lag_most", max(lags), "s"),
        ("follow.lag_last", lags[-1], "s"),
        ("follow.cpu_rate", packets / used / 1e6, "Mpackets/s of processor time"),
        ("load", os.getloadavg()[0], "running processes, mean of the last minute"),
    ]:
        print(f"{name} {value:.4g} {unit}", flush=True)


if __name__ == "__main__":
    main()
