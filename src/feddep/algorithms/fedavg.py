"""FedAvg: the averaging phase alone (McMahan et al. 2017). Lost edges stay lost."""

from feddep.algorithms.method import Method
from feddep.phases.averaging import Averaging

METHOD = Method(
    name="fedavg",
    summary="GraphSAGE averaged over the clients after every local epoch.",
    phases=(Averaging(),),
    trains_generator=False,
)
