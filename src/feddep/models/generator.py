"""DGen: generates the embeddings of a node's missing neighbours from its local context.

Source: the paper's section 3.1, "Deep Neighbor Generation". With h_v = Enc(G^K(v); θᵉ),

    ñ_v = ReLU(θᵈ · h_v),    z̃_v = Ber_r(tanh(MLP(h_v + N(0, 1); θᶠ)), ñ_v).

The MLP gives P rows of width d_z, and Ber_r samples ñ_v of them: each row passes a trial with
probability r, and the first ñ_v rows that pass are kept. ñ_v is a number of neighbours, so a
prediction between two whole numbers is rounded to either, at random, with its value as the mean.

h_v is normalised over its entries. N(0, 1) is then noise of a known share, :attr:`signal` says
which; as the encoder starts, the nodes' encodings differ by a tenth of that noise, which would be
all that the MLP sees.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import torch
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn

from feddep.graph.sampling import EgoGraphs
from feddep.models.kernels import FeatureTable
from feddep.models.sage import FusedSage, ModelSpec
from feddep.models.span import WIDE

_TINY = 1e-6

HEAD = ("hidden", "hidden_bias", "rows", "rows_bias")
"""The parameters of DGen's generating part; everything before it is the encoder."""


@dataclass(frozen=True, kw_only=True)
class GeneratorSpec:
    """DGen and how it is trained.

    Attributes:
        slots: P, the most neighbours that are generated for one node.
        keep: r, rate of the Bernoulli sampler (the paper does not give it).
        sampler: ``select`` keeps the first ñ of those of the P rows that pass a trial, so ñ rows if
            enough pass, as the paper's z̃ ∈ ℝ^(ñ × d_z) has; ``thin`` takes the first ñ rows and
            drops those that fail, on average (1 - r) ñ. Either way a row is kept with probability r
            at most, which is what the paper's theorem counts on.
        rounding: how ñ becomes a whole number: ``random`` to either neighbour with ñ as the mean,
            or ``nearest``, where nodes that miss less than half a neighbour never get one (the
            paper does not say).
        signal: root mean square of an encoding's entries, in units of the noise's standard
            deviation; 0 leaves the encoding as it comes, as the paper writes it.
        pool: which nodes may be hidden as ground truth: all of them, or the validation nodes, as
            the authors' code does.
        impaired_share: h, share of the pool that is hidden (paper: 0.5).
        epochs: passes over the impaired graph before the averaging rounds (paper: 50).
        batch_size: nodes in a mini-batch of DGen's training (paper: 32).
        learning_rate: of SGD on DGen (paper: 0.1).
        degree_weight: β^d of the missing-degree loss (paper: 1, as the other two).
        own_weight: β^f of the distance to the silo's own prototypes.
        foreign_weight: β^n of the distance to the other silos' prototypes.
        class_weight: λᶜ of NeighGen's classification loss, for FedSage alone.
        distances: ``scaled`` divides squared distances by √d_z and takes the mean over the other
            silos, ``mean`` divides by d_z; ``summed`` is the paper's formula. Summed, rows told no
            more of the class than its majority does, and ñ was almost constant (Cora, one seed,
            rates 0.1 and 0.01).
        refresh: averaging rounds after which the neighbours are generated anew and DGen takes a
            joint step with F; the rounds in between reuse the same neighbours.
        centred: F gets z̄ minus its mean over the silo's nodes, so that z̄ = 0 stands for an average
            neighbour rather than for an input that F has never seen; not in the paper.
        shown: share of the nodes whose z̄ F sees in a round of training, drawn anew for each; the
            others' is 0. F is asked with z̄ and, at the paper's inference, without; trained with
            it alone, F relies on it and loses what it knew without (not in the paper).
        joint_batches: mini-batches of DGen's joint training with F at each refresh; 0 leaves DGen
            as pretrained. After ten rounds the gradient of Lᶜ is about as long as that of Lⁿ.
    """

    slots: Annotated[int, Ge(1)] = 5
    keep: Annotated[float, Gt(0), Le(1)] = 0.5
    sampler: Literal["select", "thin"] = "select"
    rounding: Literal["random", "nearest"] = "random"
    signal: Annotated[float, Ge(0)] = 3.0
    pool: Literal["all", "val"] = "all"
    impaired_share: Annotated[float, Gt(0), Le(1)] = 0.5
    epochs: Annotated[int, Ge(0)] = 50
    batch_size: Annotated[int, Ge(1)] = 32
    learning_rate: Annotated[float, Gt(0)] = 0.1
    degree_weight: Annotated[float, Ge(0)] = 1.0
    own_weight: Annotated[float, Ge(0)] = 1.0
    foreign_weight: Annotated[float, Ge(0)] = 1.0
    class_weight: Annotated[float, Ge(0)] = 1.0
    distances: Literal["scaled", "mean", "summed"] = "scaled"
    refresh: Annotated[int, Ge(1)] = 10
    centred: bool = True
    shown: Annotated[float, Gt(0), Le(1)] = 0.2
    joint_batches: Annotated[int, Ge(0)] = 3


@dataclass(frozen=True, eq=False)
class Generated:
    """Generated neighbours of n nodes, P slots for each.

    Attributes:
        degree: ``(n,)`` ñ, the predicted number of missing neighbours, not rounded.
        rows: ``(k, d_z)`` z̃, the rows that were generated: all n · P, or those that are kept.
        places: ``(k,)`` node · P + slot of each row.
        kept: ``(k,)`` 1 where a row is taken and kept by the Bernoulli sampler, else 0.
        slots: P.
    """

    degree: Tensor
    rows: Tensor
    places: Tensor
    kept: Tensor
    slots: int

    @property
    def nodes(self) -> Tensor:
        """``(k,)`` whose neighbour each row is."""
        return self.places // self.slots

    def mean(self) -> Tensor:
        """z̄, the mean of each node's kept rows; the zero vector where there are none."""
        nodes = self.nodes
        total = self.rows.new_zeros(len(self.degree), self.rows.shape[1])
        total = total.index_add(0, nodes, self.rows * self.kept.unsqueeze(1))
        count = torch.zeros_like(self.degree).index_add(0, nodes, self.kept)
        return total / count.unsqueeze(1).clamp(min=1)


class DeepGenerator(nn.Module):
    """DGen.

    Args:
        model: shape of the encoder, as F's.
        spec: slots and keep rate.
        features: d, feature columns.
        embedding: d_z, width of the generated rows.
    """

    def __init__(
        self, model: ModelSpec, spec: GeneratorSpec, features: int, embedding: int
    ) -> None:
        super().__init__()
        self.spec = spec
        self.embedding = embedding
        self.encoder = FusedSage(model, features, model.hidden)
        self.degree = nn.Parameter(torch.empty(model.hidden, 1))
        self.degree_bias = nn.Parameter(torch.empty(1))
        self.hidden = nn.Parameter(torch.empty(model.hidden, model.hidden))
        self.hidden_bias = nn.Parameter(torch.empty(model.hidden))
        self.rows = nn.Parameter(torch.empty(model.hidden, spec.slots * embedding))
        self.rows_bias = nn.Parameter(torch.empty(spec.slots * embedding))

    @property
    def head(self) -> dict[str, Tensor]:
        """The parameters of the generating part, see :func:`rows_at`."""
        return {name: getattr(self, name) for name in HEAD}

    def forward(
        self,
        table: FeatureTable,
        ego: EgoGraphs,
        rng: np.random.Generator,
        *,
        every: bool = False,
    ) -> Generated:
        """Generates neighbours for the targets of ``ego``.

        Args:
            table: the graph's features.
            ego: the nodes and lists to compute on.
            rng: for noise and selection.
            every: generate all rows. Otherwise wide rows are generated only if they are kept; for
                narrow ones a single product for all of them is faster.
        """
        inputs, degree = self.encode(table, ego, rng)
        kept, slots = select(degree, self.spec, rng), self.spec.slots
        if every or self.embedding < WIDE:
            hidden = torch.relu(torch.addmm(self.hidden_bias, inputs, self.hidden))
            rows = torch.tanh(torch.addmm(self.rows_bias, hidden, self.rows))
            places = torch.arange(kept.numel(), device=kept.device)
            return Generated(degree, rows.view(-1, self.embedding), places, kept.view(-1), slots)
        rows, places = rows_at(self.head, inputs, kept.bool())
        return Generated(degree, rows, places, torch.ones_like(rows[:, 0]), slots)

    def encode(
        self, table: FeatureTable, ego: EgoGraphs, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor]:
        """h with its noise, ``(n, d_h)``, and ñ, ``(n,)``, of the targets.

        A normalised encoding has entries of mean square 1, and the noise is divided by the signal:
        N(0, 1) on an encoding that much larger, but for a factor that the next layer would undo.
        ñ reads it at unit length, or a step of SGD would change ñ by as much as h has entries.
        """
        h = self.encoder(table, ego)
        noise = torch.from_numpy(rng.standard_normal(tuple(h.shape), np.float32)).to(h.device)
        if not self.spec.signal:
            h = torch.relu(h)
            degree = torch.relu(h @ self.degree + self.degree_bias).squeeze(1)
            return h + noise, degree
        h = normalised(h)
        weights = self.degree / h.shape[1] ** 0.5
        degree = torch.relu(h @ weights + self.degree_bias).squeeze(1)
        return h + noise / self.spec.signal, degree


def normalised(h: Tensor) -> Tensor:
    """Each row minus its mean, ReLU, then scaled to mean square 1 over its entries."""
    positive = torch.relu(h - h.mean(dim=1, keepdim=True))
    return positive * torch.rsqrt(positive.square().mean(dim=1, keepdim=True) + _TINY)


def rows_at(head: Mapping[str, Tensor], inputs: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of some slots, ``(k, d_z)``, and their places, node · P + slot, ``(k,)``.

    Args:
        head: the generating part.
        inputs: ``(b, h)``.
        wanted: ``(b, P)`` True for the k rows to generate.
    """
    hidden = torch.relu(torch.addmm(head["hidden_bias"], inputs, head["hidden"]))
    slots = wanted.shape[1]
    matrices = head["rows"].view(hidden.shape[1], slots, -1).unbind(1)
    biases = head["rows_bias"].view(slots, -1).unbind(0)
    nodes = [column.nonzero().squeeze(1) for column in wanted.unbind(1)]
    rows = [torch.addmm(b, hidden[v], w) for b, v, w in zip(biases, nodes, matrices, strict=True)]
    places = [own * slots + slot for slot, own in enumerate(nodes)]
    return torch.tanh(torch.cat(rows)), torch.cat(places)


def select(degree: Tensor, spec: GeneratorSpec, rng: np.random.Generator) -> Tensor:
    """Which rows are used, ``(n, P)``, 1 or 0: ñ rows at most, sampled at rate r."""

    def uniform(*shape: int) -> Tensor:
        return torch.from_numpy(rng.random(shape, np.float32)).to(degree.device)

    wanted = degree.detach().unsqueeze(1)
    if spec.rounding == "random":
        wanted = torch.floor(wanted + uniform(len(degree), 1))
    else:
        wanted = torch.round(wanted)
    passed = uniform(len(degree), spec.slots) < spec.keep
    slot = torch.arange(spec.slots, device=degree.device)
    before = slot if spec.sampler == "thin" else passed.cumsum(dim=1) - 1
    return (passed & (before < wanted)).float()
