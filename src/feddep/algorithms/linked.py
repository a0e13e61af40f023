"""Linked silos: both ends know an edge, and tell each other a few private bits about its ends.

FedDEP generates neighbours because it assumes that nobody knows an edge between silos. Where both
have the row, as of a payment, only what stands at the other end is missing. One exchange of codes
under randomised response tells most of what the true neighbours' embeddings would (docs/linked.md).
The others here show more than that, for comparison.
"""

from dataclasses import replace

from feddep.algorithms.linked_averaging import AveragingOverLinks
from feddep.algorithms.method import Method
from feddep.learning.link_mending import CodesAsNodes, HiddenStates
from feddep.learning.mending import AddedNodes, KnownNeighbours
from feddep.phases.averaging import Averaging
from feddep.phases.link_matching import LinkMatching
from feddep.phases.linked_neighbours import LinkedNeighbours
from feddep.phases.local_gnn import LocalGnnTraining

METHOD = Method(
    name="feddep-linked",
    summary="GraphSAGE averaged; silos tell each other private codes of nodes that links join.",
    phases=(LinkMatching(), AveragingOverLinks()),
    preset_of="fedavg",
    linked=True,
    fusion="codes",
    trains_generator=False,
)

NODES = replace(
    METHOD,
    name="linked-nodes",
    summary="As feddep-linked, with counterparties as nodes that look like what their code says.",
    phases=(LinkMatching(), AveragingOverLinks(mender=AddedNodes(), talk=CodesAsNodes())),
    fusion="none",
)

CELLS = replace(
    NODES,
    name="linked-cells",
    summary="As linked-nodes; codes say in which of a few cells a counterparty's features lie.",
    settings={"links.code": "features"},
)
"""A private version of ``linked-features``: ε for each node, and the same answer in every run."""

FEATURES = replace(
    NODES,
    name="linked-features",
    summary="GraphSAGE averaged over subgraphs with counterparties as nodes; features are shown.",
    phases=(LinkMatching(), LinkedNeighbours("features"), Averaging(mender=AddedNodes())),
)

FEDGCN = replace(
    METHOD,
    name="fedgcn",
    summary="GraphSAGE averaged; silos show each other sums of features over links, once.",
    phases=(LinkMatching(), LinkedNeighbours("sums"), Averaging(mender=KnownNeighbours())),
    settings={"embedding.depth": 0},
    fusion="all",
)
"""After Yao et al. 2023, "FedGCN": the sums are computed once, before training. In the original the
server adds them up under homomorphic encryption; here each silo sends its own, under seal. F is
GraphSAGE, and the mean over links is its z̄."""

FEDGRAPH = replace(
    METHOD,
    name="fedgraph-linked",
    summary="As fedgraph, with sealed hidden states in place of a server that knows all edges.",
    phases=(LinkMatching(), AveragingOverLinks(mender=KnownNeighbours(), talk=HiddenStates())),
    preset_of="fedgraph",
    fusion="last",
)

ORACLE = replace(
    METHOD,
    name="linked-oracle",
    summary="FedDEP given exact embeddings of matched neighbours: a yardstick for linked silos.",
    phases=(
        LocalGnnTraining(),
        LinkMatching(),
        LinkedNeighbours("embeddings"),
        Averaging(mender=KnownNeighbours()),
    ),
    preset_of="feddep",
    fusion="all",
)

ALL = (METHOD, NODES, CELLS, FEATURES, FEDGCN, FEDGRAPH, ORACLE)
