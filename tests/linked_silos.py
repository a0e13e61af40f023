"""A few linked silos, and what a server that carries their messages sees."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from feddep.federation.client import Client
from feddep.federation.inspection import Expected, inspect_reply, inspect_request
from feddep.federation.messages import Reply, Request, State
from feddep.federation.phase import Ask
from feddep.graph.graph import Graph
from feddep.graph.outside import OutsideLinks
from feddep.learning.link_codes import LinksSpec
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.phases.link_matching import LinkMatching
from feddep.privacy.pair_keys import LinkKeys

NAMES = ("bank-a", "bank-b", "bank-c")
PHASE = LinkMatching()


def linked(
    client: int,
    ids: Sequence[int | str],
    links: Sequence[tuple[int, str, int | str]] = (),
    *,
    seed: int = 0,
    run: str = "a run",
    names: Sequence[str] = NAMES,
    one_sided: bool = False,
    answers: int | None = None,
) -> Silo:
    """A silo with nodes of these ids and links: own number, name of the other silo, id there.

    Where links may be one-sided, ``answers`` limits for how many nodes without a link others are
    answered.
    """
    outside = None
    if links:
        outside = OutsideLinks.of(*(list(column) for column in zip(*links, strict=True)))
    graph = Graph.from_edges(
        [], np.ones((len(ids), 1)), np.arange(len(ids)) % 2, node_ids=ids, outside=outside
    )
    spec = LearningSpec(features=1, classes=2, seed=seed, links=LinksSpec(one_sided=one_sided))
    keys = replace(LinkKeys.simulated(seed, run, client, names), one_sided=answers)
    return Silo(client, graph, spec, torch.device("cpu"), links=keys)


def three_banks(**options) -> list[Silo]:
    """a and b have three links in common, a and c one; each claims others that only it has."""
    return [
        linked(
            0,
            ["ann", "abe", "amy"],
            [
                (2, "bank-b", 20),
                (0, "bank-b", 10),
                (0, "bank-b", 20),
                (1, "bank-b", 30),
                (1, "bank-c", "7"),
            ],
            **options,
        ),
        linked(
            1,
            [30, 20, 10],
            [
                (1, "bank-a", "amy"),
                (1, "bank-a", "ann"),
                (2, "bank-a", "ann"),
                (0, "bank-a", "amy"),
            ],
            **options,
        ),
        linked(2, [5, 7], [(1, "bank-a", "abe"), (0, "bank-b", 10)], **options),
    ]


@dataclass
class Carrier:
    """Carries messages between silos, inspects them as both ends would, and keeps them all.

    Attributes:
        silos: the silos.
        away: numbers of silos that do not answer, by step.
        said: every request with its reply.
    """

    silos: Sequence[Silo]
    away: Mapping[str, set[int]] = field(default_factory=dict)
    said: list[tuple[Request, Reply]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states: list[State] = [{} for _ in self.silos]
        spec = self.silos[0].spec
        nodes = sum(silo.graph.nodes for silo in self.silos)
        self.expected = Expected(phases={PHASE.name: PHASE.steps(spec)}, all_nodes=nodes)
        self.clients = [Client(silo, [PHASE], spec, silo.graph.nodes) for silo in self.silos]

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        found = []
        for request in requests:
            if request.client in self.away.get(request.step, ()):
                continue
            inspect_request(request, self.expected)
            client, state = self.clients[request.client], self.states[request.client]
            reply, self.states[request.client] = client.handle(request, state)
            inspect_reply(reply, request, self.expected)
            self.said.append((request, reply))
            found.append(reply)
        return found

    @property
    def seen(self) -> bytes:
        """Everything that the server has seen, in a row."""
        arrays = [
            array
            for request, reply in self.said
            for array in (*request.arrays.values(), *reply.arrays.values())
        ]
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def match(silos: Sequence[Silo], **options) -> Carrier:
    """Has the silos find out which links they have in common."""
    carrier = Carrier(silos, **options)
    PHASE.serve(silos[0].spec, Ask(len(silos), PHASE.name, 0, carrier.exchange), {})
    return carrier


def links_of(state: State, peer: int) -> dict[str, list[int]]:
    """What a silo remembers of its links to a peer."""
    return {
        part: state[f"links/{peer}/{part}"].tolist()
        for part in ("own", "shown", "place")
        if f"links/{peer}/{part}" in state
    }


def pairs(silos: Sequence[Silo], carrier: Carrier, one: int, other: int) -> set[tuple]:
    """The ids of both ends of every link that a silo matched, found through ``place``."""
    mine, there = links_of(carrier.states[one], other), links_of(carrier.states[other], one)
    own, others = silos[one].graph.node_ids, silos[other].graph.node_ids
    ends = np.array(there["shown"], int)[mine["place"]]
    return set(zip(own[mine["own"]].tolist(), others[ends].tolist(), strict=True))
