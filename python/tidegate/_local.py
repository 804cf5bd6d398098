"""Rows of a dataset on this machine, and what reports need of them, by polars."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _playback
from ._distributions import STEPS, reached
from ._networks import PATTERNS, cluster, median, most_frequent, spread
from ._rows import COUNTRY_OF_ITS_REGION, KNOWN, LOSSY, MAPPED, NUMBERS, PREFIX_BYTES, REGIONS, key_types
from ._shares import SCALE, Sums

if TYPE_CHECKING:
    import polars as pl


class LocalRows:
    """See `_rows.Rows`."""

    def __init__(self, rows: pl.LazyFrame) -> None:
        self._rows = rows

    @classmethod
    def of_dataset(cls, parts: list[pl.LazyFrame]) -> LocalRows:
        """Takes rows with the columns of a dataset, in parts whose types may differ."""
        import polars as pl

        return cls(pl.concat([part.filter(~_column("from_client")).select(*_needed()) for part in parts]))

    def where(self, test: pl.Expr) -> LocalRows:
        """A part of the rows."""
        return LocalRows(self._rows.filter(test))

    def detectors(self) -> set[str]:
        return set(self._rows.select("detector").unique().collect(engine="streaming")["detector"])

    def of_networks(self, numbers: list[int]) -> LocalRows:
        return self.where(_column("client_asn").is_in(numbers))

    def playbacks(self, log: str | os.PathLike[str] | pl.DataFrame) -> LocalRows:
        import polars as pl

        goodput, near = pl.col("goodput_bps"), _playback.NEAR
        classes = [pl.when((goodput - rate).abs() <= near * rate).then(pl.lit(rate, pl.Int64)) for rate in _playback.CLASSES]
        segments = self._rows.select("client", "client_address", "client_port", "sent_us", "policed", goodput_class_bps=pl.coalesce(classes))
        played = _playback.read(log)
        together = segments.drop_nulls("goodput_class_bps").join(played.lazy(), on="client_address").filter(
            pl.col("sent_us").is_between("begin_us", "end_us"),
            pl.col("playback_port").is_null() | (pl.col("playback_port") == pl.col("client_port")),
        )
        return LocalRows(
            together.group_by("goodput_class_bps", "client", *played.columns)
            .agg(pl.col("policed").any())
            .with_columns(pl.lit(SCALE, pl.Int128).alias("weight"), (pl.col("rebuffering_ratio") > 0).alias("stalled"))
        )

    def sums(
        self, keys: list[str], parts: dict[str, tuple[str, bool | None, str | None]], shares: dict[str, tuple[str, str]]
    ) -> Iterator[dict[str, Any]]:
        import polars as pl

        clients = (
            self._rows.group_by([*keys, "client"])
            .agg(*[_part(*part).sum().alias(name) for name, part in parts.items()], pl.len().alias("sampled_segments"))
            .collect(engine="streaming")
        )
        most = max((clients[whole].max() or 0 for _, whole in shares.values()), default=0)
        # Polars would go on with wrong numbers.
        if most**2 * len(clients) >= 2**127:
            raise ValueError(
                "sampled_fraction is so small, for so many segments, that their sums have more than 128 bits: "
                "report fewer days, or analyse the captures again with the share that was sampled"
            )
        columns = []
        for name, (part_name, whole_name) in shares.items():
            part, whole = pl.col(part_name), pl.col(whole_name)
            terms = [(whole > 0), part, whole, part * part, part * whole, whole * whole]
            columns += [term.sum().alias(f"{name} {field}") for field, term in zip(Sums._fields, terms, strict=True)]
        groups = clients.group_by(keys).agg(
            pl.len().alias("clients"),
            pl.col("sampled_segments").cast(pl.UInt64).sum(),
            pl.col("all").sum().alias("whole"),
            *columns,
        )
        for group in groups.rename({"whole": "all"}).iter_rows(named=True):
            yield group | {name: Sums(*(group[f"{name} {field}"] for field in Sums._fields)) for name in shares}

    def traits(self) -> pl.DataFrame:
        import polars as pl

        policed, weight = pl.col("policed"), pl.col("weight")
        of_policed = weight.filter(policed)
        table = self._rows.group_by("client_asn").agg(
            median("rtt_median_ms").alias("rtt_median_ms"),
            median("limit_rate_bps", policed).alias("limit_rate_bps"),
            median("limit_depth_bytes", policed).alias("limit_depth_bytes"),
            of_policed.sum().alias("policed"),
            (pl.col("rate_known").fill_null(False).filter(policed) * of_policed).sum().alias("rate_known"),
            *[((pl.col("pattern") == name).fill_null(False).filter(policed) * of_policed).sum().alias(name) for name in PATTERNS],
        )
        return table.collect(engine="streaming")

    def most(self, column: str) -> pl.DataFrame:
        import polars as pl

        counts = self._rows.drop_nulls(column).group_by("client_asn", column).agg(pl.len().alias("count"))
        return most_frequent(counts.collect(engine="streaming"), column)

    def quantiles(
        self, key: str, measures: dict[str, tuple[bool, str]]
    ) -> tuple[dict[tuple[Any, str], int], list[tuple[Any, str, int, float]]]:
        import polars as pl

        clients, values = {}, []
        for name, (policed, column) in measures.items():
            rows = self._rows.filter(pl.col("policed") == policed).select(key, "client", "weight", value=column)
            known = rows.drop_nulls().sort("value").collect(engine="streaming")
            for (group,), samples in known.group_by(key, maintain_order=True):
                clients[group, name] = samples["client"].n_unique()
                wanted = pl.Series(reached(samples["weight"].sum()), dtype=pl.Int128)
                places = samples["weight"].cum_sum().search_sorted(wanted, side="left")
                found = samples["value"].gather(places).to_list()
                values += [(group, name, step, value) for step, value in zip(STEPS, found, strict=True)]
        return clients, values

    def clusters(self, least: int) -> pl.DataFrame:
        import polars as pl

        columns = ["client_asn", "client", "weight", "limit_rate_bps", "loss_rate", "limit_depth_bytes", "pattern"]
        known = self._rows.filter("policed", "rate_known").select(columns).collect(engine="streaming")
        return pl.concat([cluster(known.clear(), least), *(cluster(of, least) for _, of in known.group_by("client_asn"))])

    def spreads(self, least: int) -> list[tuple[int | None, bool, int]]:
        import polars as pl

        rate = pl.when("policed").then("limit_rate_bps").otherwise("goodput_bps")
        chosen = self._rows.filter(pl.col("rate_known") | ~pl.col("policed"))
        rows = chosen.select("client_asn", "client", "policed", "weight", rate=rate).drop_nulls()
        found = []
        for (asn, policed), of in rows.collect(engine="streaming").group_by("client_asn", "policed"):
            many = spread(of, least)
            if many is not None:
                found.append((asn, policed, many))
        return found


def _column(name: str) -> pl.Expr:
    import polars as pl

    return pl.col(name)


def _part(column: str, policed: bool | None, mark: str | None) -> pl.Expr:
    """A term of `_shares.PARTS`."""
    term = _column(column)
    if policed is not None:
        term = term * (_column("policed") if policed else ~_column("policed"))
    return term if mark is None else term * _column(mark)


def _needed() -> list[pl.Expr]:
    import polars as pl

    region = (
        pl.when(pl.col("client_country") == COUNTRY_OF_ITS_REGION[0])
        .then(pl.lit(COUNTRY_OF_ITS_REGION[1]))
        .otherwise(pl.col("client_continent").replace_strict(REGIONS, default=None, return_dtype=pl.String))
        .fill_null("unknown")
    )
    weight = SCALE / pl.col("sampled_fraction")
    of_policer = pl.col("policer_rate_bps").cast(pl.Float64)
    address = _column("client_address").cast(pl.Binary)
    return [
        region.alias("region"),
        *[pl.col(name).cast(kind) for name, kind in key_types().items() if name != "region"],
        pl.when(address.bin.starts_with(MAPPED)).then(address).otherwise(address.bin.head(PREFIX_BYTES)).alias("client"),
        address,
        _column("receiver_port").cast(pl.Int64).alias("client_port"),
        _column("start_s").dt.timestamp("us").alias("sent_us"),
        *[pl.col(name).cast(pl.String) for name in ("detector", "pattern")],
        pl.col("policed_any").alias("policed"),
        (pl.col("limit_rate_high_bps") <= KNOWN * pl.col("limit_rate_low_bps")).alias("rate_known"),
        (pl.col("lost_packets") >= LOSSY).alias("lossy"),
        # Wide enough for their sums.
        (weight + 0.5).floor().cast(pl.Int128).alias("weight"),
        (weight * pl.col("loss_rate") + 0.5).floor().cast(pl.Int128).alias("weighted_loss"),
        pl.when(of_policer > 0).then(pl.col("capacity_bps") / of_policer).alias("capacity_over_rate"),
        *[pl.col(name).cast(pl.Float64) for name in NUMBERS],
    ]
