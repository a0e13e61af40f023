"""What server and silos agree on before a run, and what may then cross between them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.federation.inspection import Expected
from feddep.learning.recipe import Recipe
from feddep.models.weights import to_arrays
from feddep.scenario.build import recipe_of
from feddep.scenario.spec import RunSpec

LARGEST_BYTES = 1 << 30
"""No honest message of any method comes near; a hostile one must not fill the memory."""

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")  # it becomes the name of a folder


@dataclass(frozen=True)
class Agreement:
    """One run, as every party knows it.

    Attributes:
        run: its name.
        spec: what is run.
        features: feature columns of every silo.
        classes: number of classes.
    """

    run: str
    spec: RunSpec
    features: int
    classes: int

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run):
            raise InputError(f"a run's name has letters, digits and - (got {self.run!r})")
        if self.features < 1 or self.classes < 1:
            raise InputError(
                f"a run needs features and classes (got {self.features} and {self.classes})"
            )
        check_federated(self.method)

    @property
    def method(self) -> Method:
        """The method to run."""
        return find_method(self.spec.method)

    @property
    def recipe(self) -> Recipe:
        """What its phases need for learning."""
        return recipe_of(self.spec, self.features, self.classes, self.method)

    @property
    def expected(self) -> Expected:
        """What messages may hold."""
        return expected_of(self.method, self.recipe)

    def to_plain(self) -> dict[str, Any]:
        """For a letter's header."""
        return {
            "run": self.run,
            "spec": self.spec.to_toml(),
            "features": self.features,
            "classes": self.classes,
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "Agreement":
        """The inverse; what a stranger sent may be anything.

        Raises:
            InputError: it is no agreement, or about a method that silos cannot run.
        """
        try:
            run, text = str(values["run"]), str(values["spec"])
            features, classes = int(values["features"]), int(values["classes"])
        except (LookupError, TypeError, ValueError) as error:
            raise InputError(f"expected an agreement, got something else ({error!r})") from None
        return cls(run, RunSpec.from_toml(text), features, classes)


def check_federated(method: Method) -> None:
    """Refuses the methods that are no federation."""
    if method.whole_graph or method.name == "oracle":
        why = "one party holds the whole graph" if method.whole_graph else "nobody has its input"
        raise InputError(
            f"{method.name} cannot run on Flower: {why}; use `feddep run`, which simulates it"
        )


def expected_of(method: Method, recipe: Recipe) -> Expected:
    """What messages of a run may hold."""
    shapes = {name: array.shape for name, array in to_arrays(recipe.classifier()).items()}
    return Expected(
        discloses=method.discloses,
        reports={phase.name: phase.reports for phase in method.phases},
        shapes={"classifier": shapes},
        rows={"prototypes": (recipe.embedding.clusters, recipe.embedding_width)},
        largest_bytes=LARGEST_BYTES,
        largest_norm=None,
    )


def dumps(values: Mapping[str, Any]) -> bytes:
    """Plain data as JSON, the same bytes for the same data."""
    return json.dumps(values, sort_keys=True).encode()
