"""Every client trains its DGen against the prototypes it has; nothing is sent."""

from dataclasses import dataclass

from feddep.federation.messages import Reply, Request, State, grouped
from feddep.federation.phase import Ask
from feddep.learning.mending import generator_training, pretrained, with_prototypes
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.models.weights import to_arrays


@dataclass(frozen=True)
class GeneratorPretraining:
    """Step 3 of FedDEP: DGen learns to generate neighbours, own and foreign, without messages."""

    name: str = "generator_training"
    reports: frozenset[str] = frozenset({"generator_loss"})

    def rounds(self, spec: LearningSpec) -> int:
        """One; the client trains for as many epochs as the spec says."""
        return 1

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, None]:
        """Lets every client train."""
        ask.all("train")
        return state, None

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Trains DGen on the client's impaired graph, against the prototypes that came."""
        state = with_prototypes(silo, state)
        generator, loss = pretrained(generator_training(silo, state))
        state = {**state, **grouped("generator", to_arrays(generator))}
        return Reply(request.client, metrics={"generator_loss": loss}), state
