"""FedAvg from a warm start: a control for FedDEP, whose tuned presets may start F that way.

Every client trains a GNN of its own, as in FedDEP's first step, and F starts from their average as
far as shapes agree. There are no prototypes and no generated neighbours: what FedDEP gains beyond
this method is not due to where F starts. Not in the paper.
"""

from dataclasses import replace

from feddep.algorithms import fedavg
from feddep.phases.averaging import Averaging
from feddep.phases.local_gnn import LocalGnnTraining

METHOD = replace(
    fedavg.METHOD,
    name="fedavg-warm",
    summary="FedAvg that starts from the average of GNNs which the clients trained alone.",
    phases=(LocalGnnTraining(), Averaging()),
    settings={"embedding.warm_start": True},
)
