"""What server and clients agree on before a run starts."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import torch
from annotated_types import Ge, Gt

from feddep.errors import InputError
from feddep.learning.link_codes import LinksSpec
from feddep.learning.prototypes import EmbeddingSpec
from feddep.learning.selection import SelectionSpec
from feddep.models.class_loss import ClassWeights
from feddep.models.generator import GeneratorSpec
from feddep.models.sage import FusedSage, Fusion, ModelSpec, initialise
from feddep.models.weights import Weights, from_arrays, shapes_of
from feddep.privacy.robustness import AggregationSpec
from feddep.privacy.spec import PrivacySpec
from feddep.seeding import Seeds

# The others perturb or bound edges that are there or not, and know of no weights.
_LEAVES_FLOWS = ("nfdp", "none")


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
        class_weights: what a node of each class counts in a silo's training; "balanced" makes all
            classes count the same.
        focal: γ of the focal loss; 0 is the cross-entropy.
    """

    rounds: Annotated[int, Ge(1)] = 50
    local_epochs: Annotated[int, Ge(1)] = 1
    batch_size: Annotated[int, Ge(1)] = 32
    fanout: Annotated[int, Ge(1)] = 5
    learning_rate: Annotated[float, Gt(0)] = 0.1
    weight_decay: Annotated[float, Ge(0)] = 0.0
    update_clip: Annotated[float, Ge(0)] = 0.0
    update_noise: Annotated[float, Ge(0)] = 0.0
    class_weights: ClassWeights = "none"
    focal: Annotated[float, Ge(0)] = 0.0

    @property
    def weighs_nodes(self) -> bool:
        """Whether some nodes count more than others."""
        return self.class_weights != "none" or self.focal > 0


@dataclass(frozen=True, kw_only=True)
class LearningSpec:
    """The agreed part of a run.

    Attributes:
        features: d, feature columns of every silo.
        classes: number of classes.
        seed: the run's seed.
        model: the classifier's shape.
        training: how it is trained.
        embedding: the local GNN and its prototypes.
        generator: DGen.
        privacy: the mechanism between the silos' edges and what leaves them.
        aggregation: how the silos' weights become one classifier.
        selection: how the round is chosen whose classifier is returned.
        fusion: which of the classifier's layers take embeddings of missing neighbours.
        links: what silos tell each other about the nodes at the ends of known links.
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
    # A silo's draws are named from the repr, and selection changes nothing that noise is to hide.
    selection: SelectionSpec = field(default_factory=SelectionSpec, repr=False)
    fusion: Fusion = "none"
    links: LinksSpec = field(default_factory=LinksSpec)

    def __post_init__(self) -> None:
        mechanism = self.privacy.mechanism
        if self.model.reads_flows and mechanism not in _LEAVES_FLOWS:
            raise InputError(
                f"model.weighted and model.directions read direction and weight of edges, for "
                f"which {mechanism} promises nothing; leave them out, or choose --mechanism "
                f"{' or '.join(_LEAVES_FLOWS)}, which promise nothing at all"
            )
        if self.training.weighs_nodes and mechanism == "dp-sgd":
            raise InputError(
                "training.class_weights and training.focal are not known to the clipped gradients "
                "of dp-sgd; leave them out, or choose another mechanism"
            )

    @property
    def inputs(self) -> int:
        """Columns that a classifier reads: the features and, where they are noised, sums.

        A sum has a column for each class.
        """
        return self.features + self.privacy.sums * self.classes

    @property
    def embedding_width(self) -> int:
        """d_z; embeddings of depth 0 are the features themselves.

        If only the last layer takes embeddings, these are hidden states of the layer before it; in
        place of embeddings, all layers may take columns about the codes of known neighbours.
        """
        if self.fusion == "last":
            return self.model.hidden
        if self.fusion == "codes":
            return self.links.columns(self.classes)
        return self.embedding.width if self.embedding.depth else self.features

    @cached_property
    def classifier_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each of F's weights."""
        with torch.device("meta"):  # shapes without numbers
            return shapes_of(self._classifier())

    def classifier(self, weights: Weights | None = None) -> FusedSage:
        """F with the given weights, or with initial ones that depend on the run's seed alone."""
        model = self._classifier()
        if weights is None:
            initialise(model, Seeds(self.seed).child("classifier"))
            if self.model.embedding_start == "zero":
                model.zero_embedding_weights()
        else:
            from_arrays(model, weights)
        return model

    def _classifier(self) -> FusedSage:
        width = 0 if self.fusion == "none" else self.embedding_width
        last_only = self.fusion == "last"
        return FusedSage(self.model, self.inputs, self.classes, width, last_only=last_only)
