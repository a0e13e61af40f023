"""What a run promises, in words that a layman understands."""

from collections.abc import Sequence

from feddep.privacy.accountant import (
    Guarantee,
    Prices,
    edge_shown,
    noise_covers_all,
    trained_too_often,
)
from feddep.privacy.events import (
    CappedGradients,
    Event,
    Events,
    KnownCrossings,
    Message,
    NoisedGradients,
    OneShotSampling,
    RandomisedResponse,
    SparseResponse,
)

_PUBLIC = "Which nodes there are, their features, their labels and the split count as public."
_CROSSINGS = (
    " Edges between silos are not protected: the server was given every one of them as it is."
)


def statement(mechanism: str, prices: Prices, events_by_client: Sequence[Events]) -> str:
    """A few sentences about what somebody who sees all messages can learn of a single edge.

    Args:
        mechanism: the run's.
        prices: of the client that is worst off.
        events_by_client: of all clients; they tell what was done and what left.
    """
    events = [event for own in events_by_client for event in own]
    crossings = any(isinstance(event, KnownCrossings) for event in events)
    return _inside(mechanism, prices.sound, events_by_client, events) + (
        _CROSSINGS if crossings else ""
    )


def _inside(
    mechanism: str, sound: Guarantee, events_by_client: Sequence[Events], events: Sequence[Event]
) -> str:
    """About edges inside a silo."""
    names = sorted({event.name for event in events if isinstance(event, Message)})
    left = ", ".join(names) or "nothing"
    flips = [e for e in events if isinstance(e, RandomisedResponse | SparseResponse)]
    if flips:
        return _randomised(sound.epsilon, flips[0], left)
    if any(isinstance(event, OneShotSampling) for event in events):
        return (
            f"Every neighbour list was sampled once, and all that left a client ({left}) was "
            "computed from these samples. A given edge inside one silo is in them with a "
            f"probability of up to {max(map(edge_shown, events_by_client)):.3g}; if it is, nothing "
            f"hides it. {'That is no privacy guarantee. ' if sound.verdict == 'none' else ''}"
            f"{_PUBLIC}"
        )
    if all(map(noise_covers_all, events_by_client)):
        return _noised(sound, events, left)
    return (
        f"No privacy guarantee is given. {_reason(mechanism, events_by_client, events)}. Somebody "
        f"who sees what left a client ({left}) may be able to tell whether two of its nodes are "
        f"linked. {_PUBLIC}"
    )


def _reason(mechanism: str, events_by_client: Sequence[Events], events: Sequence[Event]) -> str:
    """Why nothing is promised."""
    noised = {event.purpose for event in events if isinstance(event, NoisedGradients)}
    if mechanism == "nfdp":
        return (
            "Neighbour lists were sampled, but over and over again: in the course of the run "
            "nearly every edge was used as it is"
        )
    if any(map(trained_too_often, events_by_client)):
        return "The noise was priced for a number of trainings, and what came of more of them left"
    trained = " and ".join(_TRAINED[purpose] for purpose in sorted(noised & _TRAINED.keys()))
    if trained:
        return (
            f"Noise was added to the gradients of {trained}; what else is computed from the edges "
            "and sent has none of it"
        )
    if mechanism == "dp-sgd":
        return (
            "DP-SGD adds noise to the gradients of a local GNN, and in this run there is none: it "
            "changed nothing, and what the clients send is computed from their edges"
        )
    if "updates" in noised:
        return "What the clients send is computed from their edges, and not all of it is noised"
    return "What the clients send is computed from their edges without noise"


_TRAINED = {"embeddings": "the local GNN", "classifier": "the classifier"}
_SIMULATED = " This was a simulation: the noise can be repeated by anybody who knows the seed."
_TOO_LARGE = "No privacy guarantee is given: ε is too large to promise anything."


def _randomised(
    epsilon: float | None, event: RandomisedResponse | SparseResponse, left: str
) -> str:
    repeatable = _SIMULATED if event.noise_from == "seed" else ""
    if epsilon is None:
        return f"{_TOO_LARGE}{repeatable}"
    done = (
        "every pair of nodes was flipped at random"
        if isinstance(event, RandomisedResponse)
        else f"every edge stayed with probability {event.keep:.3g} and every other pair of nodes "
        f"became an edge with probability {event.create:.3g}"
    )
    return (
        f"All that left a client ({left}) was computed from a graph in which {done}. "
        "Whether a given edge inside one silo exists changes the odds of anything that an "
        f"observer sees by a factor of at most e^{epsilon:.3g}. {_PUBLIC}{repeatable}"
    )


def _noised(sound: Guarantee, events: Sequence[Event], left: str) -> str:
    if sound.epsilon is None:
        return (
            "No privacy guarantee is given: ε is too large to promise anything, or δ is not below "
            f"one in the number of edges.{_SIMULATED}"
        )
    touched = max(event.touched for event in events if isinstance(event, CappedGradients))
    return (
        f"All that left a client ({left}) was computed from gradients with noise, of which a "
        f"single edge can change {touched} at most, or without any edges. Whether a given edge "
        "inside one silo exists changes the odds of anything that an observer sees by a factor of "
        f"at most e^{sound.epsilon:.3g}, but for a chance of {sound.delta:.3g}. "
        f"{_PUBLIC}{_SIMULATED}"
    )
