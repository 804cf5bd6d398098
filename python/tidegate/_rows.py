"""What reports need of rows, whichever engine has them: polars on one machine, Spark on many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, Self

from . import _native

if TYPE_CHECKING:
    import polars as pl

#: A policing rate is known if the ends of its interval are as close to each other as those of a cluster. [Flach16 §3.2]
KNOWN = 1.05 / 0.95
#: A segment with this many losses is lossy: fewer do not show a policer. [Flach16 Table 2]
LOSSY = 15
#: Regions by continent. [Flach16 Table 2]
REGIONS = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia (without India)",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}
#: A country that is a region. [Flach16 Table 2]
COUNTRY_OF_ITS_REGION = ("IN", "India")
#: How IPv4 addresses begin among those of IPv6 [RFC 4291 §2.5.5.2]. Each of them is a client.
MAPPED = bytes(10) + b"\xff\xff"
#: Of other addresses, this many bytes are a client: the prefix of a link. Hosts change what is behind it every day. [RFC 8981 §3.6]
PREFIX_BYTES = 8
#: Numbers of a segment, as floating point. Each has fewer than 2^53 units, so that nothing is rounded.
NUMBERS = ["limit_rate_bps", "limit_depth_bytes", "goodput_bps", "loss_rate", "rtt_median_ms", "wait_ms"]


def key_types() -> dict[str, pl.DataType]:
    """What rows are grouped by."""
    import polars as pl

    text = ["region", "client_country", "client_organisation", "date"]
    return {**dict.fromkeys(text, pl.String()), "client_asn": pl.UInt32(), "hour": pl.Int64()}


def no_rows() -> _native.Rows:
    """A dataset without rows, which has all columns that this version knows."""
    return _native.read([], "segment", "tidegate", None, False, 1, None, 1.0, None)


class Rows(Protocol):
    """Data that servers sent. What the methods give is exact, so that every engine gives the same.

    Clients are told apart by the column `client`, not by `client_address`: a host with IPv6 has many addresses.
    """

    def detectors(self) -> set[str]:
        """Those that judged the segments."""

    def of_networks(self, numbers: list[int]) -> Self:
        """Those of these autonomous systems."""

    def playbacks(self, log: Any) -> Self:
        """Playbacks of a log of players, as rows: one for each class of goodput that their segments had. See `_playback`."""

    def sums(
        self, keys: list[str], parts: dict[str, tuple[str, bool | None, str | None]], shares: dict[str, tuple[str, str]]
    ) -> Iterable[dict[str, Any]]:
        """By these keys: `clients`, `sampled_segments`, `all` (weights), and the `Sums` of each share, which are made of these parts."""

    def traits(self) -> pl.DataFrame:
        """By autonomous system: medians, and weights of policed segments."""

    def most(self, column: str) -> pl.DataFrame:
        """By autonomous system: the text that most segments have in this column. It has no row for a system without any."""

    def quantiles(
        self, key: str, measures: dict[str, tuple[bool, str]]
    ) -> tuple[dict[tuple[Any, str], int], list[tuple[Any, str, int, float]]]:
        """By key and measure: how many clients there are; and the values with the steps that they reach. No key is missing."""

    def clusters(self, least: int) -> pl.DataFrame:
        """The clusters of the policing rates of each autonomous system."""

    def spreads(self, least: int) -> list[tuple[int | None, bool, int]]:
        """How many clusters cover the rates of each autonomous system, of policed segments and of others."""
