"""Find rate limits in packet captures.

>>> import polars, tidegate
>>> segments = polars.DataFrame(tidegate.read("captures/"))
>>> tidegate.explain("slow.pcap").headline

`read` gives rows to any library that knows Arrow, `explain` tells what limited one transfer, `lab` simulates senders and
limiters, and `limiter` offers packets to a limiter. `report` sums up a dataset of `tidegate detect --dataset`, and
`changes` and `watch` tell where loss or policing is not as usual.
"""

from . import lab, limiter
from ._capture import Explanation, explain, read
from ._changes import changes, watch
from ._errors import CaptureError, DatasetError
from ._misjudged import Tested
from ._native import Batch, Rows, Table, __version__
from ._report import Report, report

__all__ = [
    "Batch",
    "CaptureError",
    "DatasetError",
    "Explanation",
    "Report",
    "Rows",
    "Table",
    "Tested",
    "__version__",
    "changes",
    "explain",
    "lab",
    "limiter",
    "read",
    "report",
    "watch",
]
