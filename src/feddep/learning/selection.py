"""Which round's classifier a run returns.

Silos say how good a round's classifier is on their validation nodes, and the best round counts.
With 2% positives, accuracy cannot tell one classifier from another: whoever calls nothing positive
is right on 98% of the nodes. So the measure can be chosen, and ``auto`` looks at the classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from feddep.errors import InputError

Metric = Literal[
    "auto", "accuracy", "balanced_accuracy", "macro_f1", "average_precision", "roc_auc", "loss"
]
Said = Literal["COUNT", "SHARE", "LOSS"]
"""What a number is that a silo says, by its name in :class:`~feddep.federation.content.Number`."""

RARE = 0.2
"""Below this share of the training nodes, one of two classes is rare."""

POSITIVES = "training_positives"
"""Training nodes of class 1, from which the federation knows which class is rare, and how rare."""

_BY_CLASS = ("balanced_accuracy", "macro_f1")
_OF_TWO = ("average_precision", "roc_auc")


@dataclass(frozen=True, kw_only=True)
class SelectionSpec:
    """How the round is chosen whose classifier is returned.

    Attributes:
        metric: the highest counts, of ``loss`` the lowest. ``auto`` is ``average_precision`` for
            two classes of which one has less than 20% of the training nodes, else ``accuracy``.
        ties: of rounds that are equally good, ``loss`` takes the one with the lowest validation
            loss, and of those the last; ``first`` takes the first, as the paper's runs did.
    """

    metric: Metric = "auto"
    ties: Literal["loss", "first"] = "loss"

    def check(self, classes: int) -> None:
        """Refuses a measure of a ranking where there is more than one way to rank."""
        if self.metric in _OF_TWO and classes != 2:
            raise InputError(
                f"selection.metric: {self.metric} is for two classes, and there are {classes}; "
                "take accuracy, balanced_accuracy, macro_f1 or loss"
            )

    def said(self, classes: int) -> dict[str, Said]:
        """What a silo says about its validation nodes besides how many are right."""
        names: dict[str, Said] = {}
        if self.ties == "loss" or self.metric == "loss":
            names["val_loss"] = "LOSS"
        if self.metric in _BY_CLASS:
            names |= dict.fromkeys(by_class(classes), "COUNT")
        if classes == 2 and self.metric == "roc_auc":
            names["val_roc_auc"] = "SHARE"
        if classes == 2 and self.metric in ("auto", "average_precision"):
            names |= dict.fromkeys(precision_names(), "SHARE")
            names[POSITIVES] = "COUNT"
        return names


AS_IN_THE_PAPER = SelectionSpec(metric="accuracy", ties="first")


def by_class(classes: int) -> list[str]:
    """The counts of each class: right, there, and called so; in the order of a flattened table."""
    return [f"val_{what}_{c}" for what in ("right", "of", "called") for c in range(classes)]


def precision_names() -> list[str]:
    """The average precision of class 0, and that of class 1, each taken as the positive one."""
    return [f"val_average_precision_{c}" for c in range(2)]


@dataclass
class Selection:
    """What is chosen by in a run. ``auto`` is settled by what the silos first say.

    Attributes:
        spec: what the run's spec says.
        metric: by what rounds are compared.
        positive: of two classes, the one that is looked for: the rarer one.
    """

    spec: SelectionSpec = field(default_factory=lambda: AS_IN_THE_PAPER)
    metric: str = "accuracy"
    positive: int | None = None
    _settled: bool = False

    def settle(self, said: Mapping[str, float]) -> None:
        """Settles what is still open; what is settled stays, whoever is away later."""
        share = said.get("positive_share")
        if self.positive is None and share is not None:
            self.positive = int(share <= 0.5)
        if not self._settled:
            self._settled = True
            rare = share is not None and min(share, 1 - share) < RARE
            auto = "average_precision" if rare else "accuracy"
            self.metric = auto if self.spec.metric == "auto" else self.spec.metric

    def of_round(self, said: Mapping[str, float]) -> dict[str, float]:
        """What is noted of a round besides accuracies, under the names of a history."""
        own = precision_names()[1 if self.positive is None else self.positive]
        names = {
            "val_loss": "val_loss",
            "val_average_precision": own,
            **{f"val_{name}": f"val_{name}" for name in (*_BY_CLASS, "roc_auc")},
        }
        return {name: said[there] for name, there in names.items() if there in said}

    def value(self, silo: Mapping[str, Any]) -> float | None:
        """What a round's entry of the history has for the metric."""
        name = "val" if self.metric == "accuracy" else f"val_{self.metric}"
        found: float | None = silo.get(name)
        return found

    def is_better(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether a later round is to be returned rather than an earlier one.

        A round about which the metric says nothing stands below all others, and is compared by
        accuracy. As long as nobody can validate, the last one counts.
        """
        if self._rank(one) != self._rank(other):
            return self._rank(one) > self._rank(other)
        if one.get("val") is None and self.value(one) is None:
            return True
        if self.spec.ties == "first":
            return False
        return _loss(one) <= _loss(other)

    def _rank(self, silo: Mapping[str, Any]) -> tuple[int, float]:
        value, accuracy = self.value(silo), silo.get("val")
        if value is not None:
            return 2, -value if self.metric == "loss" else value
        return (0, 0.0) if accuracy is None else (1, accuracy)

    def to_plain(self) -> dict[str, Any]:
        """For a checkpoint."""
        return {"metric": self.metric, "positive": self.positive, "settled": self._settled}

    def restore(self, stored: Mapping[str, Any]) -> None:
        """Continues with what :meth:`to_plain` gave."""
        self.metric, self.positive = stored["metric"], stored["positive"]
        self._settled = stored["settled"]


def _loss(silo: Mapping[str, Any]) -> float:
    found: float | None = silo.get("val_loss")
    return float("inf") if found is None else found
