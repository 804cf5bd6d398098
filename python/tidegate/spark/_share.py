"""Which captures a task reads: the largest first, and many small ones together."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from ._storage import File

#: A task has about this many bytes at most, unless a capture has more. What is lost with a machine is a few seconds of work for each core.
MOST_BYTES = 10**9
#: A capture costs as much time as so many bytes, even if it is small.
LEAST_BYTES = 100_000

#: The pieces of a capture.
Capture = list[File]


def captures(files: list[File], join: Callable[[str], str] | None) -> list[Capture]:
    """Captures of these files: each one alone, or those together for whose addresses `join` gives the same text."""
    if join is None:
        return [[file] for file in files]
    together: dict[str, Capture] = {}
    for file in files:
        together.setdefault(join(file.address), []).append(file)
    return list(together.values())


def tasks(found: Iterable[Capture], cores: int) -> list[list[Capture]]:
    """Captures by task, the longest tasks first. Each capture goes to the task that has least, the largest capture first.

    Each core has a task (or `spark.default.parallelism` says how many there are), where there are captures enough. More would divide
    small jobs more evenly, but a task costs about 0.1 s of processor time by itself, as much as 50 MB of headers.
    """
    costs = sorted(((sum(file.size for file in capture) + LEAST_BYTES, capture) for capture in found), key=lambda pair: -pair[0])
    each = max(cores, 1)
    # All cores have equally many: 5 tasks take 2 cores as long as 6.
    many = each * max(1, -(-sum(cost for cost, _ in costs) // (each * MOST_BYTES)))
    made: list[list[Capture]] = [[] for _ in costs[:many]]
    least = [(0, number) for number in range(len(made))]
    for cost, capture in costs:
        had, number = heapq.heappop(least)
        made[number].append(capture)
        heapq.heappush(least, (had + cost, number))
    return [made[number] for _, number in sorted(least, key=lambda pair: (-pair[0], pair[1]))]
