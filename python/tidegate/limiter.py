"""Limiters, given the times and sizes of packets.

Times are nanoseconds and do not decrease; sizes are bytes at the layer at which you count. Both are sequences of integers or
arrays of any library. Each function gives a table with a row for each packet: `time_ns`, `bytes`, `queue`, `passed`, and
`leaves_ns`, which is missing where the packet was dropped.
"""

from array import array
from collections.abc import Iterable
from typing import Any

from . import _native

__all__ = ["bc_pqp", "policer", "pqp", "shaper"]

Numbers = Iterable[int]


def policer(times: Numbers, sizes: Numbers, *, rate: str, burst: str) -> _native.Table:
    """A token bucket that drops: `policer(times, sizes, rate="5mbit", burst="30kB")`."""
    return _simulate("policer", rate, burst, 1, times, sizes, None)


def shaper(
    times: Numbers, sizes: Numbers, *, rate: str, queue: str, queues: int = 1, of: Numbers | None = None
) -> _native.Table:
    """A queue of bytes that is released at the rate. With several, they share it fairly; `of` is each packet's queue."""
    return _simulate("shaper", rate, queue, queues, times, sizes, of)


def pqp(
    times: Numbers, sizes: Numbers, *, rate: str, queue: str, queues: int = 1, of: Numbers | None = None
) -> _native.Table:
    """Phantom queues (PQP) of bytes, which share the rate fairly; `of` is each packet's queue."""
    return _simulate("pqp", rate, queue, queues, times, sizes, of)


def bc_pqp(
    times: Numbers, sizes: Numbers, *, rate: str, queue: str, queues: int = 1, of: Numbers | None = None
) -> _native.Table:
    """Phantom queues with burst control (BC-PQP)."""
    return _simulate("bc-pqp", rate, queue, queues, times, sizes, of)


def _simulate(
    scheme: str, rate: str, depth: str, queues: int, times: Numbers, sizes: Numbers, of: Numbers | None
) -> _native.Table:
    queue = None if of is None else _integers("of", of)
    return _native.simulate(scheme, rate, depth, queues, _integers("times", times), _integers("sizes", sizes), queue)


def _integers(name: str, values: Numbers) -> Any:
    """The values as 64-bit integers beside each other in memory, without a copy where they are so already."""
    try:
        view = memoryview(values)  # type: ignore[arg-type]
        if view.format in ("q", "l") and view.itemsize == 8 and view.contiguous and view.ndim == 1:
            return values
        values = view.tolist()
    except (TypeError, ValueError):
        # It has no memory to look at, as lists have none, or values that Python does not know.
        pass
    try:
        # Times in seconds would be cut to integers without a word: `array` refuses them.
        return array("q", values)
    except (TypeError, OverflowError) as problem:
        raise TypeError(f"{name}: these are no integers of 64 bits: {problem}") from problem
