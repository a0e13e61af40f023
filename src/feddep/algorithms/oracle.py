"""Oracle: F fused with the true missing neighbours' embeddings, as from a perfect DGen."""

from feddep.algorithms import feddep
from feddep.algorithms.method import Method
from feddep.learning.mending import KnownNeighbours
from feddep.phases.averaging import Averaging
from feddep.phases.local_gnn import LocalGnnTraining
from feddep.phases.true_neighbours import TrueNeighbours

METHOD = Method(
    name="oracle",
    summary="FedDEP given the true missing neighbours: a yardstick, not a method to deploy.",
    phases=(LocalGnnTraining(), TrueNeighbours(), Averaging(mender=KnownNeighbours())),
    preset_of=feddep.METHOD.name,
    sees_cross_edges=True,
    fusion="all",
    trains_generator=False,
)
