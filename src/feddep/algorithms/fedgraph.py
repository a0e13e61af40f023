"""FedGraph: the last layer also takes hidden states of neighbours at other clients.

Source: Chen et al. 2021. Clients know that external neighbours exist. Layer 1 is local; before a
round with a refresh, every client computes the hidden states of the nodes that others link to,
with the current classifier, and these go to the linked clients. In the original, a DDPG agent on
the server chooses how many neighbours to sample; here the fan-out is fixed, as in every other
method. Averages are weighted by training nodes, the total size of a client's batches.
"""

from dataclasses import dataclass, field

import numpy as np
import torch

from feddep.algorithms.method import Method
from feddep.federation.content import Count, Nodes, Rows, Weights
from feddep.federation.matching import Matching
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, RoundReport, Step, Steps
from feddep.learning.mending import KnownNeighbours, Mender, count_of, mean_of
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays
from feddep.phases.averaging import Averaging


@dataclass(frozen=True)
class AveragingWithHiddenStates(Averaging):
    """Averaging in which hidden states of linked nodes are exchanged every few rounds."""

    mender: Mender | None = field(default_factory=KnownNeighbours)

    def steps(self, spec: LearningSpec) -> Steps:
        """Hidden states of the nodes asked for go up, those of their neighbours come down."""
        hidden = Rows(Count.ASKED, (spec.model.hidden,))
        asked = {"classifier": Weights(spec.classifier_shapes), "nodes": Nodes()}
        return {
            **super().steps(spec),
            "show": Step(request=asked, reply={"hidden": hidden}),
            "receive": Step(request={"nodes": Nodes(repeated=True), "neighbours": hidden}),
        }

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, RoundReport]:
        """Refreshes the hidden states if they are due, then averages as usual."""
        if ask.round % spec.generator.refresh == 0:
            matching = Matching(state)
            weights = group(state, "classifier") or to_arrays(spec.classifier())
            replies = ask.each(
                "show",
                [{**grouped("classifier", weights), "nodes": nodes} for nodes in matching.linked],
            )
            matching = matching.among([reply.client for reply in replies])
            shown = np.concatenate([reply.arrays["hidden"] for reply in replies])
            ask.each("receive", matching.told(shown))
        return super().serve(spec, ask, state)

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Sends hidden states, receives those of neighbours, or trains as usual."""
        if request.step == "show":
            model = silo.classifier(group(request.arrays, "classifier"))
            with torch.no_grad():
                hidden = model.hidden_states(silo.table, silo.graph, request.arrays["nodes"])
            return Reply(request.client, {"hidden": hidden.cpu().numpy()}), state
        if request.step == "receive":
            nodes = request.arrays["nodes"]
            missing = mean_of(nodes, request.arrays["neighbours"], silo)
            counts = count_of(nodes, silo)
            return Reply(request.client), {**state, "missing_embeddings": missing, "counts": counts}
        return super().answer(request, state, silo)


METHOD = Method(
    name="fedgraph",
    summary="GraphSAGE averaged; its last layer sees hidden states of neighbours elsewhere.",
    phases=(AveragingWithHiddenStates(),),
    sees_cross_edges=True,
    fusion="last",
    trains_generator=False,
)
