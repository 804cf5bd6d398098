"""Captures to rows, on executors."""

from __future__ import annotations

import gc
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Self
from weakref import ReferenceType, ref

import pyarrow as pa

from .. import _native
from .._capture import Basis, By, PathLike, each
from .._dataset import BASIS_NOTE
from . import _share, _storage, _types, _unreadable

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark import Broadcast
    from pyspark.sql import DataFrame, SparkSession

#: Rows that are handed to Spark together, at least, unless there are fewer.
_BATCH = 8192
#: Problems of captures are rows with nothing but these.
_PROBLEM = [pa.field("problem_offset", pa.int64()), pa.field("problem_reason", pa.string())]
#: Where rows belong in a dataset.
_PLACE = [
    pa.field("date", pa.string(), metadata={"meaning": "The day when the first data packet was sent (UTC)."}),
    pa.field("hour", pa.int32(), metadata={"meaning": "The hour of this day."}),
]


@dataclass(frozen=True)
class Analysis:
    """Rows of captures, and what was wrong with captures.

    Nothing is read before Spark needs the rows, and the captures are read again for each action. `persist` keeps the rows
    instead, where more than one action needs them.
    """

    #: Rows and problems. A row is one of both.
    found: DataFrame

    @property
    def rows(self) -> DataFrame:
        """What `tidegate.read` gives. Segments have their `date` and `hour` too."""
        return self.found.where("problem_reason IS NULL").drop(*[field.name for field in _PROBLEM])

    @property
    def problems(self) -> DataFrame:
        """Bad captures: `file`, `offset` (bytes after decompression, if it is known) and `reason`. Rows up to the damage are kept."""
        told = self.found.where("problem_reason IS NOT NULL")
        return told.selectExpr("file", "problem_offset AS offset", "problem_reason AS reason")

    def persist(self) -> Self:
        """Keeps the rows where they are made, in memory or on disks, once an action has made them."""
        self.found.persist()
        return self

    def unpersist(self) -> None:
        """Forgets the rows that were kept."""
        self.found.unpersist()


def analyse(
    spark: SparkSession,
    captures: str | Iterable[str],
    by: By = "segment",
    *,
    detector: str = "tidegate",
    basis: Basis | None = None,
    join: Callable[[str], str] | None = None,
    asn: PathLike | Iterable[PathLike] = (),
    sampled: float | None = None,
    filesystem: FileSystem | None = None,
) -> Analysis:
    """Rows of captures: what `tidegate.read` gives of the same files, made on the executors.

    `captures` are addresses such as `s3a://samples/*/*.pcapng.zst` or `/mnt/captures/**/*.pcap`, with the wildcards *, **,
    ?, [...] and {a,b}, or folders. Executors open the files themselves, so a path without a scheme must be there on each
    of them. `filesystem` is a file system of pyarrow; without it, the scheme chooses one, and `s3a` takes Spark's settings
    `spark.hadoop.fs.s3a.endpoint`, `.access.key` and the like.

    Each file is a capture, which one task reads as a whole: no flow in it is divided. If captures are in pieces, as
    `tidegate sample` and `tcpdump -G` write them, `join` says which files belong together: those for whose addresses it gives
    the same text. They are taken in the order of their first packets, as `tidegate detect --join` does. What is judged
    together (`basis`) is judged within a capture.

    `asn` names tables of networks (MMDB) on the driver, and `sampled` is the share of flows that the captures hold. Without
    it, the captures of `tidegate sample` say it themselves, and others hold all flows; see `tidegate.read`.

    Raises FileNotFoundError if an address names nothing.
    """
    tables = each(asn)
    system, files = _storage.find(spark, [captures] if isinstance(captures, str) else captures, filesystem)
    tasks = _share.tasks(_share.captures(files, join), spark.sparkContext.defaultParallelism)
    placed = ("header" if sampled is None else sampled) if by == "segment" else None
    # Words are checked here, before executors hear of them.
    schema = pa.schema(_native.read([], by, detector, basis, False, 1, None, placed, None))
    if by != "segment" and (tables or sampled is not None):
        raise ValueError("asn and sampled add columns to segments only: leave them out, or by")
    copies = [_copy(table) for table in tables]
    for copy in copies:
        spark.sparkContext.addFile(str(copy))
    work = _Work(system, spark.sparkContext.broadcast(tasks), by, detector, basis, [copy.name for copy in copies], placed, _unreadable.attempts(spark))

    from pyspark.sql.types import StructType

    columns = [*schema, *(_PLACE if placed is not None else []), *_PROBLEM]
    numbers = spark.range(0, len(tasks), 1, numPartitions=len(tasks))
    # Reports need to know it, of the files too that Spark writes.
    notes: dict[str, dict[str, str]] = {} if basis is None else {"detector": {BASIS_NOTE: basis}}
    return Analysis(numbers.mapInArrow(work, StructType([_types.field(column, notes.get(column.name)) for column in columns])))


@dataclass(frozen=True)
class _Work:
    """What executors do. It depends on the task's number alone, so a task that is repeated gives the same rows.

    Only the last attempt differs: it leaves out captures that the storage still does not give. See `_unreadable`.
    """

    system: FileSystem
    tasks: Broadcast[list[list[_share.Capture]]]
    by: By
    detector: str
    basis: Basis | None
    tables: list[str]
    sampled: float | str | None
    #: How often Spark tries a task.
    attempts: int = 1

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _settle()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self.rows(self.tasks.value[number])

    def rows(self, captures: list[_share.Capture]) -> Iterator[pa.RecordBatch]:
        """The rows of these captures, and behind them the problems."""
        from pyspark import SparkFiles

        unreadable: list[Any] = []
        if _unreadable.is_last_attempt(self.attempts):
            captures, unreadable = _unreadable.split(self.system, captures)
        networks = _networks(tuple(SparkFiles.get(table) for table in self.tables)) if self.tables else None
        opened = [[_Opened(self.system, file) for file in capture] for capture in captures]
        try:
            yield from self._rows(captures, opened, networks, unreadable)
        finally:
            # Spark may want no more rows in the middle of a capture.
            for piece in (piece for capture in opened for piece in capture):
                piece.close()

    def _rows(
        self,
        captures: list[_share.Capture],
        opened: list[list[_Opened]],
        networks: _native.Networks | None,
        unreadable: list[Any],
    ) -> Iterator[pa.RecordBatch]:
        pieces = [[(file.address, piece.source()) for file, piece in zip(*pair, strict=True)] for pair in zip(captures, opened, strict=True)]
        found = _native.read(pieces, self.by, self.detector, self.basis, False, 1, networks, self.sampled, None)
        waiting: list[pa.RecordBatch] = []
        for batch in found:
            waiting.append(pa.record_batch(batch))
            if sum(map(len, waiting)) >= _BATCH:
                yield self._batch(waiting)
                waiting = []
        if waiting:
            yield self._batch(waiting)
        # Spark repeats the task, and drops what it gave: a storage that fails is no bad capture.
        for piece in (piece for capture in opened for piece in capture):
            if piece.failed is not None:
                raise piece.failed
        for problem in found.problems:
            if problem.errno is not None and problem.errno not in _unreadable.LASTING:
                raise OSError(problem.errno, str(problem))
        problems = [*unreadable, *found.problems]
        if problems:
            yield self._problems(pa.schema(found), problems)

    def _batch(self, parts: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.concat_batches(parts)
        columns = {field.name: _types.column(values) for field, values in zip(rows.schema, rows.columns, strict=True)}
        if self.sampled is not None:
            start = rows.column("start_s").cast(pa.timestamp("us"), safe=False)
            columns["date"] = start.cast(pa.date32(), safe=False).cast(pa.string())
            columns["hour"] = pa.compute.hour(start).cast(pa.int32())
        columns |= {field.name: pa.nulls(len(rows), field.type) for field in _PROBLEM}
        return pa.RecordBatch.from_pydict(columns)

    def _problems(self, schema: pa.Schema, problems: list[Any]) -> pa.RecordBatch:
        kinds = [(field.name, _types.kind(field.type)) for field in schema]
        kinds += [(field.name, field.type) for field in [*(_PLACE if self.sampled is not None else []), *_PROBLEM]]
        told = {
            "file": [problem.file for problem in problems],
            "problem_offset": [problem.offset for problem in problems],
            "problem_reason": [problem.reason for problem in problems],
        }
        columns = {name: pa.array(told.get(name, [None] * len(problems)), kind) for name, kind in kinds}
        return pa.RecordBatch.from_pydict(columns)


@lru_cache(maxsize=1)
def _copies() -> tempfile.TemporaryDirectory[str]:
    """A folder for tables of networks, until the driver ends: executors may ask for them at any time."""
    return tempfile.TemporaryDirectory(prefix="tidegate-")


def _copy(table: Path) -> Path:
    """A copy of a table, named by its content. Spark gives executors one file of each name, and the first for all time."""
    with table.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    copy = Path(_copies().name, f"tidegate-{content}.mmdb")
    if not copy.exists():
        shutil.copyfile(table, copy)
    return copy


@lru_cache(maxsize=1)
def _settle() -> None:
    """Workers of PySpark collect garbage after each task, and would look at everything that was imported. They do nothing else."""
    gc.freeze()
    _native.keep_memory()


@lru_cache(maxsize=1)
def _networks(tables: tuple[str, ...]) -> _native.Networks:
    """Tables of networks, which are read once in each process."""
    return _native.Networks([Path(table) for table in tables])


class _Opened:
    """A file that the reader opens when its turn comes: twice, if pieces have to be put in order."""

    def __init__(self, system: FileSystem, file: _storage.File) -> None:
        self._system = system
        self._path = file.path
        # The reader alone keeps a stream, so that it is closed as soon as the reader drops it.
        self._last: ReferenceType[_Stream] | None = None
        #: Why the storage could not be read, if that may be otherwise the next time.
        self.failed: OSError | None = None

    def source(self) -> Path | Callable[[], _Stream]:
        """What the reader takes: the path of a file on this machine, or a function that opens another one."""
        from pyarrow import fs

        return Path(self._path) if isinstance(self._system, fs.LocalFileSystem) else self._open

    def close(self) -> None:
        """Closes what the reader has open of it."""
        stream = None if self._last is None else self._last()
        if stream is not None:
            stream.close()

    def _open(self) -> _Stream:
        # The reader decompresses.
        stream = _Stream(self.noted, self.noted(lambda: self._system.open_input_stream(self._path, compression=None)))
        self._last = ref(stream)
        return stream

    def noted(self, do: Callable[[], Any]) -> Any:
        """Does it, and notes why the storage failed."""
        try:
            return do()
        except OSError as error:
            if not _unreadable.is_lasting(error):
                self.failed = error
            raise


class _Stream:
    """The bytes of a file, for the reader's thread. Another thread may close it."""

    def __init__(self, noted: Callable[[Callable[[], Any]], Any], stream: Any) -> None:
        self._noted = noted
        self._stream = stream
        # A descriptor that is closed while it is read may be another file's by then.
        self._lock = Lock()

    def read(self, size: int, /) -> bytes:
        with self._lock:
            if self._stream is None:
                return b""
            data: bytes = self._noted(lambda: self._stream.read(size))
            if not data:
                self._close()
            return data

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
