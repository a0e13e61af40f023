"""What claims are about: accuracies, bytes and seconds of the runs of one setting and seed."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from feddep.phases.averaging import Averaging
from feddep.phases.neighgen import NeighGenTraining
from feddep.reports.costs import phase_bytes
from feddep.reports.summary import score_of
from feddep.runs.files import Record
from feddep_study.claims.evidence import Case, Measure

KEYS = {"C": "embedding.clusters", "L": "embedding.depth", "M": "partition.clients"}
CONVERGED = 0.95

_CLASSES = {"cora": 7, "citeseer": 6, "pubmed": 3, "msacademic": 15}
_CLUSTERS = (3, 5, 10, 15, 20)


@dataclass(frozen=True)
class Score:
    """An accuracy, in symbols and as it is taken from a case."""

    text: str
    of: Callable[[Case], float]


def of(method: str) -> Score:
    """The accuracy of a method."""
    return Score(method, lambda case: case.accuracy(method))


def feddep_with(symbol: str, *values: int) -> Score:
    """FedDEP's mean accuracy over some values of a setting."""
    key, text = KEYS[symbol], f"({symbol} = {', '.join(map(str, values))})"
    return Score(
        text if len(values) == 1 else f"mean{text}",
        lambda case: statistics.fmean(case.accuracy("feddep", {key: value}) for value in values),
    )


def less(one: Score, other: Score) -> Measure:
    """One score less another."""
    return Measure(f"{one.text} − {other.text}", lambda case: one.of(case) - other.of(case))


def lead(method: str, other: str) -> Measure:
    """By how much a method is ahead of another."""
    return less(of(method), of(other))


def growth(method: str, other: str) -> Measure:
    """By how much the lead is larger with 10 clients, who lose more edges, than with 3."""

    def lead_with(case: Case, clients: int) -> float:
        where = {KEYS["M"]: clients}
        return case.accuracy(method, where) - case.accuracy(other, where)

    return Measure(
        f"({method} − {other}), M = 10 less M = 3",
        lambda case: lead_with(case, 10) - lead_with(case, 3),
    )


def closest_clusters(case: Case) -> float:
    """FedDEP with the C closest to the number of classes, less its mean over the other C."""
    classes = _CLASSES[case.rows[0][0]["dataset"]]
    closest = min(_CLUSTERS, key=lambda clusters: abs(clusters - classes))
    others = [clusters for clusters in _CLUSTERS if clusters != closest]
    return less(feddep_with("C", closest), feddep_with("C", *others)).of(case)


def proper_clusters(case: Case) -> float:
    """FedDEP with the C that is best on the silos' validation nodes, less FedAvg."""
    runs = [case.record("feddep", {KEYS["C"]: clusters}) for clusters in _CLUSTERS]
    best = max(runs, key=lambda record: float(record["scores"]["silo"]["val"]))
    return score_of(best) - case.accuracy("fedavg")


Amount = Callable[[Record], float]


def more_bytes(what: str, method: str, other: str, amount: Amount) -> Measure:
    """How many more bytes a method sends than another, in per cent."""
    return replace(_more(what, method, other, amount, amount), exact=True)


def beside_generators(what: str, method: str, *phases: str) -> Measure:
    """How many more bytes a method sends in some phases than FedSage to train its generators."""
    theirs = _bytes_in(NeighGenTraining.name)
    return replace(_more(what, method, "fedsage", _bytes_in(*phases), theirs), exact=True)


def more_time(what: str, method: str, other: str, amount: Amount) -> Measure:
    """How much more time a method takes than another, in per cent; both must have run alone."""
    return replace(_more(what, method, other, amount, amount), clocked=(method, other))


def _more(what: str, method: str, other: str, amount: Amount, theirs: Amount) -> Measure:
    return Measure(
        f"{what}, {method} ÷ {other} − 1",
        lambda case: amount(case.record(method)) / theirs(case.record(other)) - 1,
        "%",
        printed=False,
    )


def _bytes_in(*phases: str) -> Amount:
    return lambda record: float(sum(phase_bytes(record, phase) for phase in phases))


def seconds(record: Record) -> float:
    """In all."""
    return float(record["seconds"]["total"])


def seconds_of_rounds(record: Record) -> float:
    """Of the averaging rounds."""
    return float(record["seconds"]["phases"][Averaging.name])


def _rounds_to_converge(record: Record) -> float:
    """The share of the rounds after which most of the last accuracy is there."""
    scores: Sequence[float] = record["history"]["global_test"]
    enough = CONVERGED * scores[-1]
    return (1 + next(i for i, score in enumerate(scores) if score >= enough)) / len(scores)


def later(method: str, other: str) -> Measure:
    """How much later a method comes close to its last accuracy, in per cent of the rounds."""
    return Measure(
        f"rounds to {CONVERGED:.0%} of the last accuracy, {method} − {other}",
        lambda case: (
            _rounds_to_converge(case.record(method)) - _rounds_to_converge(case.record(other))
        ),
        "% of the rounds",
        printed=False,
    )
