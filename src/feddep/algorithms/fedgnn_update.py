"""FedGNN with whole updates clipped and noised, the other reading of its noise.

Source: Wu et al. 2022, whose clip norm we use, and the paper's section 4.1, which sets σ = 2. What
a client trained in a round is clipped and noised once, before it is sent, in place of the gradients
of every step (:mod:`~feddep.algorithms.fedgnn`). Without clip and noise it is FedAvg on subgraphs
with their true neighbours as ordinary nodes: a yardstick beside the oracle.
"""

from dataclasses import replace

from feddep.algorithms import fedgnn
from feddep.learning.mending import AddedNodes
from feddep.phases.averaging import Averaging
from feddep.phases.neighbour_expansion import NeighbourExpansion

METHOD = replace(
    fedgnn.METHOD,
    name="fedgnn-update",
    summary="GraphSAGE averaged with noised updates; a third party expands the neighbourhoods.",
    phases=(NeighbourExpansion(), Averaging(mender=AddedNodes())),
    settings={},
    defaults={"training.update_clip": 0.1, "training.update_noise": 2.0},
)
