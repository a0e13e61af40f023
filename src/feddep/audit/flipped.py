"""An attacker who knows the flipped graph, and looks for anything that the messages add to it.

Under a mechanism that perturbs the graph all messages are computed from what it left. Whoever has
that learns nothing more from them, and this attack does no better than the flips themselves, unless
something somewhere read the true graph.
"""

from dataclasses import dataclass

import numpy as np
import torch

from feddep.audit.knowledge import Floats, Knowledge, worlds_of
from feddep.audit.pairs import Pairs
from feddep.federation.messages import Arrays, group
from feddep.learning.silo import Silo
from feddep.learning.trainer import train
from feddep.models.weights import to_arrays
from feddep.privacy.perturb import perturbs

_LESS_THAN_A_FLIP = 0.4  # a pair's bit counts for 1


@dataclass(frozen=True)
class FlippedAttack:
    """A pair's bit in the flipped graph, and among equal bits what the weights say beyond them.

    The attacker repeats every training on the flipped graph, with the very draws of the client. S
    is what the client sent less that. The score is the bit plus 0.4 tanh of the standardised
    Σ gain(W + S) − gain(W − S), as in the attack on updates. S is 0 where all is as it should be,
    for methods that train a classifier and nothing else.
    """

    threshold: float | None = None

    def applies(self, known: Knowledge) -> bool:
        """See :class:`~.knowledge.Attack`."""
        return bool(known.left) and perturbs(known.spec.privacy) and known.trains_on_edges

    def scores(self, known: Knowledge, pairs: Pairs) -> Floats:
        """See :class:`~.knowledge.Attack`."""
        places, worlds = worlds_of(known, pairs, known.left)
        beyond, bits = np.zeros(len(pairs)), np.zeros(len(pairs))
        for client, own in enumerate(places):
            graph = known.left[client]
            numbers = graph.edge_list().astype(np.int64) @ [graph.nodes, 1]
            bits[own] = np.isin(np.sort(pairs.ends[own], axis=1) @ [graph.nodes, 1], numbers)
        for request, reply in known.trainings():
            client = reply.client
            received = group(request.arrays, "classifier")
            rest = self._rest(known, client, request.phase, request.round, received, reply.arrays)
            if any(array.any() for array in rest.values()):
                ahead = {name: w + rest[name] for name, w in received.items()}
                behind = {name: w - rest[name] for name, w in received.items()}
                gains = worlds[client].gains(ahead) - worlds[client].gains(behind)
                beyond[places[client]] += gains
        spread = float(beyond.std())
        return bits + _LESS_THAN_A_FLIP * np.tanh(beyond / spread if spread else beyond)

    @staticmethod
    def _rest(
        known: Knowledge, client: int, phase: str, round: int, received: Arrays, sent: Arrays
    ) -> Arrays:
        """S."""
        silo = Silo(client, known.left[client], known.spec, torch.device("cpu"))
        model = silo.classifier(received)
        train(model, silo, silo.seeds.child(phase, round))
        expected, found = to_arrays(model), group(sent, "classifier")
        return {name: found[name] - array for name, array in expected.items()}
