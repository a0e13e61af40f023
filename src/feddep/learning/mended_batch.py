"""A batch's ego-graphs with generated neighbours as nodes, through which gradients reach them.

Adding nodes to a graph takes a new graph; a batch needs them beside its own nodes only.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from feddep.graph.sampling import Block, EgoGraphs
from feddep.models.kernels import FeatureTable

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MendedBatch:
    """The ego-graphs of a batch with its targets' generated neighbours, linked both ways.

    Attributes:
        ego: the mended ego-graphs; generated nodes have the number -1.
        table: the features of the graph.
        rows: ``(k, d)`` features of the generated nodes, in their order among the ego's nodes.
    """

    ego: EgoGraphs
    table: FeatureTable
    rows: Tensor

    def times(self, nodes: Longs, weight: Tensor) -> Tensor:
        """See :meth:`~feddep.models.kernels.FeatureTable.times`."""
        known = self.table.times(nodes[nodes >= 0], weight)
        first = int(np.argmax(nodes < 0)) if len(self.rows) else 0
        return torch.cat([known[:first], self.rows @ weight, known[first:]])


def mended_batch(
    ego: EgoGraphs,
    table: FeatureTable,
    degrees: npt.NDArray[Any],
    owners: Tensor,
    rows: Tensor,
) -> MendedBatch:
    """The targets' ego-graphs with k new nodes, each linked to one of the targets.

    A list that was drawn with replacement, from fewer entries than it has, is cut to that many:
    the new nodes then count as much in a mean as the known ones.

    Args:
        ego: the sampled ego-graphs of t targets.
        table: the features of the graph.
        degrees: ``(t,)`` the targets' degrees.
        owners: ``(k,)`` the position of the target that each new node is linked to.
        rows: ``(k, d)`` the new nodes' features.
    """
    first = ego.blocks[-2].targets if len(ego.blocks) > 1 else len(ego.nodes)
    owner = owners.cpu().numpy()
    new = first + np.arange(len(owner))
    blocks = []
    for block in ego.blocks:
        known_targets, known_sources = _without_repetitions(block, degrees)
        targets = [_moved(known_targets, first, len(new)), owner]
        sources = [_moved(known_sources, first, len(new)), new]
        count = block.targets
        if block is not ego.blocks[-1]:  # which computes no new node
            targets.append(new)
            sources.append(owner)
            count += len(new)
        blocks.append(_block(np.concatenate(targets), np.concatenate(sources), count))
    nodes = np.insert(ego.nodes, first, np.full(len(new), -1))
    return MendedBatch(EgoGraphs(nodes, tuple(blocks)), table, rows)


def _without_repetitions(block: Block, degrees: npt.NDArray[Any]) -> tuple[Longs, Longs]:
    """Targets and sources of a block's links, the first targets' lists no longer than given."""
    lengths = np.diff(block.indptr)
    target = np.repeat(np.arange(block.targets), lengths)
    place = np.arange(len(target)) - np.repeat(block.indptr[:-1], lengths)
    kept = place < np.append(degrees, lengths[len(degrees) :])[target]
    return target[kept], block.indices[kept].astype(np.int64)


def _moved(positions: Longs, first: int, count: int) -> Longs:
    """Positions after ``count`` nodes were put in at the position ``first``."""
    return positions + count * (positions >= first)


def _block(targets: Longs, sources: Longs, count: int) -> Block:
    order = np.argsort(targets, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(targets, minlength=count))])
    return Block(indptr, sources[order].astype(np.int32), count)
