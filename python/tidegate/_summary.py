"""The report as text for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._playback import CLASSES, NEAR

if TYPE_CHECKING:
    import polars as pl

    from ._report import Report

#: Autonomous systems that are shown: those with most segments.
_MOST_NETWORKS = 20


def summary(report: Report) -> str:
    """Table 2 by region and by autonomous system, and the rates of policers."""
    if not len(report.regions):
        return "\n\n".join(notes(report))
    rates: dict[int, list[str]] = {}
    for cluster in report.clusters.iter_rows(named=True):
        rates.setdefault(cluster["client_asn"], []).append(f"{cluster['rate_bps'] / 1e6:.3g}")
    shown = report.networks.head(_MOST_NETWORKS)
    names = [
        f"AS{row['client_asn']} {row['client_organisation'] or ''}".strip() if row["client_asn"] is not None else "unknown"
        for row in shown.iter_rows(named=True)
    ]
    plans = [", ".join(rates.get(asn, [])) for asn in shown["client_asn"].to_list()]
    regions = _lines("REGION", report.regions["region"].to_list(), report.regions)
    networks = _lines("AS", names, shown, ("POLICING RATES, MBIT/S", plans))
    parts = [regions, networks]
    if report.playbacks is not None and report.rebuffering is not None and len(report.playbacks):
        parts.append(_viewed(report.playbacks, report.rebuffering))
    return "\n\n".join([*parts, *notes(report)])


def notes(report: Report) -> list[str]:
    """What the tables leave out, and why."""
    return [note for note in (_no_rows(report), _few_clients(report), _no_playbacks(report)) if note]


def _no_rows(report: Report) -> str:
    """That the tables are empty, if they are."""
    return "" if len(report.regions) else "The dataset has no rows, or none in these days."


def _few_clients(report: Report) -> str:
    """Why groups have no shares, if there are such groups."""
    counts = [*report.regions["clients"], *report.networks["clients"]]
    few = sum(count < report.least_clients for count in counts)
    if not few:
        return ""
    return (
        f"{few} of {len(counts)} groups have fewer than {report.least_clients} clients, and counts only: intervals of few clients say little. "
        "least_clients of tidegate.report, or --least-clients of python -m tidegate report, changes this number."
    )


def _no_playbacks(report: Report) -> str:
    """Why nothing is said of playbacks, if there was a log of them."""
    if report.playbacks is None or len(report.playbacks):
        return ""
    classes = " or ".join(f"{rate / 1e6:g}" for rate in CLASSES)
    return (
        f"No playback of the log belongs to a segment with a goodput within {100 * NEAR:.0f} % of {classes} Mbit/s. A segment belongs to a playback "
        "if its client has the same address, and it began during it: compare the addresses (a sampler may have hidden them), and the time zone of start_s."
    )


def _viewed(playbacks: pl.DataFrame, rebuffering: pl.DataFrame) -> str:
    """Figure 9: which share of playbacks rebuffered, and for which share of the time they watched, in the 90th percentile."""
    high = {(row["goodput_class_bps"], row["measure"]): row["value"] for row in rebuffering.iter_rows(named=True) if row["quantile"] == 0.9}
    classes = playbacks["goodput_class_bps"].to_list()

    def ratios(measure: str) -> list[str]:
        return [f"{100 * high[rate, measure]:.1f} %" if (rate, measure) in high else "-" for rate in classes]

    return _aligned(
        [
            ["PLAYBACKS AT", *[f"{rate / 1e6:g} Mbit/s" for rate in classes]],
            ["CLIENTS", *[f"{count:,}" for count in playbacks["clients"]]],
            ["PLAYBACKS", *[f"{count:,}" for count in playbacks["playbacks"]]],
            ["REBUFFERED IF POLICED", *_shares(playbacks, "rebuffering_share_policed")],
            ["IF NOT", *_shares(playbacks, "rebuffering_share_not_policed")],
            ["RATIO (90TH) IF POLICED", *ratios("rebuffering_ratio_policed")],
            ["IF NOT", *ratios("rebuffering_ratio_not_policed")],
        ]
    )


def _lines(kind: str, names: list[str], table: pl.DataFrame, last: tuple[str, list[str]] | None = None) -> str:
    # Only one of two shares has its interval in a line, so that lines are no longer than need be.
    judged, judged_of_lossy = (
        _shares(table, f"policed_share{of}", ends=table[f"prevalence{of}"].is_null().all()) for of in ("", "_of_lossy")
    )
    columns = [
        [kind, *names],
        ["CLIENTS", *[f"{count:,}" for count in table["clients"]]],
        ["SEGMENTS", *[f"{count:,}" for count in table["segments"]]],
        ["POLICED", *_shares(table, "prevalence")],
        ["OF LOSSY", *_shares(table, "prevalence_of_lossy")],
        ["JUDGED SO", *judged],
        ["OF LOSSY", *judged_of_lossy],
        ["LOSS IF POLICED", *_shares(table, "loss_rate_policed")],
        ["LOSS IF NOT", *_shares(table, "loss_rate_not_policed")],
    ]
    if last is not None:
        columns.append([last[0], *last[1]])
    return _aligned(columns)


def _aligned(columns: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in columns]
    rows = zip(*columns, strict=True)
    aligned = (
        "  ".join(
            text.ljust(width) if place == 0 or column[0].startswith("POLICING") else text.rjust(width)
            for place, (text, width, column) in enumerate(zip(row, widths, columns, strict=True))
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in aligned)


def _shares(table: pl.DataFrame, name: str, *, ends: bool = True) -> list[str]:
    """Shares, with the ends of their intervals if these are wanted."""
    values: list[tuple[Any, Any, Any]] = list(table.select(name, f"{name}_low", f"{name}_high").iter_rows())

    def shown(share: float, low: float, high: float) -> str:
        return f"{100 * share:.1f} %" + (f" ({100 * low:.1f} to {100 * high:.1f})" if ends else "")

    return ["-" if share is None else shown(share, low, high) for share, low, high in values]
