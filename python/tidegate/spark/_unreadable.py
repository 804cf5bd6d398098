"""Captures that the storage does not give, however often it is asked: archived objects, and files on damaged disks."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .._errors import CaptureError
from ._share import Capture

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

    from ._storage import File

#: Errors of the system that a file has by itself, the next time too.
LASTING = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP}
#: Masters on one machine repeat a task only if they name how often: local[2,4].
_LOCAL = re.compile(r"local(?:\[[^],]*(?:,\s*(\d+)\s*)?\])?")
_AT_ONCE = 1 << 22


def is_lasting(error: OSError) -> bool:
    """Whether a file has this error by itself, so that it is a problem of the capture."""
    # Pyarrow has no PermissionError for what S3 refuses.
    return isinstance(error, (FileNotFoundError, PermissionError)) or error.errno in LASTING or "ACCESS_DENIED" in str(error)


def attempts(spark: SparkSession) -> int:
    """How often a task may fail before Spark ends the job."""
    local = _LOCAL.fullmatch(spark.sparkContext.master)
    if local is not None:
        return int(local[1] or 1)
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures") or 4)


def is_last_attempt(attempts: int) -> bool:
    """Whether Spark would not repeat this task once more. A task that is never repeated has no last attempt: its first failure may pass."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and attempts > 1 and context.attemptNumber() >= attempts - 1


def split(system: FileSystem, captures: list[Capture]) -> tuple[list[Capture], list[CaptureError]]:
    """The captures that can be read to their end, and why others cannot. This reads all of them.

    Nothing is given of a capture that cannot: rows up to there would be there twice, once it is analysed again.

    Raises OSError if there are several captures and none of them can be read: then the storage fails.
    """
    errors = [next(_errors(system, capture), None) for capture in captures]
    readable = [capture for capture, error in zip(captures, errors, strict=True) if error is None]
    failed = [error for error in errors if error is not None]
    if len(failed) > 1 and not readable:
        raise OSError(failed[0].errno, f"none of {len(failed)} captures can be read: {failed[0]}")
    return readable, failed


def _errors(system: FileSystem, capture: Capture) -> Iterator[CaptureError]:
    for file in capture:
        error = _error(system, file)
        if error is not None:
            yield CaptureError(file.address, None, f"the storage does not give it: {error}. No row is there: analyse this capture again", error.errno)


def _error(system: FileSystem, file: File) -> OSError | None:
    """Why the storage does not give this file. What a file has by itself is found when it is analysed."""
    try:
        # What is compressed is not decompressed.
        with system.open_input_stream(file.path, compression=None) as stream:
            while stream.read(_AT_ONCE):
                pass
    except OSError as error:
        return None if is_lasting(error) else error
    return None
