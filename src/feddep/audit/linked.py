"""An audit of linked silos: what their answers tell about single nodes, to those who may ask.

A *secret* is the confirmed class of a training node that has a link to another silo: a fair coin
makes it one of two. The silo's answers about the node are promised to tell them apart with odds of
at most e^ε. What its training sends is not part of that promise, and is not attacked here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.audit.knowledge import Floats
from feddep.audit.transcript import Recorder
from feddep.audit.trial import Plan, Trial
from feddep.errors import InputError
from feddep.federation.messages import Arrays, State, group
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.graph import Part
from feddep.graph.shard import Shards
from feddep.learning.link_codes import CodePart, likelihoods
from feddep.learning.spec import LearningSpec
from feddep.privacy.accountant import Guarantee
from feddep.privacy.links import link_epsilon
from feddep.runs.accounting import mechanism_events
from feddep.runtime.inprocess import InProcess
from feddep.scenario.build import build_shards, check_links, initial_server_state, learning_spec_for
from feddep.scenario.spec import RunSpec
from feddep.seeding import Seeds

Longs = npt.NDArray[np.int64]

ANSWERS, SEALED = "answers", "sealed"
ATTACKERS = (ANSWERS, SEALED)
"""A silo that asks, and the server, which carries the answers and reads them as if unsealed."""

_LENGTH = 8  # bytes before the first answer of an opened message
_WORD = np.dtype("<u2")


@dataclass(frozen=True, eq=False)
class Secrets:
    """Nodes whose confirmed class is one of two.

    Attributes:
        client: ``(m,)`` whose.
        node: ``(m,)`` the client's number of the node.
        everywhere: ``(m,)`` its number in the whole graph.
        classes: ``(m, 2)`` the classes for tails and heads.
    """

    client: Longs
    node: Longs
    everywhere: Longs
    classes: Longs


def run_linked_trial(spec: RunSpec, plan: Plan) -> Trial:
    """Audits the answers of one run of linked silos, in this process."""
    method, shards = find_method(spec.method), build_shards(spec)
    check_links(shards, method)
    seeds = Seeds(spec.seed).child("audit", "linked")
    secrets = draw_secrets(shards, plan.canaries, seeds.stream("nodes"))
    coins = seeds.stream("coins").random(len(secrets.node)) < 0.5
    planted = with_classes(shards, secrets, coins)
    learning = learning_spec_for(spec, planted.graph, method)
    parts = list(_parts(learning))
    if not method.linked or method.fusion != "codes" or not parts:
        raise InputError(
            "expected silos that tell each other codes with confirmed classes, such as "
            f"--method feddep-linked with links.code=labels (got {method.name}, "
            f"{learning.links.code})"
        )
    recorder, states = _observed(planted, method, learning)
    scores = {
        ANSWERS: _heard(secrets, states, parts),
        SEALED: _carried(secrets, states, recorder, learning, parts),
    }
    epsilon = max(link_epsilon(mechanism_events(method, learning, graph)) for graph in planted)
    claim = Guarantee(epsilon, 0.0, "holds") if np.isfinite(epsilon) else Guarantee(None, 1, "none")
    return Trial(coins, scores, claim, [])


def draw_secrets(shards: Shards, count: int | None, rng: np.random.Generator) -> Secrets:
    """Training nodes with a link to another client, each with two classes that it may have.

    Args:
        shards: whose clients know their links.
        count: m; None takes all that there are.
        rng: for the choice of nodes and of the other class.
    """
    client, node, everywhere = [], [], []
    for number, rows in enumerate(shards.crossings()):
        members = shards.members(number)
        linked = np.unique(rows[:, 0])
        trained = linked[shards.graph.split[members[linked]] == Part.TRAIN]
        client.append(np.full(len(trained), number))
        node.append(trained)
        everywhere.append(members[trained])
    chosen = np.sort(rng.permutation(sum(map(len, node)))[:count])
    if not len(chosen):
        raise InputError("expected a training node with a link to another silo (got none)")
    own, labels = np.concatenate(everywhere)[chosen], shards.graph.labels.astype(np.int64)
    others = 1 + rng.integers(0, shards.graph.classes - 1, len(own))
    return Secrets(
        np.concatenate(client)[chosen],
        np.concatenate(node)[chosen],
        own,
        np.stack([labels[own], (labels[own] + others) % shards.graph.classes], axis=1),
    )


def with_classes(shards: Shards, secrets: Secrets, heads: npt.NDArray[np.bool_]) -> Shards:
    """The shards with the classes that the coins say."""
    labels = shards.graph.labels.copy()
    labels[secrets.everywhere] = np.where(heads, secrets.classes[:, 1], secrets.classes[:, 0])
    return replace(shards, graph=replace(shards.graph, labels=labels))


def _observed(
    shards: Shards, method: Method, learning: LearningSpec
) -> tuple[Recorder, Sequence[State]]:
    with InProcess(shards, method, learning, workers=1, device="cpu") as runtime:
        recorder = Recorder(runtime)
        start = Progress(state=initial_server_state(shards, method))
        run_phases(method.phases, learning, runtime.clients, recorder, start, lambda *_: None)
        return recorder, runtime.states()


def _parts(learning: LearningSpec) -> Iterator[tuple[int, CodePart, float | None]]:
    """The codes that tell a confirmed class: place, code and ε."""
    links = learning.links
    for place, part in enumerate(links.parts(learning.classes)):
        if part.kind in ("labels", "confirmed"):
            yield place, part, links.epsilon_of(part)


def _heard(
    secrets: Secrets, states: Sequence[State], parts: Sequence[tuple[int, CodePart, float | None]]
) -> Floats:
    """How much likelier heads makes what a silo at the other end was told."""
    scores = np.zeros(len(secrets.node))
    for asking, state in enumerate(states):
        peers, told = state["counterparties/peers"], state["counterparties/answers"]
        for peer in np.unique(peers).tolist():
            shown = states[peer][f"links/{asking}/shown"]
            _put(scores, secrets, peer, shown, told[peers == peer], parts)
    return scores


def _carried(
    secrets: Secrets,
    states: Sequence[State],
    recorder: Recorder,
    learning: LearningSpec,
    parts: Sequence[tuple[int, CodePart, float | None]],
) -> Floats:
    """The same, of what stands in the messages where answers would be if they were not sealed."""
    scores = np.zeros(len(secrets.node))
    width = len(learning.links.parts(learning.classes))
    for _, reply in recorder.messages:
        for asking, sealed in group(reply.arrays, "answers").items():
            shown = states[reply.client][f"links/{asking}/shown"]
            told = _read(sealed, len(shown), width)
            _put(scores, secrets, reply.client, shown, told, parts)
    return scores


def _read(sealed: Arrays | npt.NDArray[np.uint8], count: int, width: int) -> Longs:
    whole = np.asarray(sealed).tobytes()
    words = np.frombuffer(whole, _WORD, count * width, _LENGTH)
    return words.astype(np.int64).reshape(count, width)


def _put(
    scores: Floats,
    secrets: Secrets,
    client: int,
    shown: npt.NDArray[np.int32],
    told: npt.NDArray[np.integer],
    parts: Sequence[tuple[int, CodePart, float | None]],
) -> None:
    """Sets the scores of a client's secret nodes that are among those ``shown``."""
    own = np.flatnonzero((secrets.client == client) & np.isin(secrets.node, shown))
    if not len(own):
        return
    order = np.argsort(shown)
    rows = told[order[np.searchsorted(shown, secrets.node[own], sorter=order)]]
    total = np.zeros(len(own))
    for place, part, epsilon in parts:
        answers = rows[:, place].astype(np.int64) % part.values
        logs = np.log(np.maximum(likelihoods(part, answers, epsilon), 1e-12))
        tails, heads = secrets.classes[own].T
        each = np.arange(len(own))
        total += logs[each, heads] - logs[each, tails]
    scores[own] = total
