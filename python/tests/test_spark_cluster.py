"""A cluster of two workers on this machine, one of which is killed while it reads captures."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars
import pyspark
import pytest
import tidegate
from polars.testing import assert_frame_equal

CAPTURES = 60
CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
Process = subprocess.Popen[str]


def start(folder: Path, what: str, *options: str) -> Process:
    """Starts a part of the cluster in a process group of its own."""
    environment = os.environ | {"SPARK_WORKER_DIR": str(folder / "work"), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("a") as log:
        command = [str(CLASS), f"org.apache.spark.deploy.{what}", "--host", "127.0.0.1", "--webui-port", "0", *options]
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True, text=True)


def kill(process: Process) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[Process]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    started = [start(tmp_path, "master.Master", "--port", str(port))]
    try:
        started += [start(tmp_path, "worker.Worker", "--cores", "1", "--memory", "1g", master) for _ in range(2)]
        yield master, started[1:]
    finally:
        for process in started:
            kill(process)


def test_no_row_is_lost_or_doubled_if_an_executor_is_killed(cluster: tuple[str, list[Process]], policed: Path, tmp_path: Path) -> None:
    master, workers = cluster
    captures = tmp_path / "captures"
    captures.mkdir()
    for number in range(CAPTURES):
        shutil.copy(policed, captures / f"{number}.pcap.xz")
    (captures / "text.pcap").write_text("this is not a capture, it is a text")
    # The kernel gives nothing of what is at its beginning: EIO.
    (captures / "damaged.pcap").symlink_to("/proc/self/mem")
    rows = tmp_path / "rows.parquet"
    driver = Path(__file__).with_name("cluster_driver.py")
    with (tmp_path / "driver.log").open("w") as log:
        running = subprocess.Popen([sys.executable, str(driver), master, str(captures), str(rows)], stdout=subprocess.PIPE, stderr=log, text=True)
    assert running.stdout is not None
    try:
        assert running.stdout.readline() == "underway\n", (tmp_path / "driver.log").read_text()[-3000:]
        # The worker and its executor, without any farewell.
        kill(workers[0])
        told, _ = running.communicate(timeout=300)
    finally:
        running.kill()
    here = polars.DataFrame(tidegate.read(captures, errors="keep"))
    assert told == f"1 executor left, {len(here)} rows again, 2 problems\n", (tmp_path / "driver.log").read_text()[-3000:]
    order = ["file", "flow", "segment", "from_client"]
    columns = [*order, "start_s", "data_packets", "lost_packets", "loss_rate", "verdict", "limit_rate_bps"]
    there = polars.read_parquet(rows).select(columns).sort(order)
    assert_frame_equal(there, here.select(columns).sort(order).cast(dict(there.schema)), check_exact=True)
    regions = polars.read_parquet(tmp_path / "rows.parquet-report" / "regions.parquet")
    assert regions["sampled_segments"].sum() == len(here.filter(~polars.col("from_client")))
