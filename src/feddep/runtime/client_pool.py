"""Some clients in one process: what a worker holds, and the whole federation with one worker."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import scipy.sparse as sp
import torch

from feddep.algorithms.method import Method
from feddep.errors import InputError
from feddep.federation.client import Client
from feddep.federation.messages import Arrays, Reply, Request, State, group
from feddep.graph.graph import Graph, Part
from feddep.learning.evaluation import Scores, score
from feddep.learning.silo import Silo, open_silo
from feddep.learning.spec import LearningSpec
from feddep.learning.trainer import train
from feddep.models.kernels import FeatureTable


def choose_device(name: str) -> torch.device:
    """``auto`` takes the accelerator if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda was asked for, but torch finds no CUDA device; use cpu")
    if name not in ("cpu", "cuda"):
        raise InputError(f"device must be auto, cpu or cuda (got {name!r})")
    return torch.device(name)


@dataclass
class ClientPool:
    """Clients of one process with their memories.

    Args:
        method: whose client halves answer.
        spec: what was agreed.
        device: where the clients compute.
        graphs: the clients' subgraphs.
        whole: loads the whole graph, for measuring only; no client half ever sees it.
    """

    method: Method
    spec: LearningSpec
    device: torch.device
    graphs: Mapping[int, Graph]
    whole: Callable[[], Graph]
    states: dict[int, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._nodes = {
            client: Client(
                open_silo(client, graph, self.spec, self.device),
                self.method.phases,
                self.spec,
            )
            for client, graph in self.graphs.items()
        }
        self._whole: tuple[Graph, FeatureTable] | None = None
        for client in self.graphs:
            self.states.setdefault(client, {})

    def handle(self, requests: Sequence[Request]) -> list[Reply]:
        """Answers each request from its client's memory."""
        replies = []
        for request in requests:
            node = self._nodes[request.client]
            reply, self.states[request.client] = node.handle(request, self.states[request.client])
            replies.append(reply)
        return replies

    def score(self, classifier: Arrays) -> Scores:
        """Scores a classifier on the whole graph: a measurement, not part of any protocol."""
        if self._whole is None:
            graph = self.whole()
            self._whole = graph, FeatureTable(graph.features, self.device)
        return score(self.spec.classifier(classifier).to(self.device), *self._whole)

    def score_own(self) -> list[Scores]:
        """Scores the clients' own classifiers on the whole graph, in the clients' order."""
        return [self.score(group(self.states[c], "classifier")) for c in sorted(self.graphs)]


def warm_up(device: torch.device) -> None:
    """Compiles the numba loops for the types that training and scoring use, on toy graphs.

    One has few feature columns and one many: the first layer's product depends on that.
    """
    split = [Part.TRAIN, Part.TRAIN, Part.VAL, Part.TEST]
    for columns in (4, 4096):
        features = sp.csr_array(sp.eye_array(4, columns))
        graph = Graph.from_edges([[0, 1], [1, 2]], features, [0, 1, 0, 1], split=split)
        silo = Silo(0, graph, LearningSpec(features=columns, classes=2), device)
        model = silo.classifier()
        train(model, silo, silo.seeds)
        score(model, graph, silo.table)
