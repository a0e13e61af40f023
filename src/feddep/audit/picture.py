"""The audit as a picture: what the attackers see, and the bound beside the claim."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from feddep.audit.findings import FEW_FALSE, Curve

_LEAST_RATE = 1e-3


def draw(found: Mapping[str, Any], curves: Mapping[str, Curve], path: Path) -> None:
    """Writes a PNG: ROC of every attack on the left, lower bounds and claim on the right."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    FigureCanvasAgg(figure)  # needs no screen
    left, right = figure.subplots(1, 2)
    _draw_curves(left, found, curves)
    _draw_bounds(right, found)
    figure.suptitle(str(found.get("title", "audit")))
    figure.savefig(path, format="png", dpi=150)


def _draw_curves(axes: Axes, found: Mapping[str, Any], curves: Mapping[str, Curve]) -> None:
    rates = np.geomspace(_LEAST_RATE, 1, 400)  # a straight piece of a curve is bent on this axis
    for name, curve in curves.items():
        label = f"{name} (AUC {found['attacks'][name]['auc']:.2f})"
        axes.plot(rates, np.interp(rates, curve.false, curve.true), label=label)
    axes.plot(rates, rates, color="grey", linestyle=":", label="chance")
    axes.axvline(FEW_FALSE, color="grey", linewidth=0.5)
    axes.set(xscale="log", xlabel="false positives", ylabel="true positives")
    axes.set(xlim=(_LEAST_RATE, 1), ylim=(0, 1.02), title="who finds the canaries")
    axes.legend(loc="upper left", fontsize="small")


def _draw_bounds(axes: Axes, found: Mapping[str, Any]) -> None:
    names = list(found["attacks"])
    bounds = [found["attacks"][name]["bound"] for name in names]
    bars = axes.bar(names, bounds, width=0.5)
    axes.bar_label(bars, fmt="%.2f", label_type="center")
    axes.axhline(found["provable"], color="grey", linestyle=":", label="most that can be proved")
    claim = found["claim"]["epsilon"]
    if claim is not None:
        axes.axhline(claim, color="tab:red", label=f"claim: ε ≤ {claim:g}")
    title = "lower bound on ε" + (" (nothing is claimed)" if claim is None else " and claim")
    axes.set(ylabel="ε", title=title, ylim=(0, 1.15 * max(found["provable"], claim or 0, 0.1)))
    axes.legend(fontsize="small")
