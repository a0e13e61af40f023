"""Generated neighbours go to the other clients, which return the gradients of their distances.

This is what FedDEP replaces by prototypes. In every epoch each client sends what its DGen
generates; every other client finds, for each row, the nearest of its own nodes' embeddings and
answers with the gradient of the squared distance. The server adds the gradients up. With one other
client that gradient reveals the embedding of a node as it is; nothing here is private.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from feddep.federation.content import ByPeer, Count, Exactly, Gradients, Number, Rows, optional
from feddep.federation.messages import Arrays, Reply, Request, State, group, grouped, in_batches
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning.mending import (
    generator_training,
    targets_of,
    with_nodes_as_prototypes,
)
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays
from feddep.privacy.events import BernoulliSelection, Event

Floats = npt.NDArray[np.float32]

_ROWS_AT_ONCE = 128  # few enough for their distances to stay in the processor's cache


@dataclass(frozen=True)
class PeerSearch(Phase[Silo, LearningSpec]):
    """Trains every client's DGen with messages in each epoch."""

    name: str = "peer_search"

    def rounds(self, spec: LearningSpec) -> int:
        """One for each epoch of DGen's training, at least one: without any there is no DGen."""
        return max(1, spec.generator.epochs)

    def steps(self, spec: LearningSpec) -> Steps:
        """Generated rows go to the others, and their gradients come back, in every epoch."""
        axes = (spec.generator.slots, spec.embedding_width)
        own, foreign = Rows(Count.SOME_NODES, axes), Rows(Count.ALL_NODES, axes)
        told = {"gradients": optional(own), "pulls": Exactly((), "int64", optional=True)}
        return {
            "generate": Step(reply={"generated": own}),
            "compare": Step(
                request={"generated": ByPeer(foreign, optional=True)},
                reply={"gradients": Gradients()},
            ),
            "train": Step(request=told, numbers={"generator_loss": Number.REAL}),
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """Generated neighbours are kept with a probability, which the paper counts as privacy."""
        return [BernoulliSelection(spec.generator.keep)]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Passes generated rows on to all others, and their summed gradients back.

        A client whose rows nobody saw receives nothing, and trains on its own.
        """
        sent = {reply.client: reply.arrays for reply in ask.all("generate")}
        told: dict[int, Arrays] = {}
        for some in in_batches(sent):
            rows = {client: arrays["generated"] for client, arrays in some.items()}
            others = [
                grouped("generated", {str(j): r for j, r in rows.items() if j != client})
                for client in range(ask.clients)
            ]
            found = [group(reply.arrays, "gradients") for reply in ask.each("compare", others)]
            for client, own in rows.items():
                pulls = [gradients[str(client)] for gradients in found if str(client) in gradients]
                total = sum(pulls, np.zeros_like(own))
                told[client] = {"gradients": total, "pulls": np.array(len(pulls))}
        ask.each("train", [told.get(client, {}) for client in range(ask.clients)])
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Generates, compares the others' rows with its own embeddings, or trains for an epoch."""
        state = with_nodes_as_prototypes(silo, state)
        if request.step == "compare":
            own = torch.tensor(state["prototypes"])
            sent = group(request.arrays, "generated")
            gradients = {peer: pull(rows, own) for peer, rows in sent.items()}
            return Reply(request.client, grouped("gradients", gradients)), state

        training = generator_training(silo, state)
        generator = training.generator(group(state, "generator") or None)
        seeds = silo.seeds.child(self.name, request.round)
        if request.step == "generate":
            generated = training.generate(generator, seeds.child("generate"))
            return Reply(request.client, {"generated": generated}), state

        if "gradients" in request.arrays:
            generated = training.generate(generator, seeds.child("generate"))
            state = {**state, **_pulled(generated, request.arrays)}
        targets = targets_of(training, state)
        loss = training.pretrain(generator, seeds, 1, targets)
        state = {**state, **grouped("generator", to_arrays(generator))}
        return Reply(request.client, metrics={"generator_loss": loss}), state


def _pulled(generated: Floats, told: Arrays) -> State:
    """The point that the other clients pull each generated row to, in their mean.

    The sum of n squared distances to points t_j has the gradient of n times the squared distance
    to their mean. So a pull towards that mean is the same, as long as each row keeps its nearest
    nodes, that is, for one epoch.
    """
    pulls = int(told["pulls"])
    pulled = generated - told["gradients"] / np.float32(2 * max(1, pulls))
    return {"pulled": pulled, "pulls": np.array(pulls)}


def pull(rows: Floats, embeddings: torch.Tensor) -> Floats:
    """The gradient 2 (z̃ - z_u) for each generated row, u the nearest of the nodes."""
    flat = torch.from_numpy(np.array(rows)).reshape(-1, rows.shape[-1])
    squares, columns = (embeddings * embeddings).sum(dim=1), embeddings.T
    found = []
    for part in torch.split(flat, _ROWS_AT_ONCE):
        # ‖a‖² + ‖b‖² - 2 a·b in one place; rounding may leave it below 0.
        distances = (part * part).sum(dim=1, keepdim=True) + squares
        found.append(distances.addmm_(part, columns, alpha=-2).clamp_(min=0).argmin(dim=1))
    nearest = torch.cat(found)
    gradient: Floats = (2 * (flat - embeddings[nearest])).reshape(rows.shape).numpy()
    return gradient
