"""One audited run: canaries in, an ordinary run with its messages kept, attackers' scores out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.audit.attacks import ATTACKS
from feddep.audit.crafted import CraftingServer, craft_named
from feddep.audit.inversion import Inversion, invert
from feddep.audit.knowledge import Floats, Knowledge, Served
from feddep.audit.pairs import Bools, Pairs, draw_canaries, draw_decoys, with_edges
from feddep.audit.planted import LISTS, NOISED, SUMS, with_leaks
from feddep.audit.transcript import Recorder
from feddep.errors import InputError, unknown
from feddep.federation.messages import Arrays, Request, State, group
from feddep.federation.metering import Meter, Transport
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.shard import Shards
from feddep.learning.private_training import without_edges
from feddep.learning.silo import open_silo
from feddep.learning.spec import LearningSpec
from feddep.privacy.accountant import Guarantee, price, worst_of
from feddep.runs.accounting import mechanism_events, message_events
from feddep.runtime.inprocess import InProcess
from feddep.scenario.build import build_shards, initial_server_state, learning_spec_for
from feddep.scenario.spec import RunSpec
from feddep.seeding import Seeds

NEGATIVES = 1000
"""True positives at 1% false positives need this many pairs that are not edges."""

SECRETS = ("edges", "classes")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is fixed before a run is audited.

    Attributes:
        canaries: m; None takes as many as there is room for.
        share: of the canaries to guess about, for an attacker who can only rank them; on those in
            the middle it abstains.
        leak: plant a leak: every client also releases its raw neighbour sums.
        crafted: how the server makes up the classifiers that it sends, one of
            :data:`~.crafted.CRAFTS`; None sends those of the method.
        secrets: what coins decide: ``edges`` inside clients, or the confirmed ``classes`` of nodes
            that linked silos tell each other of (:mod:`~.linked`).
    """

    canaries: int | None = None
    share: float = 1.0
    leak: bool = False
    crafted: str | None = None
    secrets: str = "edges"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:  # before hours of runs, not after
            raise InputError(
                f"the share of canaries to guess about is in (0, 1] (got {self.share})"
            )
        if self.crafted is not None:
            craft_named(self.crafted)
        if self.secrets not in SECRETS:
            raise unknown("kind of secrets", self.secrets, SECRETS)
        if self.secrets != "edges" and (self.leak or self.crafted):
            raise InputError(
                "a planted leak and a crafted server are about edges; leave them out of an audit "
                "of classes"
            )


@dataclass(frozen=True, eq=False)
class Trial:
    """The result of one audited run.

    Attributes:
        included: ``(m,)``, the coins.
        scores: by attack, ``(m + decoys,)``; the canaries come first.
        claim: what is promised about one undirected edge, or about one node.
        inversions: one for each client that released prototypes.
    """

    included: Bools
    scores: dict[str, Floats]
    claim: Guarantee
    inversions: Sequence[Inversion]


def run_trial(spec: RunSpec, plan: Plan) -> Trial:
    """Audits one run of the spec, in this process."""
    method = audited_method(spec, plan)
    shards = build_shards(spec)
    graphs, seeds = list(shards), Seeds(spec.seed).child("audit")
    canaries = draw_canaries(graphs, plan.canaries, seeds.stream("canaries"))
    if not len(canaries):
        raise InputError(
            "expected a client with two nodes that are not linked, to plant a canary (got none)"
        )
    decoys = draw_decoys(graphs, canaries, NEGATIVES, seeds.stream("decoys"))
    included = seeds.stream("coins").random(len(canaries)) < 0.5
    planted = with_edges(shards, canaries.where(included))
    learning = learning_spec_for(spec, planted.graph, method)
    recorder, states, claim = _observed(planted, method, learning, spec, plan)
    known = Knowledge(recorder, graphs, learning, _served(planted, learning, recorder))
    pairs = Pairs.joined([canaries, decoys])
    scores = {
        name: np.nan_to_num(attack.scores(known, pairs))  # crafted weights may overflow
        for name, attack in ATTACKS.items()
        if attack.applies(known)
    }
    return Trial(included, scores, claim, _inversions(planted, learning, recorder, states))


def audited_method(spec: RunSpec, plan: Plan) -> Method:
    """The method with the positive control's release and, if asked for, a leak."""
    name, method = spec.method, find_method(spec.method)
    if method.whole_graph:
        raise InputError(
            f"expected a federated method (got {name}, which trains on the whole graph and sends "
            "nothing to attack)"
        )
    if spec.privacy.edges_capped and not plan.leak:
        return method  # whose lists are the true ones: no control could be handed them
    if not spec.privacy.sums:
        return with_leaks(method, [LISTS, SUMS] if plan.leak else [LISTS])
    if plan.leak:
        raise InputError(
            "under aggregation-perturbation a silo has no lists whose sums could leak; leave out "
            "--plant-leak: the noised sums are attacked as they are"
        )
    return with_leaks(method, [NOISED])


def _observed(
    shards: Shards, method: Method, learning: LearningSpec, spec: RunSpec, plan: Plan
) -> tuple[Recorder, Sequence[State], Guarantee]:
    """Runs the method; the messages, the clients' memories at the end, and what is claimed."""
    with InProcess(shards, method, learning, workers=1, device="cpu") as runtime:
        recorder = Recorder(runtime)
        meter = Meter(_server(recorder, spec, plan))
        start = Progress(state=initial_server_state(shards, method))
        run_phases(method.phases, learning, runtime.clients, meter, start, lambda *_: None)
        states = runtime.states()
    prices = [
        price(
            [*mechanism_events(method, learning, graph), *message_events(meter.sent, client)],
            graph.nodes,
            spec.privacy.delta_prime,
        )
        for client, graph in enumerate(shards)
    ]
    return recorder, states, worst_of(prices).sound


def _server(recorder: Recorder, spec: RunSpec, plan: Plan) -> Transport:
    if plan.crafted is None:
        return recorder
    seeds = Seeds(spec.seed).child("audit", "crafted")
    return CraftingServer(recorder, craft_named(plan.crafted), seeds)


def _served(shards: Shards, learning: LearningSpec, recorder: Recorder) -> list[Served]:
    """The clients with the last classifier that they received; empty if there was none.

    A client whose gradients alone are noised has nothing but its nodes to predict from.
    """
    last = [weights for request, _ in recorder.messages if (weights := _classifier(request))]
    if not last:
        return []
    model = learning.classifier(last[-1])
    found: list[Served] = []
    for client, graph in enumerate(shards):
        left = open_silo(client, graph, learning, torch.device("cpu")).graph
        if learning.privacy.edges_capped:
            left = without_edges(left)
        found.append(Served(model, left))
    return found


def _classifier(request: Request) -> Arrays:
    return group(request.arrays, "classifier")


def _inversions(
    shards: Shards, learning: LearningSpec, recorder: Recorder, states: Sequence[State]
) -> list[Inversion]:
    return [
        invert(
            np.asarray(reply.arrays["prototypes"]),
            np.asarray(states[reply.client]["cluster"]),
            open_silo(reply.client, shards[reply.client], learning, torch.device("cpu")),
        )
        for _, reply in recorder.messages
        if "prototypes" in reply.arrays
    ]
