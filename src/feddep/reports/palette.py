"""The look of each method: the same colour, marker and dashes in every plot.

Colours differ in lightness as well as in hue and have a contrast of 3 : 1 or more to white; where a
colour-blind reader might confuse two, their markers differ.
"""

from dataclasses import dataclass, replace

INK = "#222222"
"""Of texts, and of marks that stand for no method."""


@dataclass(frozen=True)
class Style:
    """How a series is drawn.

    Attributes:
        colour: of line and marker.
        marker: a name in :data:`MARKERS`.
        dash: lengths of dashes and gaps, empty for a solid line.
        hollow: only the marker's outline.
    """

    colour: str = INK
    marker: str = "circle"
    dash: str = ""
    hollow: bool = False


# Paths around the origin, about 8 units wide.
MARKERS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z",
    "square": "M-3.6 -3.6h7.2v7.2h-7.2Z",
    "diamond": "M0 -5l5 5l-5 5l-5 -5Z",
    "up": "M0 -4.8l4.6 8.2h-9.2Z",
    "down": "M0 4.8l4.6 -8.2h-9.2Z",
    "bar": "M-1.6 -5h3.2v10h-3.2Z",
}

_METHODS = {
    "global": Style("#000000", "square", "6 3"),
    "local": Style("#7f7f7f", "diamond"),
    "fedavg": Style("#0072b2", "circle"),
    "fedavg-warm": Style("#4a90c2", "circle", "5 2"),
    "fedsage": Style("#00805d", "square"),
    "fedgnn": Style("#332288", "up"),
    "fedgnn-update": Style("#7a6bc0", "up", "5 2"),
    "fedgraph": Style("#2592b5", "down"),
    "fedgsl": Style("#8a7a00", "diamond"),
    "feddep-wo-dgen": Style("#b07d00", "down", "5 2"),
    "feddep-wo-proto": Style("#882255", "square", "5 2"),
    "feddep-wo-nfdp": Style("#d9527a", "up", "5 2"),
    "feddep": Style("#c44e00", "circle"),
    "oracle": Style("#9b3f97", "diamond", "6 3"),
    "feddep-linked": Style("#a3170f", "up"),
    "linked-nodes": Style("#c2413a", "square"),
    "linked-cells": Style("#8c5a2b", "diamond", "5 2"),
    "linked-features": Style("#6b4226", "down"),
    "fedgcn": Style("#3f7d20", "bar"),
    "fedgraph-linked": Style("#1d6f8a", "down", "5 2"),
    "linked-oracle": Style("#75307a", "diamond", "2 2"),
}
_SOMEBODY_S_OWN = Style("#5b6470", "bar")
_MECHANISMS = {
    "randomised-response": Style(),
    "aggregation-perturbation": Style(dash="9 3 3 3", marker="up"),
    "none": Style(dash="1 3", marker="bar"),
    "nfdp": Style(dash="7 3", marker="diamond"),
    "one-shot": Style(dash="7 3 1 3", marker="square"),
    "dp-sgd": Style(dash="3 3", marker="down"),
}


def style_of(method: str) -> Style:
    """A method's look; users' own methods share one."""
    return _METHODS.get(method, _SOMEBODY_S_OWN)


def style_of_mechanism(mechanism: str, method: str) -> Style:
    """The colour shows the method, dashes and marker the mechanism."""
    return replace(_MECHANISMS.get(mechanism, Style()), colour=style_of(method).colour)
