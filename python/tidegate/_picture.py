"""The pictures of the report, as SVG."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

#: Colours that people with any colour vision can tell apart. (Okabe and Ito, 2008)
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
_WIDTH, _HEIGHT, _MARGIN = 520, 260, 40


def curves(distributions: pl.DataFrame, key: str, measure: str, title: str) -> str:
    """The cumulative distribution of a measure in each group."""
    chosen = distributions.filter((distributions["measure"] == measure) & (distributions["value"] > 0))
    if chosen.is_empty():
        return ""
    low = math.log10(_least(chosen["value"]))
    high = max(math.log10(_most(chosen["value"])), low + 0.1)

    def across(value: float) -> float:
        return _MARGIN + (math.log10(value) - low) / (high - low) * (_WIDTH - 2 * _MARGIN)

    parts = []
    for decade in range(math.floor(low), math.ceil(high) + 1):
        for factor in (1, 2, 5) if high - low < 1.5 else (1,):
            value = factor * 10.0**decade
            if low <= math.log10(value) <= high:
                parts.append(f'<path d="M{across(value):.1f} {_up(0)}V{_up(1)}" stroke="#ddd"/>')
                parts.append(_text(across(value), _up(0) + 15, _short(value), "middle"))
    for number, ((group,), rows) in enumerate(chosen.group_by(key, maintain_order=True)):
        colour = _COLOURS[number % len(_COLOURS)]
        # Groups that share a colour have lines of another kind.
        dashes = f' stroke-dasharray="{6 if number < 2 * len(_COLOURS) else 2} 3"' if number >= len(_COLOURS) else ""
        points = " ".join(
            f"{across(value):.1f},{_up(share):.1f}" for share, value in rows.select("quantile", "value").iter_rows()
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes}/>')
        if key != "client_asn":
            y = _up(1) + 12 * (number + 1)
            parts.append(f'<path d="M{_MARGIN + 4} {y - 4}h16" stroke="{colour}" stroke-width="1.5"{dashes}/>')
            parts.append(f'<text x="{_MARGIN + 24}" y="{y}" fill="{colour}">{escape(str(group))}</text>')
    return _framed(title, [_text(_MARGIN - 6, _up(1) + 4, "1", "end"), _text(_MARGIN - 6, _up(0), "0", "end"), *parts])


def band(rows: pl.DataFrame, across: str, name: str, title: str) -> str:
    """A share with its interval, over hours of the day."""
    known = rows.drop_nulls(name)
    if len(known) < 2:
        return ""
    top = max(_most(known[f"{name}_high"]), 1e-6)

    def point(hour: int, value: float) -> str:
        return f"{_MARGIN + hour / 23 * (_WIDTH - 2 * _MARGIN):.1f},{_up(value / top):.1f}"

    hours = known[across].to_list()
    low, middle, high = (
        [point(hour, value) for hour, value in zip(hours, known[column], strict=True)]
        for column in (f"{name}_low", name, f"{name}_high")
    )
    parts = [
        _text(_MARGIN - 4, _up(1) + 4, f"{100 * top:.3g} %", "end"),
        *[_text(_MARGIN + hour / 23 * (_WIDTH - 2 * _MARGIN), _up(0) + 15, str(hour), "middle") for hour in (0, 6, 12, 18, 23)],
        f'<polygon points="{" ".join(low + high[::-1])}" fill="{_COLOURS[0]}" fill-opacity="0.2"/>',
        f'<polyline points="{" ".join(middle)}" fill="none" stroke="{_COLOURS[0]}" stroke-width="1.5"/>',
    ]
    return _framed(title, parts)


def _up(share: float) -> float:
    return _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _short(value: float) -> str:
    """A number with k, M or G."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power:
            return f"{value / 10**power:g}{letter}"
    return f"{value:g}"


def _framed(title: str, parts: list[str]) -> str:
    frame = f'<path d="M{_MARGIN} {_up(1)}V{_up(0)}H{_WIDTH - _MARGIN}" fill="none" stroke="#888"/>'
    name = f'<text x="{_MARGIN}" y="20" font-weight="bold">{escape(title)}</text>'
    inside = name + frame + "".join(parts)
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" font-size="11" role="img" aria-label="{escape(title)}">{inside}</svg>'


def _least(values: pl.Series) -> float:
    least: Any = values.min()
    return float(least)


def _most(values: pl.Series) -> float:
    most: Any = values.max()
    return float(most)
