"""The report as one page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ._picture import band, curves
from ._summary import notes

if TYPE_CHECKING:
    import polars as pl

    from ._report import Report

#: Autonomous systems with a section: those with most policed segments.
_MOST_SECTIONS = 50
_DISTRIBUTIONS = {
    "policing_rate_bps": "Policing rates, bit/s",
    "goodput_not_policed_bps": "Goodputs of other segments, bit/s",
    "loss_rate_policed": "Loss rate of policed segments",
    "loss_rate_not_policed": "Loss rate of other segments",
    "capacity_over_policing_rate": "Capacity of the bottleneck over the policing rate",
    "wait_policed_ms": "Wait time of policed segments, ms",
    "wait_not_policed_ms": "Wait time of other segments, ms",
}
_OF_A_NETWORK = {
    "policing_rate_bps": "Policing rates, bit/s",
    "loss_rate_policed": "Loss rate of policed segments",
    "bucket_bytes": "Depth of the bucket, bytes",
}
_STYLE = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:.2em .6em;border-bottom:1px solid #ccc;text-align:right}td span{white-space:nowrap}"
    "td:first-child,th:first-child{text-align:left}svg{margin:1em 1em 0 0}.wide{overflow-x:auto}summary{cursor:pointer}"
)
_NOTE = (
    "Shares and loss rates have intervals of 95 %, which count clients. The policed share is that of segments which the detector "
    "judged policed. The prevalence is what it says of the truth: it is corrected for the detector's errors, and its interval "
    "counts them too. Both are given of all segments and of lossy ones. A value is missing where there are too few clients to say anything. Lossy segments have 15 losses or more. Only data that servers sent counts."
)

_PLAYBACKS = (
    "By the goodput of one of their segments (within 15 %), as their players report. A playback counts as policed if such a segment "
    "was judged policed. Pictures begin at the share of playbacks that never rebuffered."
)


def page(report: Report) -> str:
    pictures = "".join(curves(report.distributions, "region", name, title) for name, title in _DISTRIBUTIONS.items())
    parts = {
        "Regions": _table(report.regions),
        "Distributions by region": pictures,
        "Hours of the day (UTC)": _hours_of_regions(report.hours),
        "Autonomous systems": _table(report.networks),
        "Where policers are prevalent": _sections(report),
        "Countries": _table(report.countries),
    }
    if report.playbacks is not None and report.rebuffering is not None and len(report.playbacks):
        parts["Playbacks"] = _playbacks(report.playbacks, report.rebuffering)
    body = "".join(f"<h2>{escape(title)}</h2>{part}" for title, part in parts.items() if part)
    remarks = "".join(f"<p>{escape(note)}</p>" for note in notes(report))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tidegate: report</title>'
        f"<style>{_STYLE}</style></head><body><h1>Rate limits by network</h1><p>{escape(_NOTE)}</p>{remarks}{body}</body></html>\n"
    )


def _sections(report: Report) -> str:
    """For each autonomous system its rates, and the distributions of figures 11 and 12."""
    import polars as pl

    parts = []
    prevalent = report.clusters["client_asn"].unique()
    chosen = report.networks.filter(report.networks["client_asn"].is_in(prevalent.to_list()))
    policed_segments = pl.col("segments") * pl.col("policed_share")
    for network in chosen.sort(policed_segments, "client_asn", descending=[True, False]).head(_MOST_SECTIONS).iter_rows(named=True):
        asn = network["client_asn"]
        of = report.network_distributions.filter(report.network_distributions["client_asn"] == asn)
        pictures = "".join(curves(of, "client_asn", name, title) for name, title in _OF_A_NETWORK.items())
        rates = _table(report.clusters.filter(report.clusters["client_asn"] == asn).drop("client_asn"))
        hours = _hours(report.network_hours.filter(report.network_hours["client_asn"] == asn), "Hours of the day (UTC)")
        name = escape(f"AS{asn} {network['client_organisation'] or ''}".strip())
        prevalence = network["policed_share"] if network["prevalence"] is None else network["prevalence"]
        share = f"{100 * prevalence:.1f} % of segments policed"
        parts.append(f"<details><summary>{name}: {share}</summary>{rates}{pictures}{hours}</details>")
    return "".join(parts)


def _playbacks(playbacks: pl.DataFrame, rebuffering: pl.DataFrame) -> str:
    """Figure 9: for each goodput, the rebuffering ratios of policed playbacks and of others."""
    import polars as pl

    names = {"rebuffering_ratio_policed": "policed", "rebuffering_ratio_not_policed": "not policed"}
    pictures = ""
    for (rate,), of in rebuffering.group_by("goodput_class_bps", maintain_order=True):
        ratios = of.filter(of["measure"].is_in(list(names)))
        lines = ratios.with_columns(pl.col("measure").replace(names).alias("which"), measure=pl.lit("ratio"))
        pictures += curves(lines, "which", "ratio", f"Time rebuffering over time watching, at {rate / 1e6:g} Mbit/s")
    return f"<p>{escape(_PLAYBACKS)}</p>{_table(playbacks)}{pictures}"


def _hours_of_regions(hours: pl.DataFrame) -> str:
    pictures = (_hours(rows, region) for (region,), rows in hours.group_by("region", maintain_order=True))
    return "".join(pictures) + f"<details><summary>As a table</summary>{_table(hours)}</details>"


def _hours(hours: pl.DataFrame, title: str) -> str:
    return band(hours, "hour", "policed_share", f"{title}: share of segments policed") + band(
        hours, "hour", "loss_rate_not_policed", f"{title}: loss rate of other segments"
    )


def _cell(row: dict[str, object], name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    if isinstance(value, float) and any(kind in name for kind in ("share", "prevalence", "loss_rate")):
        low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
        cell = f"<span>{100 * value:.1f} %</span>"
        if isinstance(low, float) and isinstance(high, float):
            cell += f" <span>({100 * low:.1f} to {100 * high:.1f})</span>"
        return cell
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, int) and name not in ("client_asn", "hour"):
        return f"{value:,}"
    return escape(str(value))


def _table(table: pl.DataFrame) -> str:
    """A share and its interval are one cell."""
    names = [name for name in table.columns if not name.endswith(("_low", "_high"))]
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in names)
    rows = (
        "<tr>" + "".join(f"<td>{_cell(row, name)}</td>" for name in names) + "</tr>" for row in table.iter_rows(named=True)
    )
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
