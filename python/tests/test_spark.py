"""Spark beside this machine: the same rows, and the same tables to the last digit."""

import errno
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pytest
import tidegate
from conftest import ROOT, sampled_capture
from moto.server import ThreadedMotoServer
from polars.testing import assert_frame_equal
from pyarrow import fs
from pyspark import TaskContext
from pyspark.sql import SparkSession
from test_playback import households, log_of
from test_report import dataset, mixed, temporary  # noqa: F401: fixtures
from tidegate import spark as on_spark
from tidegate._changes import hours_of
from tidegate.spark import _analyse, _share, _storage, _unreadable

TABLES = [ROOT / "crates" / "dataset" / "tests" / name for name in ("asn.mmdb", "country.mmdb")]


@pytest.fixture(scope="session")
def storage() -> Iterator[str]:
    """A server for S3 on this machine."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def session(storage: str) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    for key, value in {"endpoint": storage, "endpoint.region": "eu-west-1", "access.key": "key", "secret.key": "secret"}.items():
        build = build.config(f"spark.hadoop.fs.s3a.{key}", value)
    made = build.config("spark.sql.shuffle.partitions", "4").config("spark.sql.session.timeZone", "America/Lima").getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


def equal(here: tidegate.Report, there: tidegate.Report) -> None:
    """Fails unless all tables are the same: names, types, order, and every digit."""
    assert here.tables().keys() == there.tables().keys()
    for name, table in here.tables().items():
        assert_frame_equal(table, there.tables()[name], check_exact=True)


def local(found: on_spark.Analysis) -> polars.DataFrame:
    rows = polars.from_arrow(found.rows.toArrow())
    assert isinstance(rows, polars.DataFrame)
    return rows


def test_the_report_is_the_same_to_the_digit(session: SparkSession, dataset: Path) -> None:  # noqa: F811
    here = tidegate.report(dataset)
    assert len(here.clusters) > 0 and len(here.distributions) > 0
    equal(here, on_spark.report(on_spark.dataset(session, str(dataset))))
    there = on_spark.report(on_spark.dataset(session, str(dataset)), least_clients=401)
    equal(tidegate.report(dataset, least_clients=401), there)
    errors, of_lossy = tidegate.Tested(500, 490, 2000, 3), tidegate.Tested(400, 396, 900, 2)
    given = tidegate.report(dataset, detector_errors=errors, detector_errors_of_lossy=of_lossy)
    assert given.networks["prevalence_of_lossy"].null_count() == 0
    assert not given.networks["prevalence_of_lossy"].equals(here.networks["prevalence_of_lossy"])
    rows = on_spark.dataset(session, str(dataset))
    equal(given, on_spark.report(rows, detector_errors=errors, detector_errors_of_lossy=of_lossy))


def test_versions_weights_and_names_are_the_same_to_the_digit(session: SparkSession, mixed: Path) -> None:  # noqa: F811
    here = tidegate.report(mixed)
    assert len(here.clusters) == 5 and len(here.networks) == 3
    equal(here, on_spark.report(on_spark.dataset(session, str(mixed))))


def known(report: tidegate.Report) -> bool:
    """Whether the report says how many segments are policed in truth."""
    counts: list[int] = [report.networks[name].count() for name in ("prevalence", "prevalence_of_lossy")]
    assert counts[0] == counts[1]
    return counts[0] > 0


def test_measured_errors_are_those_of_the_usual_basis(session: SparkSession, dataset: Path, tmp_path: Path) -> None:  # noqa: F811
    shutil.copytree(dataset, tmp_path / "d")
    about = tmp_path / "d" / "dataset.json"
    for basis, is_usual in (("client", True), ("segment", False)):
        about.write_text(json.dumps({"settings": {"--basis": basis}}))
        rows = on_spark.dataset(session, str(tmp_path / "d"))
        there = on_spark.report(rows)
        assert known(there) == is_usual
        equal(tidegate.report(tmp_path / "d"), there)
    # What is given holds, whatever the rows say.
    assert known(on_spark.report(rows, basis="client"))
    with pytest.raises(ValueError, match='basis=\'all\': it is "segment"'):
        on_spark.report(rows, basis="all")  # type: ignore[arg-type]
    about.write_text("{")
    with pytest.raises(tidegate.DatasetError, match="dataset.json"):
        on_spark.dataset(session, str(tmp_path / "d"))


def test_rows_of_spark_say_their_basis(session: SparkSession, policed: Path, tmp_path: Path) -> None:
    place = tmp_path / "segments"
    found = on_spark.analyse(session, str(policed), asn=TABLES, basis="segment")
    found.rows.write.partitionBy("date", "hour").parquet(str(place))
    here = tidegate.report(tmp_path, least_clients=1)
    assert here.networks["policed_share"].count() > 0 and not known(here)
    for rows in (found.rows, on_spark.dataset(session, str(tmp_path)), session.read.parquet(str(place))):
        equal(here, on_spark.report(rows, least_clients=1))
    usual = on_spark.analyse(session, str(policed), asn=TABLES, basis="client").rows
    assert known(on_spark.report(usual, least_clients=1))


def test_temporary_addresses_are_the_same_to_the_digit(session: SparkSession, temporary: Path) -> None:  # noqa: F811
    rows = on_spark.dataset(session, str(temporary))
    here = tidegate.report(temporary)
    assert len(here.clusters) > 0 and len(here.distributions) > 0
    assert set(here.networks["clients"]) == {400}
    equal(here, on_spark.report(rows))
    equal(tidegate.report(temporary, least_clients=401), on_spark.report(rows, least_clients=401))


def test_playbacks_are_the_same_to_the_digit(session: SparkSession, dataset: Path, tmp_path: Path) -> None:  # noqa: F811
    log = log_of(dataset).with_columns(polars.col("start_s").dt.cast_time_unit("us"))
    log.write_parquet(tmp_path / "log.parquet")
    log.write_csv(tmp_path / "log.csv", datetime_format="%Y-%m-%dT%H:%M:%S%.fZ")
    for name in ("log.parquet", "log.csv"):
        here = tidegate.report(dataset, playback=tmp_path / name)
        assert here.rebuffering is not None and len(here.rebuffering) > 100
        equal(here, on_spark.report(on_spark.dataset(session, str(dataset)), playback=str(tmp_path / name)))
    households(tmp_path / "d").write_parquet(tmp_path / "log.parquet")
    here = tidegate.report(tmp_path / "d", playback=tmp_path / "log.parquet")
    assert here.playbacks is not None and here.playbacks["clients"].to_list() == [20]
    equal(here, on_spark.report(on_spark.dataset(session, str(tmp_path / "d")), playback=str(tmp_path / "log.parquet")))


def test_rows_are_those_of_this_machine(session: SparkSession, corpus: Path) -> None:
    found = on_spark.analyse(session, f"{corpus}/*/*.pcap.xz", asn=TABLES, sampled=0.5).persist()
    there = local(found)
    here = polars.DataFrame(tidegate.read(sorted(corpus.glob("*/*.pcap.xz")), asn=TABLES, sampled=0.5))
    assert found.problems.isEmpty()
    start = polars.col("start_s")
    here = here.with_columns(start.dt.strftime("%Y-%m-%d").alias("date"), start.dt.hour().cast(polars.Int32).alias("hour"))
    assert there.columns == here.columns
    here = here.cast({name: kind for name, kind in there.schema.items()})
    order = ["file", "flow", "segment", "from_client"]
    assert_frame_equal(there.sort(order), here.sort(order), check_exact=True)
    found.unpersist()


def test_captures_of_samplers_say_their_share(session: SparkSession, policed: Path, tmp_path: Path) -> None:
    (tmp_path / "sampled.pcapng").write_bytes(sampled_capture(policed, "tidegate sample: fraction=0.25 by=flow", slice(None)))
    shutil.copy(policed, tmp_path)
    rows = on_spark.analyse(session, str(tmp_path)).rows.select("file", "sampled_fraction").distinct().collect()
    assert {(Path(row.file).name, row.sampled_fraction) for row in rows} == {("sampled.pcapng", 0.25), (policed.name, 1.0)}
    given = on_spark.analyse(session, str(tmp_path), sampled=0.5).rows.select("sampled_fraction").distinct().collect()
    assert [row.sampled_fraction for row in given] == [0.5]


def test_a_dataset_of_spark_is_one(session: SparkSession, corpus: Path, tmp_path: Path) -> None:
    found = on_spark.analyse(session, str(corpus), asn=TABLES).persist()
    found.rows.write.partitionBy("date", "hour").parquet(str(tmp_path / "segments"))
    here = tidegate.report(tmp_path, least_clients=1)
    assert here.networks["segments"].sum() > 0
    equal(here, on_spark.report(found.rows, least_clients=1))
    found.unpersist()


@pytest.mark.skipif("TIDEGATE_PROGRAM" not in os.environ, reason="SKIPPED: TIDEGATE_PROGRAM does not name the program")
def test_a_dataset_may_be_partly_of_spark(session: SparkSession, corpus: Path, tmp_path: Path) -> None:
    captures = sorted(corpus.glob("*/*.pcap*"))
    for seed in (1, 2):
        for name, content in tidegate.lab.run("capture", captures=True, seed=seed).captures.items():
            captures.append(tmp_path / f"{seed}-{Path(name).name}.pcap")
            captures[-1].write_bytes(content)
    assert len(captures) >= 5

    def by_program(these: list[Path], folder: Path) -> None:
        words = [word for table in TABLES for word in ("--asn", str(table))]
        command = [os.environ["TIDEGATE_PROGRAM"], "detect", "--dataset", str(folder), *words, *map(str, these)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    by_program(captures, tmp_path / "program")
    here = tidegate.report(tmp_path / "program", least_clients=1)
    assert here.networks["segments"].sum() > 0 and len(here.distributions) > 0
    # Either of them first, and hours that both wrote.
    for number in (0, 1):
        folder = tmp_path / f"both-{number}"
        by_program(captures[number::2], folder)
        rows = on_spark.analyse(session, [str(file) for file in captures[1 - number :: 2]], asn=TABLES).rows
        rows.write.mode("append").partitionBy("date", "hour").parquet(str(folder / "segments"))
        equal(here, tidegate.report(folder, least_clients=1))
        equal(here, on_spark.report(on_spark.dataset(session, str(folder)), least_clients=1))
        assert hours_of(folder) == hours_of(tmp_path / "program")
        assert tidegate.changes(folder).is_empty()


def test_bad_captures_are_told_and_the_others_read(session: SparkSession, policed: Path, tmp_path: Path) -> None:
    shutil.copy(policed, tmp_path / "whole.pcap.xz")
    (tmp_path / "cut.pcap.xz").write_bytes(policed.read_bytes()[:50_000])
    (tmp_path / "text.pcap").write_text("this is not a capture, it is a text")
    (tmp_path / "empty.pcap").touch()
    found = on_spark.analyse(session, f"{tmp_path}/*.pcap*")
    problems = {Path(row.file).name: row for row in found.problems.collect()}
    assert set(problems) == {"cut.pcap.xz", "text.pcap", "empty.pcap"}
    assert "not a packet capture" in problems["text.pcap"].reason and problems["text.pcap"].offset == 0
    counts = dict(found.rows.groupBy("file").count().toArrow().to_pandas().itertuples(index=False))
    whole = len(polars.DataFrame(tidegate.read(policed)))
    assert counts[str(tmp_path / "whole.pcap.xz")] == whole
    assert 0 < counts[str(tmp_path / "cut.pcap.xz")] < whole
    assert set(counts) == {str(tmp_path / "whole.pcap.xz"), str(tmp_path / "cut.pcap.xz")}


def test_captures_are_read_from_s3(session: SparkSession, storage: str, policed: Path, tmp_path: Path) -> None:
    name = "samples-of-a-server"
    server = fs.S3FileSystem(access_key="key", secret_key="secret", endpoint_override=storage, region="eu-west-1", allow_bucket_creation=True)
    server.create_dir(name)
    for key, content in {"a/1.pcap.xz": policed.read_bytes(), "b/2.pcap.xz": policed.read_bytes(), "b/text.pcap": b"no capture"}.items():
        with server.open_output_stream(f"{name}/{key}") as out:
            out.write(content)
    found = on_spark.analyse(session, f"s3a://{name}/*/*.pcap*")
    rows = local(found)
    here = polars.DataFrame(tidegate.read(policed))
    assert set(rows["file"]) == {f"s3a://{name}/a/1.pcap.xz", f"s3a://{name}/b/2.pcap.xz"}
    assert len(rows) == 2 * len(here) and rows["lost_packets"].sum() == 2 * here["lost_packets"].sum()
    assert [row.file for row in found.problems.collect()] == [f"s3a://{name}/b/text.pcap"]


class Failing:
    """A storage that gives some of a file, or none."""

    def __init__(self, content: bytes, error: OSError) -> None:
        self.content = content
        self.error = error

    def open_input_stream(self, path: str, compression: None) -> "Failing":
        return self

    def close(self) -> None:
        pass

    def __enter__(self) -> "Failing":
        return self

    def __exit__(self, *why: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        if not self.content:
            raise self.error
        read, self.content = self.content[:size], self.content[size:]
        return read


def test_a_storage_that_fails_is_no_bad_capture(policed: Path) -> None:
    def rows(error: OSError) -> int:
        storage: Any = Failing(policed.read_bytes()[:100_000], error)
        nothing: Any = None
        work = _analyse._Work(storage, nothing, "segment", "tidegate", None, [], 1.0)
        return sum(map(len, work.rows([[_storage.File("s3a://a/b", "a/b", 1)]])))

    # Spark repeats the task, and drops its rows.
    with pytest.raises(OSError, match="the cable is out"):
        rows(OSError("the cable is out"))
    with pytest.raises(OSError, match="no medium"):
        rows(OSError(errno.ENXIO, "no medium"))
    # S3 has no such error of its own.
    assert rows(OSError("AWS Error ACCESS_DENIED during GetObject operation: no")) > 1
    # A file without permission is the same the next time: rows, and a problem.
    assert rows(PermissionError("no")) > 1


class Counting:
    """A storage that notes how many descriptors this process has when a file is opened, and keeps what was opened if that is wanted."""

    def __init__(self, folder: Path, keeps: bool = False) -> None:
        self.keeps = keeps
        self.folder = folder
        self.storage = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
        self.descriptors: list[int] = []
        self.streams: list[Any] = []

    def open_input_stream(self, path: str, compression: None) -> Any:
        self.descriptors.append(len(os.listdir("/proc/self/fd")))
        stream = self.storage.open_input_stream(path, compression=compression)
        self.streams += [stream] if self.keeps else []
        return stream


@pytest.mark.parametrize("joined", [False, True])
def test_files_are_closed_when_they_are_read(policed: Path, tmp_path: Path, joined: bool) -> None:
    capture = lzma.decompress(policed.read_bytes())[:40_000]
    files = [_storage.File(f"{number}.pcap", f"{number}.pcap", len(capture)) for number in range(200)]
    for file in files:
        (tmp_path / file.path).write_bytes(capture)
    storage: Any = Counting(tmp_path)
    nothing: Any = None
    work = _analyse._Work(storage, nothing, "segment", "tidegate", None, [], 1.0)
    assert sum(map(len, work.rows([files] if joined else [[file] for file in files]))) > 1
    assert len(storage.descriptors) == (400 if joined else 200)
    assert max(storage.descriptors) <= storage.descriptors[0] + 5


def test_files_are_closed_if_nobody_wants_more_rows(policed: Path, tmp_path: Path) -> None:
    shutil.copy(policed, tmp_path)
    storage: Any = Counting(tmp_path, keeps=True)
    nothing: Any = None
    work = _analyse._Work(storage, nothing, "packet", "tidegate", None, [], None)
    rows = work.rows([[_storage.File(policed.name, policed.name, 1)]] * 50)
    assert len(next(rows)) > 0
    del rows
    assert len(storage.streams) > 0 and all(stream.closed for stream in storage.streams)


class Damaged(Counting):
    """A storage that gives some of a file, if it is named so."""

    def open_input_stream(self, path: str, compression: None) -> Any:
        if not path.startswith("damaged"):
            return super().open_input_stream(path, compression)
        return Failing((self.folder / "whole").read_bytes()[:100_000], OSError(errno.EIO, "the disk is damaged"))


def test_a_file_that_cannot_be_read_again_and_again_is_a_problem(policed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(policed, tmp_path / "whole")
    storage: Any = Damaged(tmp_path)
    nothing: Any = None
    work = _analyse._Work(storage, nothing, "segment", "tidegate", None, [], 1.0, 4)
    whole, damaged, piece = (_storage.File(f"s3a://a/{name}", name, 1) for name in ("whole", "damaged", "damaged-piece"))

    def found(captures: list[list[_storage.File]], attempt: int) -> polars.DataFrame:
        monkeypatch.setattr(TaskContext, "_taskContext", SimpleNamespace(attemptNumber=lambda: attempt))
        return polars.concat([polars.DataFrame(polars.from_arrow(batch)) for batch in work.rows(captures)])

    for attempt in range(3):
        with pytest.raises(OSError, match="the disk is damaged"):
            found([[whole], [damaged]], attempt)
    rows = found([[whole], [damaged]], 3)
    (problem,) = rows.drop_nulls("problem_reason").to_dicts()
    assert problem["file"] == damaged.address and "the disk is damaged" in problem["problem_reason"]
    # None of the rows up to there: they would be there twice when the capture is analysed again.
    assert set(rows.filter(polars.col("problem_reason").is_null())["file"]) == {whole.address}
    # A capture is left out as a whole, and one that is alone may be the only one that is damaged.
    assert found([[whole, piece]], 3)["file"].to_list() == [piece.address]
    with pytest.raises(OSError, match="none of 2 captures can be read"):
        found([[damaged], [piece]], 3)


@pytest.mark.parametrize(
    ("master", "setting", "many"),
    [("local", "9", 1), ("local[*]", None, 1), ("local[2, 3]", None, 3), ("spark://a:7077", None, 4), ("yarn", "8", 8)],
)
def test_attempts_are_those_of_the_master(master: str, setting: str | None, many: int) -> None:
    context = SimpleNamespace(master=master, getConf=lambda: {"spark.task.maxFailures": setting})
    session: Any = SimpleNamespace(sparkContext=context)
    assert _unreadable.attempts(session) == many


def test_pieces_of_a_capture_are_read_together(session: SparkSession, policed: Path, tmp_path: Path) -> None:
    capture = lzma.decompress(policed.read_bytes())
    header, packets = capture[:24], 24
    middle = packets
    while middle < len(capture) // 2:
        middle += 16 + int.from_bytes(capture[middle + 8 : middle + 12], "little")
    # Named in the wrong order: the first packets say which comes first.
    for name, content in [("b", capture[:middle]), ("a", header + capture[middle:])]:
        place = tmp_path / "host" / f"{name}.pcap"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
    (tmp_path / "whole.pcap").write_bytes(capture)
    found = on_spark.analyse(session, f"{tmp_path}/host", join=lambda address: str(Path(address).parent))
    whole = polars.DataFrame(tidegate.read(tmp_path / "whole.pcap"))
    joined = polars.DataFrame(tidegate.read(tmp_path / "host", join=True))
    apart = polars.DataFrame(tidegate.read(tmp_path / "host"))
    there = local(found)
    for rows in (there, joined):
        assert set(rows["file"]) == {f"{tmp_path}/host/b.pcap to {tmp_path}/host/a.pcap"} or len(set(rows["file"])) == 1
        assert len(rows) == len(whole) < len(apart)
        assert rows["lost_packets"].sum() == whole["lost_packets"].sum()


def test_wrong_words_are_told_at_once(session: SparkSession, policed: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file is there"):
        on_spark.analyse(session, f"{tmp_path}/*.pcap")
    with pytest.raises(ValueError, match="pdx"):
        on_spark.analyse(session, str(policed), detector="pdx")
    with pytest.raises(ValueError, match="sampled=2"):
        on_spark.analyse(session, str(policed), sampled=2)
    words: dict[str, Any]
    for words in ({"asn": TABLES}, {"sampled": 0.5}):
        with pytest.raises(ValueError, match="segments only"):
            on_spark.analyse(session, str(policed), "flow", **words)
    with pytest.raises(ValueError, match="in one file system"):
        on_spark.analyse(session, [str(policed), "s3a://bucket/a.pcap"])


def test_paths_of_hadoop_are_behind_the_host() -> None:
    assert _storage._split("hdfs://names:8020/a/*.pcap") == ("hdfs", "hdfs://names:8020", "/a/*.pcap")
    assert _storage._split("s3a://bucket/a.pcap") == ("s3a", "s3a://", "bucket/a.pcap")


def test_tables_of_networks_are_known_by_their_content(session: SparkSession, policed: Path, tmp_path: Path) -> None:
    # Spark knows files by their names alone, and keeps the first.
    country = TABLES[1].read_bytes()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for place, content in (("a", b"no table"), ("b", country)):
        (tmp_path / place / "names.mmdb").write_bytes(content)
    with pytest.raises(Exception, match="mmdb"):
        local(on_spark.analyse(session, str(policed), asn=tmp_path / "a" / "names.mmdb"))
    here = polars.DataFrame(tidegate.read(policed, asn=TABLES[1]))
    there = local(on_spark.analyse(session, str(policed), asn=tmp_path / "b" / "names.mmdb"))
    assert there["client_country"].to_list() == here["client_country"].to_list()


def test_tasks_are_alike() -> None:
    files = [_storage.File(f"{number}", f"{number}", size * 10**6) for number, size in enumerate([5, 3600, 1, 1200, 2, 3, 3, 3])]
    shared = _share.tasks(_share.captures(files, None), 1)
    sizes = [[file.size // 10**6 for capture in task for file in capture] for task in shared]
    # As many as a gigabyte needs.
    assert sizes[:2] == [[3600], [1200]]
    assert sorted(len(task) for task in sizes[2:]) == [2, 2, 2] and max(sum(task) for task in sizes[2:]) <= 7
    many = [_storage.File(f"{number}", f"{number}", 0) for number in range(100_000)]
    assert {len(task) for task in _share.tasks(_share.captures(many, None), 1)} == {100_000 // 10}
    # And as many for each core.
    assert [len(_share.tasks(_share.captures(many, None), cores)) for cores in (2, 4, 64)] == [10, 12, 64]
    assert sorted(size for task in sizes for size in task) == sorted(file.size // 10**6 for file in files)
    together = _share.captures(files, lambda address: "odd" if int(address) % 2 else "even")
    assert [len(capture) for capture in together] == [4, 4]


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("/a/*.pcap", ["/a/b.pcap"], ["/a/b/c.pcap", "/a/bpcap"]),
        ("/a/**/*.pcap", ["/a/b.pcap", "/a/b/c/d.pcap"], ["/b/a.pcap"]),
        ("/a/[0-2]?.{pcap,cap.zst}", ["/a/1x.pcap", "/a/2y.cap.zst"], ["/a/3x.pcap", "/a/1.pcap"]),
        ("/a/[!x]+(1).pcap", ["/a/y+(1).pcap"], ["/a/x+(1).pcap", "/a/yy(1).pcap"]),
        ("/a/[]^.pcap", ["/a/[]^.pcap"], ["/a/^.pcap"]),
    ],
)
def test_wildcards(glob: str, yes: list[str], no: list[str]) -> None:
    pattern = re.compile(_storage._expression(glob))
    assert all(pattern.fullmatch(path) for path in yes)
    assert not any(pattern.fullmatch(path) for path in no)
