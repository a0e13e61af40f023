"""What all parties of a run agree on before it starts, and what one of them works with."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Gt
from torch import Tensor

from feddep.graph.graph import Graph
from feddep.learning.prototypes import EmbeddingSpec
from feddep.models.generator import GeneratorSpec
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, Fusion, ModelSpec, initialise
from feddep.models.weights import Weights, from_arrays
from feddep.privacy.perturb import perturbed
from feddep.privacy.robustness import AggregationSpec
from feddep.privacy.spec import PrivacySpec
from feddep.seeding import Seeds


@dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """Mini-batch SGD as in the paper's section 4.1.

    Attributes:
        rounds: R; in a federation one round is ``local_epochs`` epochs at each client.
        local_epochs: epochs a client trains in one round.
        batch_size: nodes in a mini-batch.
        fanout: d, neighbours drawn for every node and hop.
        learning_rate: of SGD.
        weight_decay: L2 penalty (the paper has none).
        update_clip: C, largest norm of the change that a client sends after a round; 0 sends the
            weights as they are.
        update_noise: σ; with a clip norm, N(0, (σC)²) is added to every number that is sent.
    """

    rounds: Annotated[int, Ge(1)] = 50
    local_epochs: Annotated[int, Ge(1)] = 1
    batch_size: Annotated[int, Ge(1)] = 32
    fanout: Annotated[int, Ge(1)] = 5
    learning_rate: Annotated[float, Gt(0)] = 0.1
    weight_decay: Annotated[float, Ge(0)] = 0.0
    update_clip: Annotated[float, Ge(0)] = 0.0
    update_noise: Annotated[float, Ge(0)] = 0.0


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The agreed part of a run.

    Attributes:
        features: d, feature columns of every silo.
        classes: number of classes.
        seed: the run's seed.
        model: the classifier's shape.
        training: how it is trained.
        embedding: the local GNN and its prototypes.
        generator: DGen.
        privacy: what stands between the silos' edges and what leaves them.
        aggregation: how the silos' weights become one classifier.
        fusion: which of the classifier's layers take embeddings of missing neighbours.
    """

    features: int
    classes: int
    seed: int = 0
    model: ModelSpec = field(default_factory=ModelSpec)
    training: TrainingSpec = field(default_factory=TrainingSpec)
    embedding: EmbeddingSpec = field(default_factory=EmbeddingSpec)
    generator: GeneratorSpec = field(default_factory=GeneratorSpec)
    privacy: PrivacySpec = field(default_factory=PrivacySpec)
    aggregation: AggregationSpec = field(default_factory=AggregationSpec)
    fusion: Fusion = "none"

    @property
    def embedding_width(self) -> int:
        """d_z; embeddings of depth 0 are the features themselves.

        What the last layer alone takes are hidden states, of the layer before it.
        """
        if self.fusion == "last":
            return self.model.hidden
        return self.embedding.width if self.embedding.depth else self.features

    def classifier(self, weights: Weights | None = None) -> FusedSage:
        """F with the given weights, or with the initial ones, which one seed fixes for all."""
        width = 0 if self.fusion == "none" else self.embedding_width
        last_only = self.fusion == "last"
        model = FusedSage(self.model, self.features, self.classes, width, last_only=last_only)
        if weights is None:
            initialise(model, Seeds(self.seed).child("classifier"))
            if self.model.embedding_start == "zero":
                model.forget_embeddings()
        else:
            from_arrays(model, weights)
        return model


@dataclass(frozen=True)
class Secret:
    """A party's own randomness, which nobody can repeat.

    What perturbs the graph must be the same whenever the same graph is perturbed in the same way,
    or releases would add up; and independent otherwise, or two of them would show what differs.
    Everything else is drawn anew in each run.

    Attributes:
        root: the party's secret number.
        run: the run's name.
    """

    root: int
    run: str

    def for_graph(self, graph: Graph, recipe: Recipe) -> np.random.Generator:
        """The draws of the mechanism that perturbs the graph."""
        edges = hashlib.sha256(graph.indptr.tobytes() + graph.indices.tobytes()).hexdigest()
        how = repr((recipe.privacy, recipe.training.fanout))
        return Seeds(self.root).stream("privacy", how, edges)

    def for_run(self, recipe: Recipe) -> int:
        """The root of all other streams; the same name with another recipe is another run."""
        return Seeds(self.root).integer("run", self.run, repr(recipe))


def open_silo(
    client: int, graph: Graph, recipe: Recipe, device: torch.device, secret: Secret | None = None
) -> "Silo":
    """A party with the graph that its privacy mechanism leaves it to work with.

    Args:
        client: the party's number.
        graph: its true graph.
        recipe: what was agreed.
        device: where it computes.
        secret: where its random draws come from. None takes the run's seed, which everybody
            knows: a simulation can be repeated, and its noise can be taken off again.
    """
    silo = Silo(client, graph, recipe, device, secret.for_run(recipe) if secret else None)
    rng = secret.for_graph(graph, recipe) if secret else silo.seeds.stream("privacy")
    protected = perturbed(graph, recipe.privacy, recipe.training.fanout, rng)
    return replace(silo, graph=protected)


@dataclass(frozen=True, eq=False)
class Silo:
    """One party's own data and random streams; what the client halves of phases work on.

    Attributes:
        client: the party's number.
        graph: its subgraph.
        recipe: what was agreed.
        device: where it computes.
        secret: root of its random streams in this run; None takes the run's seed.
    """

    client: int
    graph: Graph
    recipe: Recipe
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
        """What can be made again from the silo and its memory, kept while the silo is there."""
        return {}

    @property
    def seeds(self) -> Seeds:
        """The party's own random streams."""
        root = self.recipe.seed if self.secret is None else self.secret
        return Seeds(root).child("client", self.client)

    def noise(self, seeds: Seeds, name: str, *content: Weights) -> np.random.Generator:
        """The stream ``name`` that hides some content.

        Noise that two answers share can be subtracted. So where the party has a secret, the stream
        depends on the content too: a server that asks twice in other words gets other noise.
        """
        if self.secret is None:
            return seeds.stream(name)
        digest = hashlib.sha256()
        for weights in content:
            for array in weights.values():
                digest.update(np.ascontiguousarray(array).tobytes())
        return seeds.stream(name, digest.hexdigest())

    def classifier(self, weights: Weights | None = None) -> FusedSage:
        """:meth:`Recipe.classifier` on the party's device."""
        return self.recipe.classifier(weights).to(self.device)
