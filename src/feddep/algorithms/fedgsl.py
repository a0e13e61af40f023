"""FedGSL, a reconstruction: structure learning over noised node codes.

Written without the text of the original (Zhao et al. 2022). The FedDEP paper says this about it:
clients upload noised codes of their nodes, and a graph across clients is learnt from them. Here
the codes are low-dimensional embeddings of each client's own GNN, and the server links each node to
the nearest codes of other clients.
"""

from feddep.algorithms.method import Method
from feddep.learning.mending import KnownNeighbours
from feddep.phases.averaging import Averaging
from feddep.phases.code_graph import CodeGraph
from feddep.phases.local_gnn import LocalGnnTraining

METHOD = Method(
    name="fedgsl",
    summary="Reconstruction: the server links similar noised node codes across clients.",
    phases=(LocalGnnTraining(), CodeGraph(), Averaging(mender=KnownNeighbours())),
    defaults={"embedding.width": 32, "generator.keep": 0.2},
    fusion="all",
    reconstruction=True,
    trains_generator=False,
)
