"""FedDEP without prototypes: generators ask the other clients for gradients in every epoch."""

from dataclasses import replace

from feddep.algorithms import feddep
from feddep.learning.mending import GeneratedNeighbours
from feddep.phases.averaging import Averaging
from feddep.phases.local_gnn import LocalGnnTraining
from feddep.phases.peer_search import PeerSearch

METHOD = replace(
    feddep.METHOD,
    name="feddep-wo-proto",
    preset_of=feddep.METHOD.name,
    summary="FedDEP whose generators send rows to all peers each epoch and get gradients back.",
    phases=(LocalGnnTraining(), PeerSearch(), Averaging(mender=GeneratedNeighbours())),
)
