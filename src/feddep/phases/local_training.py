"""Every client trains a classifier of its own; only its scores leave it."""

from dataclasses import dataclass

from feddep.federation.content import Number
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, RoundReport, Step, Steps
from feddep.graph.graph import Graph, Part
from feddep.learning.evaluation import SCORE_NAMES, pooled, said
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.learning.trainer import sampled_lists, train
from feddep.models.weights import to_arrays
from feddep.privacy.events import Event


@dataclass(frozen=True)
class LocalTraining(Phase[Silo, LearningSpec]):
    """Trains M classifiers, each on its own subgraph, all from the same initial weights."""

    name: str = "local_training"

    def rounds(self, spec: LearningSpec) -> int:
        """As many as the federated methods have, so that all train equally long."""
        return spec.training.rounds

    def steps(self, spec: LearningSpec) -> Steps:
        """Nothing but scores leaves a client."""
        counts = dict.fromkeys(sorted({*SCORE_NAMES, "training_nodes"}), Number.COUNT)
        asked = {name: Number[kind] for name, kind in spec.selection.said(spec.classes).items()}
        return {"train": Step(numbers={**counts, **asked, "loss": Number.REAL})}

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """Lists are sampled for every batch."""
        return [sampled_lists(spec, graph)]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, RoundReport]:
        """Lets every client train another round and collects the scores."""
        replies = ask.all("train")
        return state, RoundReport(ask.round + 1, pooled(reply.metrics for reply in replies))

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Trains the client's classifier for one round, then scores it."""
        model = silo.classifier(group(state, "classifier") or None)
        metrics: dict[str, float] = {
            "loss": train(model, silo, silo.seeds.child(self.name, request.round)),
            "training_nodes": len(silo.graph.members(Part.TRAIN)),
        }
        metrics |= said(model, silo.graph, silo.table, silo.spec)
        state = {**state, **grouped("classifier", to_arrays(model))}
        return Reply(request.client, metrics=metrics), state
