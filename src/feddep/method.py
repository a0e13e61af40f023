"""What a method, a phase, a trainer or a mender is written with: import it from here.

These names are stable, as are those in :mod:`feddep` itself; everything else in the package is
private and may change. ``docs/adding_a_method.md`` shows how they go together.
"""

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.errors import FeddepError, InputError
from feddep.federation.aggregation import aggregate
from feddep.federation.content import (
    ByPeer,
    Content,
    Count,
    Exactly,
    Gradients,
    Nodes,
    Number,
    Parts,
    Rows,
    Table,
    Weights,
    optional,
)
from feddep.federation.messages import Arrays, Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, RoundReport, Step, Steps
from feddep.graph.graph import Graph, Part
from feddep.graph.sampling import EgoGraphs
from feddep.learning.mending import Mended, Mender, Recalling
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.learning.trainer import Trainer, TrainingStep, train
from feddep.models.sage import FusedSage
from feddep.models.weights import from_arrays, to_arrays
from feddep.phases.averaging import Averaging
from feddep.phases.local_gnn import LocalGnnTraining
from feddep.phases.local_training import LocalTraining
from feddep.phases.prototype_exchange import PrototypeExchange
from feddep.privacy.events import (
    BernoulliSelection,
    Event,
    FullNeighbours,
    NeighbourSampling,
    NoisedGradients,
)
from feddep.seeding import Seeds

__all__ = [
    "Arrays",
    "Ask",
    "Averaging",
    "BernoulliSelection",
    "ByPeer",
    "Content",
    "Count",
    "EgoGraphs",
    "Event",
    "Exactly",
    "FeddepError",
    "FullNeighbours",
    "FusedSage",
    "Gradients",
    "Graph",
    "InputError",
    "LearningSpec",
    "LocalGnnTraining",
    "LocalTraining",
    "Mended",
    "Mender",
    "Method",
    "NeighbourSampling",
    "Nodes",
    "NoisedGradients",
    "Number",
    "Part",
    "Parts",
    "Phase",
    "PrototypeExchange",
    "Recalling",
    "Reply",
    "Request",
    "RoundReport",
    "Rows",
    "Seeds",
    "Silo",
    "State",
    "Step",
    "Steps",
    "Table",
    "Trainer",
    "TrainingStep",
    "Weights",
    "aggregate",
    "find_method",
    "from_arrays",
    "group",
    "grouped",
    "optional",
    "to_arrays",
    "train",
]
