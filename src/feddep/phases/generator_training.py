"""Every client trains its DGen on the prototypes it has; nothing is sent."""

from dataclasses import dataclass

from feddep.federation.content import Number
from feddep.federation.messages import Reply, Request, State, grouped
from feddep.federation.phase import Ask, Phase, Step, Steps
from feddep.graph.graph import Graph
from feddep.learning.mending import generator_training, pretrained, with_prototypes
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays
from feddep.privacy.events import BernoulliSelection, Event


@dataclass(frozen=True)
class GeneratorPretraining(Phase[Silo, LearningSpec]):
    """Step 3 of FedDEP: DGen learns to generate neighbours, own and foreign, without messages."""

    name: str = "generator_training"

    def steps(self, spec: LearningSpec) -> Steps:
        """One; the client trains for as many epochs as the spec says."""
        return {"train": Step(numbers={"generator_loss": Number.REAL})}

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """Generated neighbours are kept with a probability, which the paper counts as privacy."""
        return [BernoulliSelection(spec.generator.keep)]

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Lets every client train."""
        ask.all("train")
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Trains DGen on the client's impaired graph and the prototypes received."""
        state = with_prototypes(silo, state)
        generator, loss = pretrained(generator_training(silo, state))
        state = {**state, **grouped("generator", to_arrays(generator))}
        return Reply(request.client, metrics={"generator_loss": loss}), state
