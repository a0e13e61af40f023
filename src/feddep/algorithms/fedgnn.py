"""FedGNN: neighbours expanded through a trusted third party; gradients clipped and noised.

Source: Wu et al. 2022 and the paper's section 4.1, which gives FedGNN and FedDEP without NFDP the
same σ = 2 "to achieve the same level of edge-LDP protection". So the same mechanism is meant:
DP-SGD on the gradients, here on those of the classifier. In the original, a server that is trusted
with encrypted ids matches users across clients and returns fixed embeddings of their neighbours.
Here it returns the neighbours' features, and GraphSAGE runs on the subgraph with those nodes added.
:mod:`~feddep.algorithms.fedgnn_update` is the other reading.
"""

from feddep.algorithms.method import Method
from feddep.learning.mending import AddedNodes
from feddep.learning.private_training import train_privately
from feddep.phases.averaging import Averaging
from feddep.phases.neighbour_expansion import NeighbourExpansion

METHOD = Method(
    name="fedgnn",
    summary="GraphSAGE averaged, trained by DP-SGD; a third party expands the neighbourhoods.",
    phases=(NeighbourExpansion(), Averaging(mender=AddedNodes(), trainer=train_privately)),
    settings={"privacy.mechanism": "dp-sgd"},
    sees_cross_edges=True,
    trains_generator=False,
)
