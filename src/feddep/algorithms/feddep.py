"""FedDEP: missing neighbours are generated, prototypes shared once, neighbour lists sampled."""

from feddep.algorithms.method import Method
from feddep.learning.mending import GeneratedNeighbours
from feddep.phases.averaging import Averaging
from feddep.phases.generator_training import GeneratorPretraining
from feddep.phases.local_gnn import LocalGnnTraining
from feddep.phases.prototype_exchange import PrototypeExchange

METHOD = Method(
    name="feddep",
    summary="Averages a classifier over subgraphs mended with generated deep neighbours.",
    phases=(
        LocalGnnTraining(),
        PrototypeExchange(),
        GeneratorPretraining(),
        Averaging(mender=GeneratedNeighbours()),
    ),
    fusion="all",
)
