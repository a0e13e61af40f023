"""FedSage+: NeighGen generates features of missing neighbours, which become nodes of the graph.

Source: Zhang et al. 2021; the paper calls it FedSage. Messages flow from a generated node to the
real node that it was generated for, so it does affect predictions there.

Our choices: NeighGen has DGen's shape, normalisation and sampling of counts. Its classification
loss mends the batch's own nodes, not those around them. Squared distances are means over columns,
as the code of FedSage+ has them: divided by √d as DGen's are, they shrink rows to the silo's mean,
which tells nothing about the class.
"""

from feddep.algorithms.method import Method
from feddep.learning.mending import AddedNodes
from feddep.phases.averaging import Averaging
from feddep.phases.local_gnn import LocalGnnTraining
from feddep.phases.neighgen import NeighGenTraining

METHOD = Method(
    name="fedsage",
    summary="FedSage+: GraphSAGE averaged over subgraphs with generated nodes added.",
    phases=(LocalGnnTraining(), NeighGenTraining(), Averaging(mender=AddedNodes())),
    # Depth 0: features are generated. No Bernoulli sampler: every generated neighbour is added.
    settings={"embedding.depth": 0, "generator.keep": 1.0, "generator.distances": "mean"},
)
