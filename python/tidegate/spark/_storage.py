"""Files by their addresses, on any file system that pyarrow knows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .._native import named_like_a_capture

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

#: Settings of Hadoop's S3 client, and the names that they have here.
_S3 = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint": "endpoint_override",
    "endpoint.region": "region",
}
#: Their paths do not begin with a bucket, but behind the host.
_OF_HADOOP = ("hdfs", "viewfs")
_WILD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class File:
    """A file in a file system."""

    #: As rows name it.
    address: str
    #: In the file system.
    path: str
    size: int


def find(spark: SparkSession, addresses: Iterable[str], given: FileSystem | None) -> tuple[FileSystem, list[File]]:
    """The files that addresses name, with wildcards or as folders, each one once.

    All of them are in one file system: the one that is given, or that of the addresses.
    """
    found: dict[str, File] = {}
    system = given
    first = None
    for address in addresses:
        scheme, front, path = _split(address)
        first = front if first is None else first
        if given is None and front.replace("s3a:", "s3:") != first.replace("s3a:", "s3:"):
            raise ValueError(f"{address}: captures in one analysis are in one file system: others are in {first or 'files of this machine'}")
        if system is None:
            system = _system(spark, scheme, address)
        files = _matching(system, front, path)
        if not files:
            raise FileNotFoundError(f"{address}: no file is there: wildcards are *, **, ?, [...] and {{a,b}}")
        found |= {file.path: file for file in files}
    if system is None:
        raise ValueError("no captures are named")
    return system, [found[path] for path in sorted(found)]


def _split(address: str) -> tuple[str, str, str]:
    """The scheme, what an address has in front of the path, and the path as pyarrow wants it."""
    scheme, colon, path = address.partition("://")
    if not colon and address.startswith("file:/"):
        return "file", "", address.removeprefix("file:")
    if not colon or scheme == "file":
        path = path if colon else address
        return "file", "", str(Path(path).absolute())
    if scheme in _OF_HADOOP:
        host, slash, path = path.partition("/")
        return scheme, f"{scheme}://{host}", slash + path
    return scheme, f"{scheme}://", path


def _system(spark: SparkSession, scheme: str, address: str) -> FileSystem:
    from pyarrow import fs

    if scheme == "file":
        return fs.LocalFileSystem()
    if scheme in ("s3", "s3a"):
        settings = spark.sparkContext.getConf()
        options: dict[str, object] = {}
        for theirs, ours in _S3.items():
            value = settings.get(f"spark.hadoop.fs.s3a.{theirs}")
            if value:
                options[ours] = value
        if settings.get("spark.hadoop.fs.s3a.connection.ssl.enabled") == "false":
            options["scheme"] = "http"
        return fs.S3FileSystem(**options)
    system, _ = fs.FileSystem.from_uri(_WILD.split(address)[0])
    return system


def _matching(system: FileSystem, front: str, path: str) -> list[File]:
    from pyarrow import fs

    def file(info: fs.FileInfo) -> File:
        return File(front + info.path, info.path, info.size or 0)

    def inside(base: str, deep: bool) -> list[fs.FileInfo]:
        chosen = fs.FileSelector(base, allow_not_found=True, recursive=deep)
        return [info for info in system.get_file_info(chosen) if info.type == fs.FileType.File]

    wild = _WILD.search(path)
    if wild is None:
        info = system.get_file_info(path.rstrip("/"))
        if info.type == fs.FileType.Directory:
            return [file(one) for one in inside(info.path, True) if named_like_a_capture(one.base_name)]
        return [file(info)] if info.type == fs.FileType.File else []
    base = path[: path.rfind("/", 0, wild.start())]
    rest = path[len(base) + 1 :]
    pattern = re.compile(_expression(path), re.DOTALL)
    return [file(one) for one in inside(base or "/", "/" in rest or "**" in rest) if pattern.fullmatch(one.path)]


def _expression(glob: str) -> str:
    """A pattern with wildcards as a regular expression: * and ? stay in a folder, ** does not."""
    parts = []
    for text in re.findall(r"\*\*/|\*\*|\*|\?|\[[^]]+\]|\{[^}]*\}|.", glob, re.DOTALL):
        if text == "**/":
            parts.append("(?:.*/)?")
        elif text == "**":
            parts.append(".*")
        elif text == "*":
            parts.append("[^/]*")
        elif text == "?":
            parts.append("[^/]")
        elif text[0] == "[" and len(text) > 1:
            begin, inner = ("[^", text[2:-1]) if text[1] in "!^" else ("[", text[1:-1])
            parts.append(begin + re.sub(r"([\\\[\]&|~^])", r"\\\1", inner) + "]")
        elif text[0] == "{" and len(text) > 1:
            parts.append(f"(?:{'|'.join(_expression(one) for one in text[1:-1].split(','))})")
        else:
            parts.append(re.escape(text))
    return "".join(parts)
