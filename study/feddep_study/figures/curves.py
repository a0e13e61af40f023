"""Training curves: accuracy, loss and time over the rounds."""

import statistics
from collections.abc import Iterator, Mapping, Sequence

from feddep.reports.charts import Axis, Figure, Panel, Point, Series
from feddep.reports.formatting import marked
from feddep.reports.palette import style_of
from feddep.reports.summary import by_setting
from feddep.sweeps.sweep import History
from feddep_study.figures.accuracy import ACCURACY, ZOOM, method_keys
from feddep_study.paper_tables import in_order
from feddep_study.source import Source, shared_settings, title_of


def curves_figure(source: Source) -> Iterator[Figure]:
    """Accuracy, loss and seconds over the rounds, and accuracy over seconds; means over seeds."""
    rows = source.rows_with_histories
    if not rows:
        return
    names, panels = shared_settings(rows), list[Panel]()
    for group in by_setting(rows, names).values():
        by_method: dict[str, list[History]] = {}
        for _, record in group:
            by_method.setdefault(record["method"], []).append(record["history"])
        settings = group[0][0]
        title = title_of(settings, names) or str(settings.get("dataset", source.name))
        means = {method: mean_history(by_method[method]) for method in in_order(by_method)}
        panels += curve_panels(title, means)
    yield Figure(
        "curves",
        "Training curves",
        panels,
        method_keys(record["method"] for _, record in rows),
        f"Means over seeds. {ZOOM}",
    )


def curve_panels(title: str, histories: Mapping[str, History]) -> list[Panel]:
    """The four panels about some methods' histories."""
    what = [
        ("accuracy by round", "round", "global_test", "round", ACCURACY),
        ("loss by round", "round", "loss", "round", "training loss (cross-entropy)"),
        ("time by round", "round", "seconds", "round", "seconds so far"),
        ("accuracy by time", "seconds", "global_test", "seconds so far", ACCURACY),
    ]
    panels = list[Panel]()
    for name, x, y, x_label, y_label in what:
        series = [
            Series((method,), _curve(history, x, y, marked(method)), style_of(method), marks=False)
            for method, history in histories.items()
        ]
        panels.append(Panel(f"{title}: {name}", Axis(x_label), Axis(y_label), series))
    return panels


def mean_history(histories: Sequence[History]) -> History:
    """Means over the seeds, as far as all of them go."""
    length = min(len(history["round"]) for history in histories)
    return {
        name: [_mean_or_none([history[name][i] for history in histories]) for i in range(length)]
        for name in histories[0]
    }


def _curve(history: History, x: str, y: str, name: str) -> list[Point]:
    found = []
    for number, across, up in zip(history["round"], history[x], history[y], strict=True):
        if number is not None and across is not None and up is not None:
            found.append(Point(across, up, f"{name}, round {number:g}: {up:.4g}"))
    return found


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None
