"""Which captures a task reads: the largest first, and many small ones together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ._storage import File

#: A task has so many bytes, unless a capture has more: enough that its start does not count, and little to lose with a machine.
MOST_BYTES = 256 * 10**6
#: And so many captures: one costs some time even if it is small.
MOST_CAPTURES = 10_000
#: Each core gets so many tasks, where there are captures enough, so that all are done at nearly the same time.
TASKS_A_CORE = 8

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
    """Captures by task. A capture that is larger than a task should be has one alone."""
    sized = sorted(((sum(file.size for file in capture), capture) for capture in found), key=lambda pair: -pair[0])
    bound = min(MOST_BYTES, sum(size for size, _ in sized) // (TASKS_A_CORE * max(cores, 1)))
    made: list[list[Capture]] = []
    room = many = 0
    for size, capture in sized:
        if not made or size > room or many >= MOST_CAPTURES:
            made.append([])
            room, many = max(bound, size), 0
        made[-1].append(capture)
        room, many = room - size, many + 1
    return made
