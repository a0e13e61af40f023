"""Leaks planted on purpose: an audit that does not find them has no teeth.

Each is a phase that can be added to any method. Like every phase, both act on the silo's graph as
its privacy mechanism left it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from feddep.algorithms.method import Method
from feddep.federation.content import Content, Count, Rows
from feddep.federation.messages import Arrays, Reply, Request, State
from feddep.federation.phase import AnyPhase, Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec

SUMS = "neighbour_sums"
LISTS = "neighbour_lists"
NOISED = "noised_sums"


@dataclass(frozen=True)
class Release(Phase[Silo, LearningSpec]):
    """One round in which every client sends something computed from its graph.

    Args:
        name: what is sent, :data:`SUMS`, :data:`LISTS` or :data:`NOISED`.
    """

    name: str

    def steps(self, spec: LearningSpec) -> Steps:
        """What is sent has a row for each node, or for each edge."""
        contents: dict[str, Content] = {
            SUMS: Rows(Count.NODES, (spec.features,)),
            LISTS: Rows(Count.NEIGHBOURS, (2,), "int32"),
            NOISED: Rows(Count.NODES, (spec.inputs - spec.features,)),
        }
        return {"release": Step(reply={self.name: contents[self.name]})}

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Asks, and does nothing with the answers: an attacker will."""
        ask.all("release")
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Sends it."""
        if self.name == NOISED:
            return Reply(request.client, {NOISED: _columns(silo)}), state
        return Reply(request.client, _CONTENT[self.name](silo.graph)), state


def with_leaks(method: Method, names: Sequence[str]) -> Method:
    """The method with releases before all else."""
    leaks: tuple[AnyPhase, ...] = tuple(Release(name) for name in names)
    return replace(method, phases=leaks + method.phases)


def adjacency(graph: Graph) -> sp.csr_array:
    """A, ``(n, n)``, with A[u, v] = 1 where u and v are linked."""
    ones = np.ones(len(graph.indices), np.float32)
    return sp.csr_array((ones, graph.indices, graph.indptr), (graph.nodes, graph.nodes))


def neighbour_sums(graph: Graph) -> Arrays:
    """Σ x_u over the neighbours u of every node, ``(n, d)``."""
    sums = adjacency(graph) @ graph.features
    return {SUMS: sums if isinstance(sums, np.ndarray) else sums.toarray()}


def neighbour_lists(graph: Graph) -> Arrays:
    """The edges, ``(E, 2)``."""
    return {LISTS: graph.edge_list()}


def _columns(silo: Silo) -> npt.NDArray[np.float32]:
    """The sums that aggregation perturbation puts beside the features, ``(n, K · classes)``."""
    columns = silo.graph.features[:, silo.spec.features :]
    found = columns if isinstance(columns, np.ndarray) else columns.toarray()
    return np.ascontiguousarray(found, np.float32)


_CONTENT = {SUMS: neighbour_sums, LISTS: neighbour_lists}
