"""What noised edges are worth: accuracy beyond that of the best classifier that knows no edge.

Training without edges promises everything, so a mechanism that costs some ε has to do better. Runs
without edges are those of randomised response that keeps next to none; of several methods, the one
with the highest mean counts, in each data set its own.
"""

import statistics
from collections.abc import Mapping
from typing import Any

from feddep.reports.formatting import marked
from feddep.reports.summary import Rows, score_of, spread
from feddep.reports.table import Table
from feddep_study.statistics.paired import Difference

_NEXT_TO_NONE = 1e-5
_NOTE = (
    "Test accuracy on silos' own nodes. The difference is paired by seed, with a 95% interval, to "
    "training without edges: of the two methods of that line, the one with the higher mean."
)

_Scores = dict[int, float]
"""By seed."""


def beyond_no_edges(rows: Rows) -> Table:
    """A line for each data set, mechanism and ε."""
    groups: dict[tuple[str, ...], _Scores] = {}
    yardsticks: dict[str, dict[str, _Scores]] = {}
    for settings, record in rows:
        score, seed = score_of(record, "silo"), record["seed"]
        if _knows_no_edge(settings):
            own = yardsticks.setdefault(record["dataset"], {})
            own.setdefault(record["method"], {})[seed] = score
        groups.setdefault(_facts(settings, record), {})[seed] = score
    best = {data: max(own.values(), key=_mean) for data, own in yardsticks.items()}
    lines = [
        (
            *facts,
            spread([*scores.values()]),
            _difference(scores, best.get(facts[0], {})),
            str(len(scores)),
        )
        for facts, scores in groups.items()
    ]
    headings = ("dataset", "method", "mechanism", "hidden", "ε", "silo test")
    return Table((*headings, "beyond no edges, in points", "seeds"), lines, (_NOTE,))


def _knows_no_edge(settings: Mapping[str, Any]) -> bool:
    return 0 < float(settings.get("privacy.keep_edge", 0)) <= _NEXT_TO_NONE


def _facts(settings: Mapping[str, Any], record: Mapping[str, Any]) -> tuple[str, ...]:
    about = (record["dataset"], marked(record["method"]))
    if _knows_no_edge(settings):
        return (*about, "without edges", "all edges", "0")
    mechanism = str(settings.get("privacy.mechanism", "nfdp"))
    if "privacy.epsilon" not in settings:
        return (*about, mechanism, "nothing", "–")
    edges = settings.get("privacy.max_degree", 1)
    hidden = "one edge" if edges == 1 else f"{edges} edges of a node"
    return (*about, mechanism, hidden, f"{settings['privacy.epsilon']:g}")


def _mean(scores: _Scores) -> float:
    return statistics.fmean(scores.values())


def _difference(scores: _Scores, yardstick: _Scores) -> str:
    both = sorted(scores.keys() & yardstick.keys())
    if not both or scores == yardstick:
        return "–"
    return str(Difference.of([scores[seed] - yardstick[seed] for seed in both]))
