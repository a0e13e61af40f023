"""The result of a run, as Python users get it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from feddep.algorithms import find_method
from feddep.errors import InputError
from feddep.graph.arranging import arranged
from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Graph
from feddep.learning.classifier import Classifier, check_graph, softmax
from feddep.models.weights import Weights
from feddep.privacy.events import Events
from feddep.runs.clients import ClientPart, same_arrays
from feddep.runs.data_to_predict import numbered, read_data, silo_names
from feddep.runs.files import Record
from feddep.runs.folder import RunFolder
from feddep.runs.onnx_export import export_onnx
from feddep.runs.prediction import mended_for
from feddep.runs.predictions import Predictions, class_names
from feddep.scenario.build import with_fewer_columns
from feddep.scenario.spec import RunSpec
from feddep.tables.encoder import Encoder

VIEWS = ("global", "silo")


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run. Two results are equal if all that they hold is.

    Attributes:
        spec: what was run.
        record: what ``record.json`` holds.
        history: one entry for each round.
        models: the classifiers at the best validation round: one, or for ``local`` one per client.
        clients: by number, what each client has besides the classifier: how its subgraph was
            mended when the best classifier was scored, and its generator.
        events_by_client: what each client's privacy mechanisms did, and everything that left it.
        last_models: the classifiers after the last round; none if that is the best, or not kept.
        folder: where it is stored, if it was opened.
    """

    spec: RunSpec
    record: Record
    history: Sequence[dict[str, Any]]
    models: Sequence[Classifier]
    clients: Mapping[int, ClientPart] = field(default_factory=dict)
    events_by_client: Sequence[Events] = ()
    last_models: Sequence[Classifier] = ()
    folder: Path | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Result):
            return NotImplemented
        return (
            (self.spec, self.record) == (other.spec, other.record)
            and list(self.history) == list(other.history)
            and list(map(list, self.events_by_client)) == list(map(list, other.events_by_client))
            and dict(self.clients) == dict(other.clients)
            and _same_models(self.models, other.models)
            and _same_models(self.last_models, other.last_models)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        if self._of_silo:
            return (
                f"Result({self.spec.method}, {self.record['clients']} clients, "
                f"what client {self.record['silo']['client']} kept)"
            )
        shown = "–" if self.accuracy is None else f"{self.accuracy:.4f}"
        return (
            f"Result({self.spec.method} on {self.spec.dataset}, {self.record['clients']} clients, "
            f"{len(self.history)} rounds, test accuracy {shown})"
        )

    @property
    def _of_silo(self) -> bool:
        """Whether it is what one silo kept of a federation: there is no record of the run."""
        return "silo" in self.record

    @property
    def accuracy(self) -> float | None:
        """Test accuracy on the whole graph at the best validation round (the paper's metric).

        None without test nodes.
        """
        found: float | None = self.record["scores"]["global"]["test"]
        return found

    @property
    def privacy(self) -> dict[str, Any]:
        """What is promised about the clients' data."""
        return dict(self.record["privacy"])

    @property
    def traffic(self) -> dict[str, Any]:
        """Bytes sent up and down, in all and by phase.

        Empty in what a silo kept of a federation: the server counts.
        """
        return dict(self.record.get("traffic", {}))

    @property
    def generators(self) -> list[Weights]:
        """Each client's generator, for methods that have one.

        They are from the same round as the models; from the last round if ``clients[i].mending``
        is None, because earlier versions kept no others.
        """
        parts = [self.clients[client] for client in sorted(self.clients)]
        return [part.generator for part in parts if part.generator]

    @property
    def model(self) -> Classifier:
        """The one classifier of the run.

        Raises:
            InputError: every client has its own; see :attr:`models`.
        """
        if not self.models:
            raise InputError(f"the classifiers of {self.spec.method} stayed with the silos")
        if len(self.models) != 1:
            raise InputError(
                f"{self.spec.method} trains {len(self.models)} classifiers, one per client; "
                "take one of result.models"
            )
        return self.models[0]

    @property
    def threshold(self) -> float | None:
        """Of two classes: the probability from which on a node is called positive.

        The one with the highest F1 on the validation nodes. None for other data, without
        validation nodes of both classes, and where only silos could tell.
        """
        found = (self.record.get("measures") or {}).get("threshold")
        return None if found is None else float(found["value"])

    def classes(self, graph: Graph, client: int | None = None) -> npt.NDArray[np.int64]:
        """The class of every node: beyond the :attr:`threshold`, or else the most probable one.

        Args:
            graph: as for :meth:`predict`.
            client: as for :meth:`predict`.
        """
        return self.called(self.predict(graph, client), graph)

    def called(self, probabilities: npt.NDArray[np.float64], graph: Graph) -> npt.NDArray[np.int64]:
        """The classes that :meth:`classes` gives to nodes of a graph with these probabilities."""
        if self.threshold is None:
            most: npt.NDArray[np.int64] = probabilities.argmax(axis=1)
            return most
        positive = self._positive_in(graph)
        is_positive = probabilities[:, positive] >= self.threshold
        found: npt.NDArray[np.int64] = np.where(is_positive, positive, 1 - positive)
        return found

    def at_last_round(self) -> "Result":
        """The same run with the classifiers of its last round, and their scores.

        What the clients mended their subgraphs with is that of the best round, so predictions for
        a client are refused where the method mends.

        Raises:
            InputError: they were not kept, as in runs of earlier versions.
        """
        last = self.history[-1] if self.history else {}
        if self._of_silo or self.record["best_round"] == last.get("round"):
            return self
        if not self.last_models:
            raise InputError("this run kept no weights of its last round; run it again")
        scores = {view: {part: last[view][part] for part in ("test", "val")} for view in VIEWS}
        scores["global"]["test_last"] = scores["global"]["test"]
        changed = {"scores": scores, "best_round": last["round"], "measures": None}
        clients = {number: replace(own, mending=None) for number, own in self.clients.items()}
        return replace(
            self,
            record={**self.record, **changed},
            models=self.last_models,
            clients=clients,
            last_models=(),
        )

    def predict(self, graph: Graph, client: int | None = None) -> npt.NDArray[np.float64]:
        """Class probabilities of every node of a graph, ``(n, classes)``.

        Without a client this is the paper's inference, z̄ = 0, as in the record's score on the
        whole graph. For a client the graph is mended as the run did it when the best classifier was
        scored, as in the record's silo score:

        - On the graph that the client had in the run, with the missing neighbours that it had then.
          A privacy mechanism that perturbs edges perturbs it again in the same way, since
          simulations draw from the run's seed. In the results of a real silo, whose draws are
          secret, the true graph is used.
        - On any other graph, the client's generator generates neighbours for it. Methods without
          a generator, which received the neighbours of their own nodes, refuse other graphs.
        - ``local`` uses the client's own classifier. With DP-SGD and a cap on occurrences, clients
          predict without edges. With aggregation perturbation, sums have noise on the graph that
          the client had in the run, and none on any other.

        Args:
            graph: with the feature columns of the run. Its labels and split do not matter, unless
                aggregation perturbation trains an encoder on its training nodes.
            client: whose subgraph it is, 0 to M - 1.

        Raises:
            InputError: it is no graph or does not fit, or the run did not keep what is needed.
        """
        check_graph(graph)
        if client is None:
            return self.model.probabilities(self._with_columns(graph, self.model))
        if client not in self.clients:
            known = ", ".join(map(str, sorted(self.clients))) or "none: silos keep their own"
            raise InputError(f"this run knows about clients {known} (got {client})")
        model = self.models[client] if len(self.models) > 1 else self.model
        asked, graph = graph, self._with_columns(arranged(graph, model.schema), model)
        method = find_method(self.spec.method)
        mended = mended_for(model, graph, method, client, self.clients[client])
        return model.as_in(asked, softmax(model.scores(mended)[: graph.nodes]))

    def predict_table(self, data: str | Path | Graph, silo: str | int | None = None) -> Predictions:
        """Predictions for each row of a silo's table, with ids and names of classes.

        Args:
            data: a graph; a graph folder; or a folder of tables, which are encoded as in the run
                (the run must have been opened from its folder, which keeps the encoders). Nodes
                and edges may be new.
            silo: whose data they are, by name or number. Left out, it is found by the data of the
                run or by the folder's name; where neither tells, predictions are those without
                missing neighbours.

        Raises:
            InputError: the data do not fit, or it must be said whose they are.
        """
        names = silo_names(self.spec, int(self.record["clients"]))
        number = None if silo is None else numbered(silo, names)
        if number is None and self._of_silo:
            number = int(self.record["silo"]["client"])
        if number is None and not isinstance(data, Graph):
            name = Path(data).resolve().name
            number = names.index(name) if name in names and not name.isdigit() else None
        graph = data if isinstance(data, Graph) else self._data_in(Path(data), number)
        check_graph(graph)
        if number is None:
            number = self._owner_of(graph)
        model = self._model_of(number, names)
        trained = () if model.schema is None else model.schema.classes
        found = self.predict(graph, number if number in self.clients else None)
        threshold = self.threshold
        return Predictions(
            graph.node_ids,
            class_names(graph, model.spec.classes, trained),
            found,
            self.called(found, graph),
            None if threshold is None else (self._positive_in(graph), threshold),
            number,
        )

    def _data_in(self, folder: Path, silo: int | None) -> Graph:
        """The graph in a folder; tables are encoded as the silo's were."""
        part = None if silo is None else self.clients.get(silo)
        encoder = part.encoder if part and isinstance(part.encoder, Encoder) else None
        return read_data(folder, self.folder, silo, encoder)

    def export(self, file: str | Path, silo: str | int | None = None) -> Path:
        """Writes the classifier as an ONNX file, for programs without this library.

        Args:
            file: a name that ends in ``.onnx``.
            silo: whose classifier, by name or number, where each silo has its own.

        Returns:
            The file.

        Raises:
            InputError: ``onnx`` is not installed, or the classifier cannot be written so.
        """
        names = silo_names(self.spec, int(self.record["clients"]))
        model = self._model_of(None if silo is None else numbered(silo, names), names)
        about: dict[str, Any] = {"method": self.spec.method}
        if self.threshold is not None:
            positive = int(self.record["measures"]["positive"])
            about |= {"positive": positive, "threshold": self.threshold}
        export_onnx(model, Path(file), about)
        return Path(file)

    def _model_of(self, number: int | None, names: list[str]) -> Classifier:
        """The one classifier, or that of a silo where each has its own."""
        if number is None and len(self.models) > 1:
            raise InputError(
                f"{self.spec.method} trains a classifier for each silo; say with --silo (silo=…) "
                f"whose it is to be: {', '.join(names)}"
            )
        return self.models[number or 0] if len(self.models) > 1 else self.model

    def _positive_in(self, graph: Graph) -> int:
        """Number of the class that is looked for, among the graph's own classes."""
        positive = int(self.record["measures"]["positive"])
        ours = () if self.models[0].schema is None else self.models[0].schema.classes
        theirs = () if graph.schema is None else graph.schema.classes
        return theirs.index(ours[positive]) if ours and theirs else positive

    def _owner_of(self, graph: Graph) -> int | None:
        """The client that had this very graph in the run."""
        mark = fingerprint(graph)
        found = [client for client, part in self.clients.items() if part.graph == mark]
        return found[0] if found else None

    def _with_columns(self, graph: Graph, model: Classifier) -> Graph:
        """The graph with the columns of the run, where that took a share of them."""
        has_them = graph.feature_count == model.spec.features
        if has_them or self.spec.feature_share == 1:
            return graph
        return with_fewer_columns(graph, self.spec)

    def save(self, path: str | Path) -> Path:
        """Writes the run folder, for :func:`feddep.open_run`, and returns its path.

        Raises:
            InputError: the folder cannot take it, or this is what a silo kept of a federation.
        """
        if self._of_silo:
            raise InputError(
                "this is what a silo kept of a federation, and the run's record is with the "
                "server; copy the silo's folder instead"
            )
        folder = RunFolder.claim(Path(path), self.spec, resume=False)
        self.store(folder)
        return folder.path

    def store(self, folder: RunFolder) -> None:
        """Writes the content of a claimed run folder."""
        best, last = ([m.weights for m in own] for own in (self.models, self.last_models))
        schema = self.models[0].schema if self.models else None
        folder.finish(
            self.record, self.history, best, self.clients, self.events_by_client, schema, last
        )


def _same_models(one: Sequence[Classifier], other: Sequence[Classifier]) -> bool:
    return len(one) == len(other) and all(
        (a.spec, a.schema) == (b.spec, b.schema) and same_arrays(a.weights, b.weights)
        for a, b in zip(one, other, strict=True)
    )
