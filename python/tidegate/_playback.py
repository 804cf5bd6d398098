"""What limits do to viewers: playbacks of which players tell, beside the segments that were sent for them. [Flach16 §4.3, figure 9]"""

from __future__ import annotations

import ipaddress
import os
from typing import TYPE_CHECKING

from ._distributions import distributions
from ._errors import reason
from ._shares import shares

if TYPE_CHECKING:
    import polars as pl

    from ._rows import Rows

#: A playback is of a class if one of its segments had such a goodput, in bit/s, [Flach16 §4.3]
CLASSES = [300_000, 1_500_000, 3_000_000]
#: up to this share of it.
NEAR = 0.15
#: What a log must have of each playback. `client_port` is optional.
_COLUMNS = ["client_address", "start_s", "rebuffer_s", "watch_s", "join_s"]
#: As `_shares.PARTS`: a playback is policed if one of its segments in the class is.
PARTS: dict[str, tuple[str, bool | None, str | None]] = {
    "all": ("weight", None, None),
    "policed": ("weight", True, None),
    "stalled_policed": ("weight", True, "stalled"),
    "unpoliced": ("weight", False, None),
    "stalled_unpoliced": ("weight", False, "stalled"),
}
#: As `_shares.SHARES`.
SHARES = {
    "policed_share": ("policed", "all"),
    "rebuffering_share_policed": ("stalled_policed", "policed"),
    "rebuffering_share_not_policed": ("stalled_unpoliced", "unpoliced"),
}
#: As `_distributions.MEASURES`.
MEASURES = {
    "rebuffering_ratio_policed": (True, "rebuffering_ratio"),
    "rebuffering_ratio_not_policed": (False, "rebuffering_ratio"),
    "join_policed_s": (True, "join_s"),
    "join_not_policed_s": (False, "join_s"),
}


def read(log: str | os.PathLike[str] | pl.DataFrame) -> pl.DataFrame:
    """A log of players: CSV with a line of names, Parquet, or a data frame."""
    import polars as pl

    if isinstance(log, pl.DataFrame):
        return normal(log)
    # Texts, as Spark reads them: what they mean is decided in one place.
    csv = str(log).endswith((".csv", ".csv.gz", ".csv.zst"))
    try:
        played = pl.read_csv(log, infer_schema=False) if csv else pl.read_parquet(log)
    except pl.exceptions.PolarsError as problem:
        raise ValueError(f"{os.fspath(log)}: {reason(problem)}") from problem
    return normal(played)


def normal(log: pl.DataFrame) -> pl.DataFrame:
    """Playbacks with addresses as datasets have them, times in microseconds, and the rebuffering ratio. Those that nobody watched are left out."""
    import polars as pl

    missing = [name for name in _COLUMNS if name not in log.columns]
    if missing:
        raise ValueError(f"the log of playbacks has no column {', '.join(missing)}")
    addresses = {text: _packed(text) for text in log["client_address"].unique().to_list() if text is not None}
    begin = _micros(log["start_s"])
    numbers = {name: _numbers(log[name]) for name in ("rebuffer_s", "watch_s", "join_s")}
    port = _numbers(log["client_port"]) if "client_port" in log.columns else pl.Series([None] * len(log), dtype=pl.Float64)
    lasted = pl.sum_horizontal("rebuffer_s", "watch_s", "join_s")
    return (
        pl.DataFrame(numbers | {"begin_us": begin, "playback_port": port.cast(pl.Int64)})
        .with_columns(log["client_address"].replace_strict(addresses, return_dtype=pl.Binary).alias("client_address"))
        .filter(pl.col("watch_s") > 0, pl.col("rebuffer_s") >= 0)
        .drop_nulls(["client_address", "begin_us"])
        .select(
            "client_address",
            "playback_port",
            "begin_us",
            (pl.col("begin_us") + (lasted * 1e6).round().cast(pl.Int64)).alias("end_us"),
            (pl.col("rebuffer_s") / pl.col("watch_s")).alias("rebuffering_ratio"),
            "join_s",
        )
    )


def tables(playbacks: Rows, least: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """By class of goodput: which share of playbacks rebuffered, with intervals; and quantiles of the rebuffering ratio and the join time."""
    import polars as pl

    key, kind = "goodput_class_bps", pl.Int64()
    counted = shares(playbacks.sums([key], PARTS, SHARES), {key: kind}, least, SHARES, {})
    named = counted.drop("segments").rename({"sampled_segments": "playbacks"}).sort(key)
    return named, distributions(playbacks, key, kind, least, MEASURES)


def _packed(text: str) -> bytes:
    """An address, or the first of a prefix, which is what a sampler keeps of it."""
    try:
        address = ipaddress.ip_network(text.strip(), strict=False).network_address
    except ValueError:
        raise ValueError(
            f"the log of playbacks has the client_address {text!r}: write an address such as 192.0.2.7, or a prefix such as 192.0.2.0/24"
        ) from None
    return address.packed if address.version == 6 else ipaddress.IPv6Address(f"::ffff:{address}").packed


def _numbers(values: pl.Series) -> pl.Series:
    import polars as pl

    numbers = values.cast(pl.Float64, strict=False)
    if numbers.null_count() > values.null_count() or numbers.is_infinite().any():
        raise ValueError(f"the log of playbacks has a {values.name} that is no number")
    # Frames of pandas have NaN where a value is missing.
    return numbers.fill_nan(None)


def _micros(times: pl.Series) -> pl.Series:
    """Microseconds since 1970: of times, of seconds, or of texts with either."""
    import polars as pl

    if times.dtype == pl.String and times.cast(pl.Float64, strict=False).null_count() > times.null_count():
        try:
            times = times.str.to_datetime(time_unit="us", time_zone="UTC")
        except pl.exceptions.PolarsError:
            raise ValueError(
                "the log of playbacks has a start_s that is no time: write seconds since 1970, or a time such as 2026-11-22T13:00:00Z"
            ) from None
    return times.dt.timestamp("us") if times.dtype.is_temporal() else (_numbers(times) * 1e6).round().cast(pl.Int64)
