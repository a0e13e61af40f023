"""FedGNN: neighbours expanded through a trusted third party; updates clipped and noised.

Source: Wu et al. 2022, whose clip norm we use, and the paper's section 4.1, which sets σ = 2. In
the original, a server that is trusted with encrypted ids matches users across clients and returns
fixed embeddings of their neighbours. Here it returns the neighbours' features, and GraphSAGE runs
on the subgraph with those nodes added.
"""

from feddep.algorithms.method import Method
from feddep.learning.mending import AddedNodes
from feddep.phases.averaging import Averaging
from feddep.phases.neighbour_expansion import NeighbourExpansion

METHOD = Method(
    name="fedgnn",
    summary="GraphSAGE averaged with noised updates; a third party expands the neighbourhoods.",
    phases=(NeighbourExpansion(), Averaging(mender=AddedNodes())),
    defaults={"training.update_clip": 0.1, "training.update_noise": 2.0},
    sees_cross_edges=True,
)
