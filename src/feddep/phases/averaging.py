"""Federated averaging of the classifier (McMahan et al. 2017).

In round r the server sends the classifier after r rounds; each client scores it on its own
validation and test nodes, trains it further, and returns the new weights. One more round at the end
scores the final classifier. So a score never costs a message of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from feddep.errors import InputError, RuntimeFailureError
from feddep.federation.aggregation import aggregate
from feddep.federation.content import Number, Weights
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.federation.phase import Ask, Phase, RoundReport, Step, Steps
from feddep.graph.graph import Graph, Part
from feddep.learning.evaluation import SCORE_NAMES, pooled, said
from feddep.learning.mending import Mended, Mender, Recalling
from feddep.learning.private_training import (
    classifier_gradients,
    train_privately,
    without_edges,
)
from feddep.learning.silo import Silo
from feddep.learning.spec import LearningSpec
from feddep.learning.trainer import Trainer, sampled_lists, train
from feddep.learning.updates import noised_update
from feddep.models.weights import to_arrays
from feddep.privacy.events import Event, FullNeighbours, NoisedGradients

SCORES = dict.fromkeys(sorted(SCORE_NAMES), Number.COUNT)
TRAINED = {"loss": Number.REAL, "training_nodes": Number.COUNT}


@dataclass(frozen=True)
class Averaging(Phase[Silo, LearningSpec]):
    """Trains one classifier at all clients.

    Args:
        mender: computes the embeddings of missing neighbours; None trains on subgraphs as they are.
        trainer: what a client does with the classifier in a round of training.
    """

    mender: Mender | None = None
    name: str = "averaging"
    trainer: Trainer = train

    def is_private(self, spec: LearningSpec) -> bool:
        """Whether all that clients send is noised: DP-SGD with a cap on occurrences.

        A mender reads edges without noise, and a user's own trainer may do so too.
        """
        return spec.privacy.edges_capped and self.mender is None and self.trainer is train

    def rounds(self, spec: LearningSpec) -> int:
        """R rounds of training and one that scores the result."""
        return spec.training.rounds + 1

    def steps(self, spec: LearningSpec) -> Steps:
        """The classifier goes out in every round, and comes back from each that trains it."""
        weights = {"classifier": Weights(spec.classifier_shapes)}
        asked = {name: Number[kind] for name, kind in spec.selection.said(spec.classes).items()}
        scores, trained = {**SCORES, **asked}, {**SCORES, **asked, **TRAINED}
        priced = spec.training.rounds if self.is_private(spec) else None
        return {
            "train": Step(request=weights, reply=weights, numbers=trained, releases=priced),
            "score": Step(request=weights, numbers=scores),
        }

    def events(self, spec: LearningSpec, graph: Graph) -> list[Event]:
        """Lists are sampled for every batch, or gradients noised; updates may be noised too."""
        training = spec.training
        events: list[Event]
        if type(self) is Averaging and self.is_private(spec):  # a subclass may send more
            events = [classifier_gradients(spec, graph, self.name)]
        elif self.trainer is train_privately:  # scores and a mender read the lists without noise
            events = [FullNeighbours("classifier"), classifier_gradients(spec, graph, self.name)]
        else:
            events = [sampled_lists(spec, graph)]
        if training.update_clip and training.update_noise:
            noise, clip = training.update_noise, training.update_clip
            events.append(NoisedGradients("updates", noise, clip, 1.0, training.rounds))
        return events

    def serve(self, spec: LearningSpec, ask: Ask, state: State) -> tuple[State, RoundReport]:
        """Sends the classifier out and averages what comes back, from those who answer.

        Raises:
            RuntimeFailureError: all clients with training nodes are away. The round would pass
                without training, and nobody would notice.
        """
        weights = group(state, "classifier") or to_arrays(spec.classifier())
        last = ask.round == spec.training.rounds
        replies = ask.all("score" if last else "train", grouped("classifier", weights))
        metrics = pooled(reply.metrics for reply in replies)
        # The loss in the replies is that of the training that starts from these weights; the
        # history needs the loss of the training that led to them.
        next_loss = metrics.pop("loss", float("nan"))
        if "loss" in state:
            metrics["loss"] = float(state["loss"])
        report = RoundReport(ask.round, metrics, weights)
        if last:
            return state, report
        _check_somebody_trained(replies, ask)
        mean = aggregate(
            [group(reply.arrays, "classifier") for reply in replies],
            [reply.metrics["training_nodes"] for reply in replies],
            spec.aggregation,
            sent=weights,
        )
        return {**state, **grouped("classifier", mean), "loss": np.array(next_loss)}, report

    def answer(self, request: Request, state: State, silo: Silo) -> tuple[Reply, State]:
        """Scores the classifier on the client's own subgraph, mended or not, then trains it."""
        model = silo.classifier(group(request.arrays, "classifier"))
        mended = Mended(silo)
        if self.mender is not None:
            mended, state = self.mender.mend(model, silo, state, request.round)
        graph, table, trainer = mended.silo.graph, mended.silo.table, self.trainer
        if self.is_private(silo.spec):
            graph, trainer = without_edges(graph), train_privately
        seeds = silo.seeds.child(self.name, request.round)
        with mended.fitting(model) as classifier:
            metrics = said(classifier, graph, table, silo.spec, mended.missing_embeddings)
            if request.step == "score":
                return Reply(request.client, metrics=metrics), state
            missing = mended.embeddings_in_training
            metrics["loss"] = trainer(classifier, mended.silo, seeds, missing)
        metrics["training_nodes"] = len(silo.graph.members(Part.TRAIN))
        weights = to_arrays(model)
        spec = silo.spec.training
        if spec.update_clip:
            before = group(request.arrays, "classifier")
            weights = noised_update(
                before,
                weights,
                clip=spec.update_clip,
                noise=spec.update_noise,
                rng=silo.noise(seeds, "update", before, weights),
            )
        return Reply(request.client, grouped("classifier", weights), metrics), state

    def mended_again(self, silo: Silo, memory: State, *, own_graph: bool) -> Mended:
        """What the classifier is scored on at a client, after the run.

        Args:
            silo: the client's, or with its number and another graph.
            memory: what :func:`~feddep.learning.mending.mending_of` kept of the client's memory.
            own_graph: the silo has the graph that the memory is about.

        Raises:
            InputError: that cannot be told from the memory.
        """
        if self.mender is None:
            private = self.is_private(silo.spec)
            return Mended(replace(silo, graph=without_edges(silo.graph)) if private else silo)
        if not isinstance(self.mender, Recalling):
            raise InputError(
                f"{type(self.mender).__name__} cannot mend after a run: it has no recall and no "
                "mend_another"
            )
        mend = self.mender.recall if own_graph else self.mender.mend_another
        return mend(silo, memory)


def _check_somebody_trained(replies: Sequence[Reply], ask: Ask) -> None:
    away = sorted(set(range(ask.clients)) - {reply.client for reply in replies})
    if away and not any(reply.metrics["training_nodes"] for reply in replies):
        raise RuntimeFailureError(
            f"no client that answered in round {ask.round} has a training node, so there is "
            f"nothing to average; without an answer: {', '.join(map(str, away))}"
        )
