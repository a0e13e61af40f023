"""What a client works on: its own data, and random draws that nobody else can repeat."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from feddep.graph.graph import Graph
from feddep.learning.spec import LearningSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage
from feddep.models.weights import Weights
from feddep.privacy.perturb import perturbed
from feddep.seeding import Seeds


@dataclass(frozen=True)
class Secret:
    """A silo's own randomness, which nobody else can repeat.

    The noise that perturbs the graph must be the same whenever the same graph is perturbed in the
    same way, or releases would add up; and independent otherwise, or two of them would reveal what
    differs. Everything else is drawn anew in each run.

    Attributes:
        root: the silo's secret number.
        run: the run's name.
    """

    root: int
    run: str

    def for_graph(self, graph: Graph, spec: LearningSpec) -> np.random.Generator:
        """The draws of the mechanism that perturbs the graph."""
        edges = hashlib.sha256(graph.indptr.tobytes() + graph.indices.tobytes()).hexdigest()
        how = repr((spec.privacy, spec.training.fanout))
        return Seeds(self.root).stream("privacy", how, edges)

    def for_run(self, spec: LearningSpec) -> int:
        """The root of all other streams; the same name with another spec is another run."""
        return Seeds(self.root).integer("run", self.run, repr(spec))


def open_silo(
    client: int,
    graph: Graph,
    spec: LearningSpec,
    device: torch.device,
    secret: Secret | None = None,
) -> "Silo":
    """A silo whose graph is the one that the privacy mechanism leaves it to work with.

    Args:
        client: the silo's number.
        graph: its true graph.
        spec: what was agreed.
        device: where it computes.
        secret: the source of its random draws. None takes the run's seed, which everybody knows:
            a simulation can be repeated, and its noise removed again.
    """
    silo = Silo(client, graph, spec, device, secret.for_run(spec) if secret else None)
    rng = secret.for_graph(graph, spec) if secret else silo.seeds.stream("privacy")
    protected = perturbed(graph, spec.privacy, spec.training.fanout, rng)
    return replace(silo, graph=protected)


@dataclass(frozen=True, eq=False)
class Silo:
    """A client's own data and random streams; what the client halves of phases work on.

    Attributes:
        client: its number.
        graph: its subgraph.
        spec: what was agreed.
        device: where it computes.
        secret: root of its random streams in this run; None takes the run's seed.
    """

    client: int
    graph: Graph
    spec: LearningSpec
    device: torch.device
    secret: int | None = None

    @cached_property
    def table(self) -> FeatureTable:
        """The features on the device."""
        return FeatureTable(self.graph.features, self.device)

    @cached_property
    def labels(self) -> Tensor:
        """``(n,)`` labels on the device."""
        return torch.tensor(self.graph.labels, device=self.device)

    @cached_property
    def prepared(self) -> dict[str, Any]:
        """A cache of what can be recomputed from the silo and its memory."""
        return {}

    @property
    def seeds(self) -> Seeds:
        """The client's own random streams."""
        root = self.spec.seed if self.secret is None else self.secret
        return Seeds(root).child("client", self.client)

    def noise(self, seeds: Seeds, name: str, *content: Weights) -> np.random.Generator:
        """The stream ``name`` of noise that hides some content.

        Noise that two answers share can be subtracted. So if the silo has a secret, the stream
        depends on the content too: a server that asks again in other words gets different noise.
        """
        if self.secret is None:
            return seeds.stream(name)
        digest = hashlib.sha256()
        for weights in content:
            for array in weights.values():
                digest.update(np.ascontiguousarray(array).tobytes())
        return seeds.stream(name, digest.hexdigest())

    def classifier(self, weights: Weights | None = None) -> FusedSage:
        """:meth:`LearningSpec.classifier` on the silo's device."""
        return self.spec.classifier(weights).to(self.device)
