"""NeighGen, FedSage+'s generator of missing neighbours' features, trained across clients.

Source: Zhang et al. 2021, "Subgraph federated learning with missing neighbor generation". Every
client first trains its generator on its own impaired graph, together with a classifier that reads
what it generates and never leaves the silo. Then, in every epoch, it sends the generating part of
it and its inputs to all others; each of them generates, finds the nearest of its own nodes for
every row, and returns the gradient of the squared distances.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from feddep.federation.content import (
    ByPeer,
    Exactly,
    Gradients,
    Number,
    Parts,
    Rows,
    Weights,
)
from feddep.federation.messages import (
    ROOM,
    Arrays,
    Reply,
    Request,
    State,
    group,
    grouped,
    in_batches,
)
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning import neighgen
from feddep.learning.expansion import features_to
from feddep.learning.generation import distance_scales
from feddep.learning.mending import (
    forget_generator_training,
    generator_training,
    warn_if_dead,
    with_nodes_as_prototypes,
)
from feddep.learning.neighgen import NeighGen
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays
from feddep.privacy.events import Event

_ROOM = 1 << 30  # bytes of gradients that the server holds at a time
_CLASSIFIER = "neighgen_classifier"
_NEEDED_IN_TRAINING = ("prototypes", "cluster", _CLASSIFIER)


@dataclass(frozen=True)
class NeighGenTraining(Phase[Silo, LearningSpec]):
    """Trains every client's NeighGen, then adds what it generates to the client's graph."""

    name: str = "neighgen"

    def rounds(self, spec: LearningSpec) -> int:
        """One for each epoch across clients, at least one; as many epochs before are local."""
        return max(1, spec.generator.epochs)

    def steps(self, spec: LearningSpec) -> Steps:
        """A generator and its inputs go to the others, and gradients come back, in every epoch."""
        shapes, batch = neighgen.head_shapes(spec), spec.generator.batch_size
        shared = Parts(
            {
                **{name: Exactly(shape) for name, shape in shapes.items()},
                "inputs": Rows(batch, (spec.model.hidden,)),
                "kept": Rows(batch, (spec.generator.slots,), "bool"),
            },
            aligned=("inputs", "kept"),
        )
        trained = Step(
            request={"gradients": Weights(shapes, complete=False, optional=True)},
            numbers={"generator_loss": Number.REAL},
        )
        return {
            "share": Step(reply={"neighgen": shared}),
            "compare": Step(
                request={"neighgen": ByPeer(shared, optional=True)},
                reply={"gradients": Gradients(of=tuple(shapes))},
            ),
            "train": trained,
            "train and generate": trained,
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """None that has a price: what it reads of the lists leaves without any noise.

        Messages without noise leave a run without a guarantee, unless a mechanism acted before.
        """
        return []

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Passes generators and inputs on to all others, and their gradients back."""
        shared = {reply.client: reply.arrays for reply in ask.all("share")}
        sums: dict[int, Arrays] = {}
        for some in _at_once(shared, ask.clients):
            others = [
                _by_client({j: arrays for j, arrays in some.items() if j != client})
                for client in range(ask.clients)
            ]
            replies = ask.each("compare", others)
            found = [group(reply.arrays, "gradients") for reply in replies]
            for client in some:
                parts = [part for own in found if (part := group(own, str(client)))]
                _, scale = distance_scales(spec.generator, spec.features, max(1, len(parts)))
                total = _total(parts, np.float32(scale))
                sums[client] = grouped("gradients", total)
        last = ask.round == self.rounds(spec) - 1
        step = "train and generate" if last else "train"
        ask.each(step, [sums.get(client, {}) for client in range(ask.clients)])
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Shares the generator, compares others' rows with its own nodes, or trains an epoch."""
        if request.step == "compare":
            found: dict[str, npt.NDArray[np.float32]] = {}
            for client, arrays in _clients_of(group(request.arrays, "neighgen")).items():
                found |= grouped(client, neighgen.pull(arrays, silo.graph.features))
            return Reply(request.client, grouped("gradients", found)), state

        state = with_nodes_as_prototypes(silo, state)  # at their features
        training = generator_training(silo, state)
        generator = training.generator(group(state, "generator") or None)
        classifier = silo.classifier(group(state, _CLASSIFIER) or None)
        model = NeighGen(training, generator, classifier)
        seeds = silo.seeds.child(self.name, request.round)
        if not group(state, "generator"):
            model.train(seeds.child("local"), silo.spec.generator.epochs)
            state = _with_weights(state, model)
        if request.step == "share":
            shared = neighgen.shared(training, generator, seeds)
            return Reply(request.client, grouped("neighgen", shared)), state

        gradients = group(request.arrays, "gradients")
        neighgen.descend(generator, gradients, silo.spec.generator)
        loss = model.train(seeds, 1)
        state = _with_weights(state, model)
        if request.step == "train and generate":
            links, features = neighgen.generate(training, generator, seeds.child("generate"))
            warn_if_dead(silo, group(state, "generator"), generated=bool(len(links)))
            forget_generator_training(silo)  # it holds the features as a dense array
            kept = {n: a for n, a in state.items() if not n.startswith(_NEEDED_IN_TRAINING)}
            state = {**kept, **grouped("added", {"links": links, **features_to(features)})}
        return Reply(request.client, metrics={"generator_loss": loss}), state


def _with_weights(state: State, model: NeighGen) -> State:
    generator, classifier = to_arrays(model.generator), to_arrays(model.classifier)
    return {**state, **grouped("generator", generator), **grouped(_CLASSIFIER, classifier)}


def _at_once(shared: Mapping[int, Arrays], clients: int) -> Iterator[dict[int, Arrays]]:
    """The generators, a few at a time: each client answers each with a gradient of the same size.

    With 50 clients and the features of CiteSeer, all of these together would take 23 GB.
    """
    return in_batches(shared, min(ROOM, _ROOM // clients))


def _by_client(shared: Mapping[int, Arrays]) -> dict[str, npt.NDArray[np.float32]]:
    return {
        f"neighgen/{client}/{name}": array
        for client, arrays in shared.items()
        for name, array in group(arrays, "neighgen").items()
    }


def _clients_of(arrays: Arrays) -> dict[str, dict[str, npt.NDArray[np.float32]]]:
    clients = dict.fromkeys(name.partition("/")[0] for name in arrays)
    return {client: dict(group(arrays, client)) for client in clients}


def _total(parts: Sequence[Arrays], scale: np.float32) -> dict[str, npt.NDArray[np.float32]]:
    """Sums by name, in the clients' order, times a number; a client sends none about itself."""
    total: dict[str, npt.NDArray[np.float32]] = {}
    for arrays in parts:
        for name, array in arrays.items():
            total[name] = total[name] + array if name in total else np.array(array)
    return {name: scale * array for name, array in total.items()}
