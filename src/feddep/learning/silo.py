"""What a client works on: its own data, and random draws that nobody else can repeat."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feddep.graph.fingerprint import fingerprint
from feddep.graph.graph import Graph
from feddep.learning.aggregates import aggregated
from feddep.learning.spec import LearningSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage
from feddep.models.weights import Weights
from feddep.privacy.aggregation import Draw
from feddep.privacy.noise import NoiseStream
from feddep.privacy.pair_keys import LinkKeys
from feddep.privacy.perturb import noise_key, perturbed
from feddep.privacy.secret_stream import SecretStream
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

    def for_graph(self, graph: Graph, spec: LearningSpec) -> SecretStream:
        """The draws of the mechanism that perturbs the graph.

        They are the same in every run that perturbs this graph at these rates, whatever its name,
        method, seed, number of the client or other settings: all of these are the server's choice.
        """
        how = noise_key(spec.privacy, spec.training.fanout)
        return SecretStream(Seeds(self.root).key("privacy", *how, _edges(graph)))

    def for_sums(self, graph: Graph) -> Draw:
        """The noise on sums over the graph's edges; what is summed gives it a name of its own."""
        seeds = Seeds(self.root).child("privacy", "sums", _edges(graph))
        return lambda *names: SecretStream(seeds.key(*names))

    def for_run(self, graph: Graph, spec: LearningSpec) -> int:
        """The root of all other streams; the same name with another spec or data is another run."""
        labels = _digest(graph.labels, graph.split)
        key = Seeds(self.root).key("run", self.run, repr(spec), fingerprint(graph), labels)
        return int.from_bytes(key, "big")


def open_silo(
    client: int,
    graph: Graph,
    spec: LearningSpec,
    device: torch.device,
    secret: Secret | None = None,
    links: LinkKeys | None = None,
) -> "Silo":
    """A silo whose graph is the one that the privacy mechanism leaves it to work with.

    Args:
        client: the silo's number.
        graph: its true graph.
        spec: what was agreed.
        device: where it computes.
        secret: the source of its random draws. None takes the run's seed, which everybody knows:
            a simulation can be repeated, and its noise removed again.
        links: its keys for messages to other silos; None where no silo sends any.
    """
    if graph.flows is not None and not spec.model.reads_flows:
        graph = replace(graph, flows=None)
    spec.model.check(graph)
    root = secret.for_run(graph, spec) if secret else None
    silo = Silo(client, graph, spec, device, root, links, secret.root if secret else None)
    if spec.privacy.sums:
        draw = secret.for_sums(graph) if secret else silo.seeds.child("privacy").stream
        return replace(silo, graph=aggregated(graph, spec, draw))
    rng = secret.for_graph(graph, spec) if secret else silo.seeds.stream("privacy")
    protected = perturbed(graph, spec.privacy, spec.training.fanout, rng)
    return replace(silo, graph=protected)


def _edges(graph: Graph) -> str:
    flows = [] if graph.flows is None else [graph.flows]
    return _digest(graph.indptr, graph.indices, *flows)


def _digest(*arrays: npt.NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Silo:
    """A client's own data and random streams; what the client halves of phases work on.

    Attributes:
        client: its number.
        graph: its subgraph.
        spec: what was agreed.
        device: where it computes.
        secret: root of its random streams in this run; None takes the run's seed.
        links: its keys for messages to other silos; None where no silo sends any.
        lasting: root of draws that are the same in every run; None takes the run's seed.
    """

    client: int
    graph: Graph
    spec: LearningSpec
    device: torch.device
    secret: int | None = None
    links: LinkKeys | None = None
    lasting: int | None = None

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

    def lasting_key(self, *names: str | int) -> bytes:
        """32 bytes for draws that must come out the same in every run, whatever its settings."""
        if self.lasting is None:
            return self.seeds.key(*names)
        return Seeds(self.lasting).key(*names)

    def mechanism(self, seeds: Seeds, *names: str | int) -> NoiseStream:
        """The stream ``names`` for draws on which a promise rests: cryptographic with a secret.

        All that it hides must be in the names, or follow from the run, spec and data.
        """
        if self.secret is None:
            return seeds.stream(*names)
        return SecretStream(seeds.key(*names))

    def noise(self, seeds: Seeds, name: str, *content: Weights) -> NoiseStream:
        """The stream ``name`` of noise that hides some content.

        Noise that two answers share can be subtracted. So if the silo has a secret, the stream
        depends on the content too: a server that asks again in other words gets different noise.
        """
        if self.secret is None:
            return seeds.stream(name)
        digest = hashlib.sha256()
        for weights in content:
            for array in weights.values():
                digest.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return self.mechanism(seeds, name, digest.hexdigest())

    def classifier(self, weights: Weights | None = None) -> FusedSage:
        """:meth:`LearningSpec.classifier` on the silo's device."""
        return self.spec.classifier(weights).to(self.device)
