"""Linked silos: both ends know an edge, and tell each other a few private bits about its ends.

FedDEP generates neighbours because it assumes that nobody knows an edge between silos. Where both
have the row, as of a payment, only what stands at the other end is missing. One exchange of codes
under randomised response tells most of what the true neighbours' embeddings would (docs/linked.md).
"""

from dataclasses import replace

from feddep.algorithms.method import Method
from feddep.learning.link_mending import CodedNodes
from feddep.phases.link_answers import AveragingOverLinks
from feddep.phases.link_matching import LinkMatching

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
    phases=(LinkMatching(), AveragingOverLinks(mender=CodedNodes())),
    fusion="none",
)
