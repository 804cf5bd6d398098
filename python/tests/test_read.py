"""Rows of captures, beside what the program prints of the same captures."""

import csv
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest
import tidegate
from conftest import sampled_capture
from mmdb_writer import MMDBWriter
from netaddr import IPSet
from tidegate import _progress


def test_rows_are_those_of_the_program(corpus: Path) -> None:
    # corpus/*/expected.csv is what `tidegate detect -f csv` prints; a test of the program keeps it so.
    for folder in ["policed-1500kbit", "shaped-1500kbit"]:
        capture = next((corpus / folder).glob("*.pcap.xz"))
        rows = polars.DataFrame(tidegate.read(capture)).sort("flow", "segment", "from_client").to_dicts()
        with (corpus / folder / "expected.csv").open() as file:
            expected = sorted(
                csv.DictReader(file), key=lambda row: (int(row["flow"]), int(row["segment"]), row["from_client"])
            )
        assert len(rows) == len(expected) > 0
        for row, wanted in zip(rows, expected, strict=True):
            assert str(row["data_packets"]) == wanted["data_packets"]
            assert row["lost_packets"] == int(wanted["lost_packets"])
            assert row["verdict"] == wanted["verdict"]
            assert row["sender"] == wanted["sender"]
            assert row["loss_rate"] == float(wanted["loss_rate"])
            assert row["start_s"].timestamp() == pytest.approx(float(wanted["start_s"]), abs=1e-5)


@pytest.mark.parametrize("by", ["segment", "flow", "client", "packet"])
def test_any_library_takes_them(policed: Path, by: tidegate._capture.By) -> None:
    rows = tidegate.read(policed, by=by)
    arrow = pyarrow.table(rows)
    arrow.validate(full=True)
    assert arrow.num_rows > 0
    assert arrow.column_names == rows.columns
    assert polars.DataFrame(rows).shape == arrow.shape
    assert pandas.DataFrame.from_arrow(rows).shape == arrow.shape
    stream = pyarrow.RecordBatchReader.from_stream(rows)
    assert duckdb.sql("SELECT count(*) FROM stream").fetchall() == [(arrow.num_rows,)]
    batches = [pyarrow.record_batch(batch) for batch in rows]
    assert pyarrow.Table.from_batches(batches).num_rows == arrow.num_rows


def test_rows_agree_with_each_other(policed: Path) -> None:
    packets = polars.DataFrame(tidegate.read(policed, by="packet"))
    segments = polars.DataFrame(tidegate.read(policed))
    flows = polars.DataFrame(tidegate.read(policed, by="flow"))
    clients = polars.DataFrame(tidegate.read(policed, by="client"))
    lost = packets["lost"].sum()
    assert lost > 0
    assert segments["lost_packets"].sum() == flows["lost_packets"].sum() == clients["lost_packets"].sum() == lost


def test_types_and_notes(policed: Path) -> None:
    schema = pyarrow.table(tidegate.read(policed)).schema
    assert schema.field("start_s").type == pyarrow.timestamp("ns", tz="UTC")
    assert schema.field("sender_port").type == pyarrow.uint16()
    assert schema.field("goodput_bps").metadata[b"unit"] == b"bit/s"


def test_errors_have_file_place_and_reason(policed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "text.pcap"
    broken.write_text("this is not a capture, it is a text")
    cut = tmp_path / "cut.pcap.xz"
    cut.write_bytes(policed.read_bytes()[:50_000])

    with pytest.raises(tidegate.CaptureError) as raised:
        list(tidegate.read(broken))
    assert raised.value.file == str(broken)
    assert raised.value.offset == 0
    assert "not a packet capture" in raised.value.reason

    with pytest.raises(Exception, match="text.pcap: not a packet capture.*at byte 0"):
        pyarrow.table(tidegate.read(broken))

    with pytest.raises(tidegate.CaptureError, match="No such file") as raised:
        list(tidegate.read(tmp_path / "missing.pcap"))
    assert raised.value.offset is None

    # Other processes get them too.
    for error in (raised.value, tidegate.DatasetError("a", "b")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), vars(again), str(again)) == (type(error), vars(error), str(error))

    # The others are read, and what there is of the damaged one.
    rows = tidegate.read([broken, cut, policed], errors="keep")
    files = set(polars.DataFrame(rows)["file"])
    assert files == {str(cut), str(policed)}
    assert {Path(problem.file).name for problem in rows.problems} == {"text.pcap", "cut.pcap.xz"}


def test_segments_get_the_networks_of_their_clients(policed: Path, tmp_path: Path) -> None:
    table = MMDBWriter(ip_version=6, ipv4_compatible=True, database_type="test")
    table.insert_network(IPSet(["10.0.0.0/24"]), {"asn": "AS64500", "as_name": "Test", "country": "DE", "continent": "EU"})
    table.to_db_file(str(tmp_path / "networks.mmdb"))
    rows = polars.DataFrame(tidegate.read(policed, asn=tmp_path / "networks.mmdb", sampled=0.5))
    columns = ["client_prefix", "client_asn", "client_organisation", "client_country", "client_continent", "sampled_fraction"]
    assert set(rows.select(columns).rows()) == {("10.0.0.0/24", 64500, "Test", "DE", "EU", 0.5)}
    assert rows.drop(rows.columns[rows.columns.index("client_address") :]).equals(polars.DataFrame(tidegate.read(policed)))
    with pytest.raises(ValueError, match="MMDB"):
        tidegate.read(policed, asn=policed)


def test_captures_of_samplers_say_their_share(policed: Path, tmp_path: Path) -> None:
    half = len(polars.DataFrame(tidegate.read(policed, by="packet"))) // 2
    (tmp_path / "a.pcapng").write_bytes(sampled_capture(policed, "tidegate sample: fraction=0.25 by=flow", slice(half)))
    (tmp_path / "b.pcapng").write_bytes(sampled_capture(policed, "tidegate sample: fraction=0.125 by=flow", slice(half, None)))

    def shares(**how: Any) -> set[float]:
        return set(polars.DataFrame(tidegate.read(tmp_path, **how))["sampled_fraction"])

    assert shares(sampled="header") == {0.25, 0.125}
    # The second of five responses crosses the change, so it has the smaller share.
    joined = polars.DataFrame(tidegate.read(tmp_path, sampled="header", join=True)).filter(~polars.col("from_client"))
    assert joined.sort("segment")["sampled_fraction"].to_list() == [0.25, 0.125, 0.125, 0.125, 0.125]
    assert shares(sampled=0.5) == {0.5}
    for name, share, interface in (("a", 0.25, "eth0"), ("b", 0.125, "eth1")):
        said = f"tidegate sample: fraction={share} by=flow addresses=pseudonym host=web1 interface={interface}"
        (tmp_path / f"{name}.pcapng").write_bytes(sampled_capture(policed, said, slice(half)))
    with pytest.raises(polars.exceptions.ComputeError, match="eth1 of web1, and before of one on eth0 of web1"):
        shares(sampled="header", join=True)
    assert set(polars.DataFrame(tidegate.read(policed, sampled="header"))["sampled_fraction"]) == {1.0}
    assert "sampled_fraction" not in tidegate.read(tmp_path).columns
    with pytest.raises(ValueError, match='"head": it is'):
        shares(sampled="head")
    with pytest.raises(ValueError, match="threads=-1"):
        tidegate.read(policed, threads=-1)


def test_a_reading_tells_how_far_it_is(policed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_progress, "_SHORT", 0.0)
    bar = _progress.Bar(policed.stat().st_size * 40)
    told: list[int | None] = []

    def note(read: int | None) -> None:
        told.append(read)
        bar(read)

    pieces = [(str(policed), policed)]
    rows = tidegate._native.read([pieces] * 40, "packet", "tidegate", None, True, 1, None, None, lambda: note)
    assert sum(map(len, rows)) > 0
    assert told[-1] is None and told[:-1] == sorted(number for number in told if number is not None)
    shown = capsys.readouterr().err
    assert shown.endswith("\r\x1b[K") and (len(told) == 1 or "MB/s" in shown)
    assert _progress.Bar(200_000_000).text(50_000_000, 0.5).endswith(" 25% of 200 MB, 100 MB/s")


def test_wrong_words_are_value_errors(policed: Path, tmp_path: Path) -> None:
    for wrong in [{"by": "pakcet"}, {"detector": "pdx"}, {"basis": "all"}, {"errors": "ignore"}]:
        with pytest.raises(ValueError, match=next(iter(wrong.values()))):
            tidegate.read(policed, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="leave out basis"):
        tidegate.read(policed, detector="pd", basis="client")
    with pytest.raises(FileNotFoundError, match="no captures in this folder"):
        tidegate.read(tmp_path)


def test_other_threads_run_meanwhile(policed: Path) -> None:
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted
        tidegate.explain(policed)
        # With the interpreter's lock held, the other thread would stand still.
        assert counted > before
    finally:
        done.set()
        thread.join()


def test_long_transfers_come_in_parts(policed: Path) -> None:
    # No thread may hold all packets of a transfer as rows.
    assert max(map(len, tidegate.read(policed, by="packet"))) <= 8192


def test_folders_have_the_captures_that_the_program_finds(policed: Path, tmp_path: Path) -> None:
    shutil.copy(policed, tmp_path / os.fsdecode(b"not-\xff-text.pcap.xz"))
    subprocess.run(["xz", "-dc"], stdin=policed.open("rb"), stdout=(tmp_path / "unnamed").open("wb"), check=True)
    (tmp_path / "folder.pcap").mkdir()
    files = set(polars.DataFrame(tidegate.read(tmp_path))["file"])
    assert files == {f"{tmp_path}/not-\ufffd-text.pcap.xz", f"{tmp_path}/unnamed"}


def test_an_error_of_the_bar_is_no_keyboard_interrupt(policed: Path) -> None:
    def bar() -> Any:
        def fail(read: int | None) -> None:
            if read is not None:
                raise OSError("the terminal has gone")

        return fail

    rows = tidegate._native.read([[(str(policed), policed)]] * 200, "packet", "tidegate", None, True, 1, None, None, bar)
    with pytest.raises(OSError, match="the terminal has gone"):
        list(rows)
    with pytest.raises(Exception, match="the terminal has gone"):
        pyarrow.table(rows)


def test_a_reading_may_be_left(policed: Path) -> None:
    rows = iter(tidegate.read([policed] * 20, by="packet"))
    assert len(next(rows)) > 0
    del rows


def test_control_c_ends_a_reading(policed: Path, tmp_path: Path) -> None:
    # A pipe that nobody writes to: only Ctrl-C ends the reading.
    pipe = tmp_path / "silent.pcap"
    os.mkfifo(pipe)
    program = (
        "import sys, tidegate\n"
        "rows = iter(tidegate.read(sys.argv[1]))\n"
        "print('reading', flush=True)\n"
        "try:\n"
        "    next(rows)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
        "import os; os._exit(0)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(pipe)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "reading\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    output, _ = child.communicate(timeout=60)
    assert output == "interrupted\n"
