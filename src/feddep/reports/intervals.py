"""A figure of differences with their intervals, one row for each."""

from collections.abc import Sequence
from html import escape

_ROW, _LEFT, _WIDTH, _RIGHT = 26, 170, 420, 130


def intervals_svg(rows: Sequence[tuple[str, float, float, float]], label: str) -> str:
    """Dots with lines beside a vertical line at 0.

    Args:
        rows: name, value, lower and upper end; the last one is drawn bold.
        label: what the axis shows.
    """
    low = min(0.0, *(row[2] for row in rows))
    high = max(0.0, *(row[3] for row in rows))
    scale = _WIDTH / (high - low or 1.0)

    def place(value: float) -> float:
        return round(_LEFT + (value - low) * scale, 1)

    height = _ROW * (len(rows) + 1) + 24
    parts = [
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {height}" role="img" '
        f'aria-label="{escape(label)}" style="max-width:{_LEFT + _WIDTH + _RIGHT}px;width:100%" '
        'font-size="13" font-family="inherit">',
        f'<line x1="{place(0)}" x2="{place(0)}" y1="4" y2="{_ROW * len(rows) + 8}" '
        'stroke="#888888" stroke-dasharray="3 3"/>',
    ]
    for number, (name, value, start, end) in enumerate(rows):
        y = _ROW * number + 18
        last = number == len(rows) - 1
        colour = "#00558a" if start > 0 else "#a03000" if end < 0 else "#666666"
        weight = ' font-weight="600"' if last else ""
        parts += [
            f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end"{weight}>{escape(name)}</text>',
            f'<line x1="{place(start)}" x2="{place(end)}" y1="{y}" y2="{y}" stroke="{colour}" '
            f'stroke-width="{4 if last else 2}"/>',
            f'<circle cx="{place(value)}" cy="{y}" r="5" fill="{colour}"/>',
            f'<text x="{_LEFT + _WIDTH + 12}" y="{y + 4}"{weight}>{_signed(value)}</text>',
        ]
    y = _ROW * len(rows) + 24
    parts += [
        f'<text x="{place(0)}" y="{y}" text-anchor="middle">0</text>',
        f'<text x="{_LEFT}" y="{y + 18}">{escape(label)}</text>',
        "</svg>",
    ]
    return "".join(parts)


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
