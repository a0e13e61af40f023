"""The parts of NeighGen's training across silos: what is shared, compared, generated."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from feddep.graph.graph import Features
from feddep.learning.expansion import stacked
from feddep.learning.generation import GeneratorTraining
from feddep.models.generator import DeepGenerator, GeneratorSpec
from feddep.seeding import Seeds

Arrays = Mapping[str, npt.NDArray[Any]]

HEAD = ("hidden", "hidden_bias", "rows", "rows_bias")
"""The parameters of the generating part; the encoder stays in the silo."""


def shared(training: GeneratorTraining, generator: DeepGenerator, seeds: Seeds) -> Arrays:
    """The generating part, and its inputs for a batch of nodes.

    ``inputs`` are ``(b, h)`` encodings with noise, ``kept`` ``(b, P)`` tells the rows that count.
    """
    ego, table = training.sample(training.silo.recipe.generator.batch_size, seeds)
    with torch.no_grad():
        inputs, degree = generator.encode(table, ego, seeds.stream("noise"))
    taken = torch.arange(generator.spec.slots) < torch.round(degree.cpu()).unsqueeze(1)
    head = {name: getattr(generator, name).detach().cpu().numpy() for name in HEAD}
    return {**head, "inputs": inputs.cpu().numpy(), "kept": taken.numpy()}


def pull(sent: Arrays, features: Features) -> Arrays:
    """The gradient, for another silo's generating part, of the distances to the nearest nodes.

    Args:
        sent: what :func:`shared` gave there.
        features: of this silo's nodes.
    """
    head = {name: torch.tensor(sent[name], requires_grad=True) for name in HEAD}
    rows = _rows(head, torch.tensor(sent["inputs"]), features.shape[1])
    rows = rows[torch.tensor(sent["kept"])]
    nearest = _nearest(rows.detach().numpy(), features)
    loss = (rows - torch.tensor(nearest)).square().sum() / len(sent["inputs"])
    gradients = torch.autograd.grad(loss, list(head.values()))
    return {name: g.numpy() for name, g in zip(head, gradients, strict=True)}


def descend(generator: DeepGenerator, gradients: Arrays, spec: GeneratorSpec) -> None:
    """A step along the other silos' gradients."""
    rate = spec.learning_rate * spec.foreign_weight
    with torch.no_grad():
        for name, gradient in gradients.items():
            parameter: Tensor = getattr(generator, name)
            parameter.sub_(torch.tensor(gradient, device=parameter.device), alpha=rate)


def generate(
    training: GeneratorTraining, generator: DeepGenerator, seeds: Seeds
) -> tuple[npt.NDArray[np.int64], Features]:
    """Links to new nodes and their features, for every node of the silo that misses some.

    Generated features are dense. Where the silo's own are sparse, a new node keeps as many of
    its largest entries as the silo's nodes have in the mean, or a graph of many columns would
    outgrow every memory.
    """
    own = training.silo.graph.features
    entries = None if isinstance(own, np.ndarray) else max(1, round(own.nnz / own.shape[0]))
    links: list[npt.NDArray[np.int64]] = []
    parts: list[Features] = []
    for nodes, found in training.generated(generator, seeds):
        chosen = found.kept.cpu().numpy() > 0
        links.append(np.repeat(nodes, chosen.sum(axis=1)))
        rows = found.rows.cpu().numpy()[chosen]
        parts.append(rows if entries is None else _largest(rows, entries))
    owners = np.concatenate(links)
    return np.stack([owners, np.arange(len(owners))], axis=1), stacked(parts)


def _rows(head: Mapping[str, Tensor], inputs: Tensor, width: int) -> Tensor:
    hidden = torch.relu(torch.addmm(head["hidden_bias"], inputs, head["hidden"]))
    return torch.tanh(torch.addmm(head["rows_bias"], hidden, head["rows"])).view(
        len(inputs), -1, width
    )


def _nearest(rows: npt.NDArray[np.float32], features: Features) -> npt.NDArray[np.float32]:
    """For each row the features of the nearest node, ``(k, d)``."""
    squares = np.asarray((features * features).sum(axis=1)).ravel()
    distances = squares[:, None] - 2 * (features @ rows.T)  # up to a constant for each row
    chosen = features[distances.argmin(axis=0)] if len(rows) else features[:0]
    return chosen if isinstance(chosen, np.ndarray) else chosen.toarray()


def _largest(rows: npt.NDArray[np.float32], entries: int) -> sp.csr_array:
    """Each row's largest entries by size, the rest zero."""
    count = min(entries, rows.shape[1])
    columns = np.sort(np.argpartition(-np.abs(rows), count - 1, axis=1)[:, :count], axis=1)
    values = np.take_along_axis(rows, columns, axis=1)
    indptr = np.arange(len(rows) + 1) * count
    return sp.csr_array((values.ravel(), columns.ravel(), indptr), shape=rows.shape)
