"""Clients in one process: those of a worker, or all of them if there is a single worker."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import scipy.sparse as sp
import torch

from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.federation.client import Client
from feddep.federation.messages import Arrays, Reply, Request, State, group
from feddep.graph.graph import Graph, Part
from feddep.learning.aggregates import aggregated
from feddep.learning.evaluation import Scores, measure
from feddep.learning.mending import mending_of
from feddep.learning.silo import Silo, open_silo
from feddep.learning.spec import LearningSpec
from feddep.learning.trainer import train
from feddep.models.kernels import FeatureTable
from feddep.privacy.pair_keys import LinkKeys


def choose_device(name: str) -> torch.device:
    """The device of a name; ``auto`` takes CUDA if there is any.

    Raises:
        InputError: the name is unknown, or there is no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: torch finds no CUDA device; use cpu or auto")
    if name not in ("cpu", "cuda"):
        raise InputError(f"device must be auto, cpu or cuda (got {name!r})")
    return torch.device(name)


@dataclass
class ClientPool:
    """Clients of one process with their states.

    Args:
        method: the method whose client halves answer.
        spec: the learning settings.
        device: where the clients compute.
        graphs: the clients' graphs, by client number.
        whole: loads the whole graph, if there is one, for measurements only; no client half ever
            sees it.
        states: the clients' states, by client number; a new client's is empty.
        names: of all silos, in the clients' order, where clients may be linked.

    Attributes:
        clients: the clients, by client number.
    """

    method: Method
    spec: LearningSpec
    device: torch.device
    graphs: Mapping[int, Graph]
    whole: Callable[[], Graph | None]
    states: dict[int, State] = field(default_factory=dict)
    kept: dict[int, State] = field(default_factory=dict)
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.clients = {
            client: Client(
                open_silo(client, graph, self.spec, self.device, links=self._link_keys(client)),
                self.method.phases,
                self.spec,
                graph.nodes,
            )
            for client, graph in self.graphs.items()
        }
        self._whole: tuple[Graph, FeatureTable] | None = None
        for client in self.graphs:
            self.states.setdefault(client, {})

    def _link_keys(self, client: int) -> LinkKeys | None:
        """Of a simulated silo: everybody can derive them from the spec."""
        if not self.names:
            return None
        run = hashlib.sha256(f"{self.method.name} {self.spec!r}".encode()).hexdigest()
        return LinkKeys.simulated(self.spec.seed, f"simulation {run}", client, self.names)

    def handle(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers each request with the state of its client."""
        replies = []
        for request in requests:
            client = self.clients[request.client]
            reply, self.states[request.client] = client.handle(request, self.states[request.client])
            replies.append(reply)
        return replies

    def keep(self) -> None:
        """Keeps how every client's subgraph is mended now; no array is copied for that."""
        self.kept = {client: mending_of(state) for client, state in self.states.items()}

    def score(self, classifier: Arrays) -> Scores:
        """Scores a classifier on the whole graph: a measurement, not part of the protocol."""
        if self._whole is None:
            graph = self.whole()
            if graph is None:
                return Scores()
            if self.spec.privacy.sums:
                graph = aggregated(graph, self.spec, None)
            self._whole = graph, FeatureTable(graph.features, self.device)
        return measure(self.spec.classifier(classifier).to(self.device), *self._whole)

    def score_own(self) -> list[Scores]:
        """Scores the clients' own classifiers on the whole graph, in the clients' order."""
        return [self.score(group(self.states[c], "classifier")) for c in sorted(self.graphs)]


def warm_up(device: torch.device) -> None:
    """Compiles the numba loops that training and scoring use, by running them on toy graphs.

    One graph has few feature columns and one many, as the first layer's product depends on that.
    """
    split = [Part.TRAIN, Part.TRAIN, Part.VAL, Part.TEST]
    for columns in (4, 4096):
        features = sp.csr_array(sp.eye_array(4, columns))
        graph = Graph.from_edges([[0, 1], [1, 2]], features, [0, 1, 0, 1], split=split)
        silo = Silo(0, graph, LearningSpec(features=columns, classes=2), device)
        model = silo.classifier()
        train(model, silo, silo.seeds)
        measure(model, graph, silo.table)
