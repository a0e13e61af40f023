"""What a run gives back to whoever called it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feddep.errors import InputError
from feddep.learning.classifier import Classifier
from feddep.models.weights import Weights
from feddep.privacy.events import Events
from feddep.runs.files import Record
from feddep.runs.folder import RunFolder
from feddep.scenario.spec import RunSpec


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run.

    Attributes:
        spec: what was run.
        record: what ``record.json`` holds.
        history: one entry for each round.
        models: the classifiers at the best validation round; one, or one a client for ``local``.
        generators: each client's DGen after the last round, for methods that have one.
        events_by_client: what each client's privacy mechanisms did, and everything that left it.
    """

    spec: RunSpec
    record: Record
    history: Sequence[dict[str, Any]]
    models: Sequence[Classifier]
    generators: Sequence[Weights] = ()
    events_by_client: Sequence[Events] = ()

    def __repr__(self) -> str:
        shown = "–" if self.accuracy is None else f"{self.accuracy:.4f}"
        return (
            f"Result({self.spec.method} on {self.spec.dataset}, {self.record['clients']} clients, "
            f"{len(self.history)} rounds, test accuracy {shown})"
        )

    @property
    def accuracy(self) -> float | None:
        """Test accuracy on the whole graph at the best validation round (the paper's metric).

        None without test nodes.
        """
        found: float | None = self.record["scores"]["global"]["test"]
        return found

    @property
    def privacy(self) -> dict[str, Any]:
        """What is promised about the data of the clients."""
        return dict(self.record["privacy"])

    @property
    def traffic(self) -> dict[str, Any]:
        """Bytes sent up and down, in all and by phase."""
        return dict(self.record["traffic"])

    @property
    def model(self) -> Classifier:
        """The one classifier of the run.

        Raises:
            InputError: the method gives every client its own; see :attr:`models`.
        """
        if len(self.models) != 1:
            raise InputError(
                f"{self.spec.method} trains {len(self.models)} classifiers, one a client; "
                "take one of result.models"
            )
        return self.models[0]

    def save(self, path: str | Path) -> Path:
        """Writes the run folder (record, history, spec, model) and returns its path."""
        folder = RunFolder.claim(Path(path), self.spec, resume=False)
        weights = [model.weights for model in self.models]
        folder.finish(self.record, self.history, weights, self.generators, self.events_by_client)
        return folder.path
