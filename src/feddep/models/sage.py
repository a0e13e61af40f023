"""GraphSAGE with embedding-fused convolutions: the classifier F, and plain GraphSAGE as d_z = 0.

Source: the paper's section 3.1, "Embedding-fused Graph Convolution". With z̄_v the mean of v's
generated neighbours,

    x⁰_v = σ(W⁰ [x_v ‖ z̄_v]),    xᵏ_v = σ(Wᵏ [agg_v(xᵏ⁻¹) ‖ z̄_v]),    k = 1 … K,

no σ at k = K, where softmax follows. A product with a concatenation is a sum of products (the
paper's Statement 3.1), so the feature, neighbour and embedding parts are separate matrices and
the feature part of the first one stays a sparse product.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, Literal, cast

import numpy as np
import numpy.typing as npt
import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn

from feddep.errors import InputError
from feddep.graph.flows import Directions, ways
from feddep.graph.graph import Graph
from feddep.graph.sampling import Block, EgoGraphs, full_ego_graphs, whole_block, whole_graph
from feddep.models.dropout import DropoutStream
from feddep.models.kernels import FeatureTable, RowProducts, mean_of_neighbours
from feddep.seeding import Seeds

Form = Literal["closed", "separate"]
Fusion = Literal["none", "all", "last", "codes"]
"""Which layers take embeddings of missing neighbours; ``codes``: all of them, columns instead."""

# Above this many nodes a hidden layer of all of them takes more memory than the graph itself.
_NODES_AT_ONCE = 1 << 15
_SLICE = 1 << 9


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """The shape of the classifier F.

    Attributes:
        form: ``closed`` aggregates the mean over the closed neighbourhood, as the paper writes
            it; ``separate`` is GraphSAGE proper, W_own x_v + W_nbr mean N(v).
        layers: K, number of convolutions (paper: 2).
        hidden: d_h, width of the hidden layers (the paper does not say).
        dropout: share of hidden units dropped in training (the paper does not say).
        embedding_start: initial weights of the part for z̄: ``glorot`` like all others, or
            ``zero``, where F starts as if there were no embeddings (the paper does not say).
        weighted: neighbours count by the weights of their edges (the paper has none).
        directions: ``apart`` takes the mean over neighbours that edges lead to and the mean over
            those that edges come from, each with weights of its own; ``both`` takes one mean.
    """

    form: Form = "separate"
    layers: Annotated[int, Ge(1)] = 2
    hidden: Annotated[int, Ge(1)] = 128
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5
    embedding_start: Literal["glorot", "zero"] = "zero"
    weighted: bool = False
    directions: Directions = "both"

    def __post_init__(self) -> None:
        if self.reads_flows and self.form == "closed":
            raise InputError(
                "model.weighted and model.directions are about edges, and the closed form counts "
                "the node itself as a neighbour; choose model.form = separate"
            )

    @property
    def reads_flows(self) -> bool:
        """Whether direction or weight of edges count."""
        return self.weighted or self.directions == "apart"

    @property
    def means(self) -> int:
        """W, how many means over neighbours a convolution takes."""
        return 2 if self.directions == "apart" else 1

    def check(self, graph: Graph) -> None:
        """Refuses a graph that does not know the direction and weight that the model reads.

        Raises:
            InputError: that is so.
        """
        if self.reads_flows and graph.flows is None:
            raise InputError(
                f"model.weighted and model.directions need direction and weight of edges, which "
                f"{graph.name} does not have; feddep import --flows keeps them"
            )

    def ways(self, graph: Graph) -> npt.NDArray[np.float32] | None:
        """How much each entry of a graph's lists counts in each mean; None if all count alike."""
        self.check(graph)
        if not self.reads_flows or graph.flows is None:
            return None
        return ways(
            graph.indptr, graph.indices, graph.flows, self.directions, weighted=self.weighted
        )


class Convolution(nn.Module):
    """One embedding-fused convolution, ``(sources, inputs)`` → ``(targets, outputs)``.

    The weights for several means over neighbours stand one below the other.
    """

    def __init__(
        self, inputs: int, outputs: int, form: Form, embedding: int, means: int = 1
    ) -> None:
        super().__init__()
        self.neighbours = nn.Parameter(torch.empty(means * inputs, outputs))
        self.own = nn.Parameter(torch.empty(inputs, outputs)) if form == "separate" else None
        self.embedding = nn.Parameter(torch.empty(embedding, outputs)) if embedding else None
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor, block: Block, missing_embeddings: Tensor | None) -> Tensor:
        """``missing_embeddings`` is z̄ of the targets, ``(targets, d_z)``; None means zeros."""
        mean = mean_of_neighbours(x, block, closed=self.own is None)
        out = torch.addmm(self.bias, mean, self.neighbours)
        if self.own is not None:
            out = out.addmm_(x[: block.targets], self.own)
        return fuse(out, missing_embeddings, self.embedding)


class FusedSage(nn.Module):
    """The classifier F: an input layer on the features, then K embedding-fused convolutions.

    Args:
        spec: form, depth, width, dropout.
        features: d, feature columns.
        classes: outputs.
        embedding: d_z, width of generated embeddings; 0 gives plain GraphSAGE.
        last_only: only the last convolution takes them.
    """

    def __init__(
        self,
        spec: ModelSpec,
        features: int,
        classes: int,
        embedding: int = 0,
        *,
        last_only: bool = False,
    ) -> None:
        super().__init__()
        self.spec = spec
        before = 0 if last_only else embedding
        self.features = nn.Parameter(torch.empty(features, spec.hidden))
        self.embedding = nn.Parameter(torch.empty(before, spec.hidden)) if before else None
        self.bias = nn.Parameter(torch.empty(spec.hidden))
        widths = [spec.hidden] * spec.layers + [classes]
        taken = [before] * (spec.layers - 1) + [embedding]
        self.convolutions = nn.ModuleList(
            Convolution(inputs, outputs, spec.form, width, spec.means)
            for (inputs, outputs), width in zip(pairwise(widths), taken, strict=True)
        )

    def zero_embedding_weights(self) -> None:
        """Sets the embeddings' part of every layer to zero."""
        with torch.no_grad():
            for parameter in self._embedding_parts().values():
                parameter.zero_()

    def within(self, basis: Tensor) -> "FusedSage":
        """F for embeddings given by coordinates in a ``basis`` ``(k, d_z)`` of orthonormal rows.

        It shares F's memory except for the embeddings' part; :mod:`feddep.models.span` says why
        that part may be learnt in coordinates.
        """
        features, classes = len(self.features), len(cast(Convolution, self.convolutions[-1]).bias)
        with torch.device("meta"):
            inner = FusedSage(
                self.spec, features, classes, len(basis), last_only=self.embedding is None
            )
        weights = self.state_dict()
        for name in self._embedding_parts():
            weights[name] = basis @ weights[name]
        inner.load_state_dict(weights, assign=True)
        return inner

    def learn_from(self, inner: "FusedSage", basis: Tensor) -> None:
        """Maps what ``inner``, from :meth:`within`, has learnt in the basis back to all columns."""
        with torch.no_grad():
            learnt = inner.state_dict()
            for name, parameter in self._embedding_parts().items():
                parameter.add_(basis.T @ (learnt[name] - basis @ parameter))

    def _embedding_parts(self) -> dict[str, nn.Parameter]:
        return {n: p for n, p in self.named_parameters() if n.endswith("embedding")}

    def forward(
        self,
        table: RowProducts,
        ego: EgoGraphs,
        missing_embeddings: Tensor | None = None,
        dropout: DropoutStream | None = None,
    ) -> Tensor:
        """Class scores before softmax, ``(targets of the last block, classes)``.

        Args:
            table: the graph's features.
            ego: the nodes and lists to compute on.
            missing_embeddings: z̄ of ``ego.nodes``, ``(s, d_z)``; None is z̄ = 0, the paper's
                inference.
            dropout: the stream to draw masks from in training; None switches dropout off.
        """
        x = self._hidden(table, ego.nodes, ego.blocks[:-1], missing_embeddings, dropout)
        block = ego.blocks[-1]
        missing = None if missing_embeddings is None else missing_embeddings[: block.targets]
        return cast(Tensor, self.convolutions[-1](x, block, missing))

    def score_all(
        self, table: FeatureTable, graph: Graph, missing_embeddings: Tensor | None = None
    ) -> Tensor:
        """Class scores of every node with full neighbour lists, ``(n, classes)``.

        The same numbers as :meth:`forward` on :func:`~feddep.graph.sampling.whole_graph` up to
        rounding. A mean of products is the product of the mean, so the last convolution's input
        is multiplied as soon as it is computed; in a large graph some nodes at a time, so that no
        hidden layer of all nodes ever exists.
        """
        last = cast(Convolution, self.convolutions[-1])
        # Allocated at once: a list of slices would have to be copied together.
        ways, parts = self.spec.ways(graph), last.neighbours.chunk(self.spec.means)
        from_neighbours = [self.bias.new_empty(graph.nodes, part.shape[1]) for part in parts]
        from_own = None if last.own is None else torch.empty_like(from_neighbours[0])
        first = 0
        for ego in _row_slices(graph, self.spec.layers - 1, ways):
            missing = (
                None
                if missing_embeddings is None
                else missing_embeddings[torch.from_numpy(ego.nodes)]
            )
            x = self._hidden(table, ego.nodes, ego.blocks, missing, None)
            end = first + len(x)
            for rows, part in zip(from_neighbours, parts, strict=True):
                rows[first:end] = x @ part
            if from_own is not None and last.own is not None:
                from_own[first:end] = x @ last.own
            first = end
        scores = _means(from_neighbours, whole_block(graph, ways), closed=last.own is None)
        scores = fuse(scores.add_(last.bias), missing_embeddings, last.embedding)
        return scores if from_own is None else scores.add_(from_own)

    def hidden_states(
        self, table: FeatureTable, graph: Graph, nodes: npt.NDArray[np.int64]
    ) -> Tensor:
        """The last convolution's input for some nodes, with full neighbour lists."""
        ways = self.spec.ways(graph)
        ego = full_ego_graphs(graph, nodes, self.spec.layers - 1, ways=ways)
        return self._hidden(table, ego.nodes, ego.blocks, None, None)[: len(nodes)]

    def _hidden(
        self,
        table: RowProducts,
        nodes: npt.NDArray[np.int64],
        blocks: Sequence[Block],
        missing_embeddings: Tensor | None,
        dropout: DropoutStream | None,
    ) -> Tensor:
        """The last convolution's input: the input layer and all convolutions before it."""
        # In place where nobody else holds the array: half the memory, and faster.
        x = table.times(nodes, self.features).add_(self.bias)
        x = drop(fuse(x, missing_embeddings, self.embedding).relu_(), dropout)
        for block, convolution in zip(blocks, list(self.convolutions)[:-1], strict=True):
            missing = None if missing_embeddings is None else missing_embeddings[: block.targets]
            x = drop(convolution(x, block, missing).relu_(), dropout)
        return x


def _means(parts: list[Tensor], block: Block, *, closed: bool) -> Tensor:
    """The sum of the means over neighbours, each of rows of its own; empties the list."""
    if block.shares is None:
        return mean_of_neighbours(parts.pop(), block, closed=closed)
    found = [
        mean_of_neighbours(rows, replace(block, shares=block.shares[way : way + 1]))
        for way, rows in enumerate(parts)
    ]
    parts.clear()
    return sum(found[1:], start=found[0])


def _row_slices(
    graph: Graph, layers: int, ways: npt.NDArray[np.float32] | None
) -> Iterator[EgoGraphs]:
    """All nodes in order with full lists: at once, or some at a time in a large graph."""
    if graph.nodes <= _NODES_AT_ONCE:
        yield whole_graph(graph, layers, ways)
        return
    for first in range(0, graph.nodes, _SLICE):
        targets = np.arange(first, min(first + _SLICE, graph.nodes))
        yield full_ego_graphs(graph, targets, layers, ways=ways)


def fuse(x: Tensor, missing_embeddings: Tensor | None, weight: Tensor | None) -> Tensor:
    """Adds the embeddings' part z̄ W_z of a fused convolution, in place; nothing without them."""
    if missing_embeddings is None or weight is None:
        return x
    return x.addmm_(missing_embeddings, weight)


def drop(x: Tensor, stream: DropoutStream | None) -> Tensor:
    """Dropout in training; without a stream or a share to drop, x itself."""
    if stream is None or stream.share == 0:
        return x
    return x * torch.from_numpy(stream.mask(*x.shape)).to(x.device)


def initialise(model: nn.Module, seeds: Seeds) -> None:
    """Glorot-uniform matrices, U(±√(6 / (in + out))), and zero biases.

    Every parameter has a random stream named after it, so two models agree in what they share: F
    with and without embeddings starts from the same weights.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.zero_()
                continue
            bound = float(np.sqrt(6 / sum(parameter.shape)))
            drawn = seeds.stream(name).uniform(-bound, bound, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(drawn))
