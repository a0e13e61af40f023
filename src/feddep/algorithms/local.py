"""Local: M classifiers, each trained on its own subgraph; the table shows their mean score."""

from feddep.algorithms.method import Method
from feddep.phases.local_training import LocalTraining

METHOD = Method(
    name="local",
    summary="Every client trains alone; scores are averaged over the clients' classifiers.",
    phases=(LocalTraining(),),
    trains_generator=False,
)
