"""What a run promises, or would promise, in words that a layman understands."""

from collections.abc import Sequence
from dataclasses import dataclass

from feddep.privacy.accountant import (
    Guarantee,
    Prices,
    edge_shown,
    noise_covers_all,
    trained_too_often,
)
from feddep.privacy.events import (
    SAID,
    CappedGradients,
    Event,
    Events,
    KnownCrossings,
    Message,
    NoisedGradients,
    NoisedSums,
    OneShotSampling,
    RandomisedResponse,
    SparseResponse,
)
from feddep.privacy.meaning import GraphSize, delta_to_set, largest_delta, meaning
from feddep.privacy.response import attains

_PUBLIC = "Which nodes there are, their features, their labels and the split count as public."
_CROSSINGS = (
    " Edges between silos are not protected: the server is given every one of them as it is."
)
_SIMULATED = " This was a simulation: the noise can be repeated by anybody who knows the seed."
_TOO_LARGE = "No privacy guarantee is given: ε is too large to promise anything."
_PREDICTIONS = (
    "Predictions that are made over the true edges are not covered: whoever publishes them gives "
    "the promise up."
)
_TRAINED = {"embeddings": "the local GNN", "classifier": "the classifier"}


def statement(
    mechanism: str,
    prices: Prices,
    events_by_client: Sequence[Events],
    sizes: Sequence[GraphSize],
    *,
    planned: bool = False,
) -> str:
    """A few sentences about what somebody who sees all messages can learn of a single edge.

    Args:
        mechanism: the run's.
        prices: of the client that is worst off.
        events_by_client: of all clients; they tell what is done and what leaves.
        sizes: of all clients' graphs.
        planned: nothing was run, so that it is open where the noise will come from.
    """
    about = _About(mechanism, prices.sound, events_by_client, sizes, planned)
    crossings = any(isinstance(event, KnownCrossings) for event in about.events)
    told = dict.fromkeys(e.sentence for e in about.events if isinstance(e, SAID))
    return " ".join([_inside(about) + (_CROSSINGS if crossings else ""), *told])


@dataclass(frozen=True)
class _About:
    """What a statement is about; see :func:`statement`."""

    mechanism: str
    sound: Guarantee
    events_by_client: Sequence[Events]
    sizes: Sequence[GraphSize]
    planned: bool

    @property
    def events(self) -> list[Event]:
        return [event for own in self.events_by_client for event in own]

    @property
    def left(self) -> str:
        names = sorted({event.name for event in self.events if isinstance(event, Message)})
        return ", ".join(names) or "nothing"


def _inside(about: _About) -> str:
    """About edges inside a silo."""
    events_by_client, sound = about.events_by_client, about.sound
    flips = [e for e in about.events if isinstance(e, RandomisedResponse | SparseResponse)]
    if flips:
        return _randomised(about, flips[0])
    sums = [event for event in about.events if isinstance(event, NoisedSums)]
    if sums:
        return _summed(about, sums[0])
    if any(isinstance(event, OneShotSampling) for event in about.events):
        return (
            f"Every neighbour list is sampled once, and all that leaves a client ({about.left}) is "
            "computed from these samples. A given edge inside one silo is in them with a "
            f"probability of up to {max(map(edge_shown, events_by_client)):.3g}; if it is, nothing "
            f"hides it. {'That is no privacy guarantee. ' if sound.verdict == 'none' else ''}"
            f"{_PUBLIC}"
        )
    if all(map(noise_covers_all, events_by_client)):
        return _noised(about)
    return (
        f"No privacy guarantee is given. {_reason(about)}. Somebody who sees what leaves a client "
        f"({about.left}) may be able to tell whether two of its nodes are linked. {_PUBLIC}"
    )


def _reason(about: _About) -> str:
    """Why nothing is promised."""
    noised = {event.purpose for event in about.events if isinstance(event, NoisedGradients)}
    if about.mechanism == "nfdp":
        return (
            "Neighbour lists are sampled, but over and over again: in the course of the run nearly "
            "every edge is used as it is"
        )
    if any(map(trained_too_often, about.events_by_client)):
        return (
            "The noise is priced for a number of trainings, and what comes of more of them leaves"
        )
    trained = " and ".join(_TRAINED[purpose] for purpose in sorted(noised & _TRAINED.keys()))
    if trained:
        return (
            f"Noise is added to the gradients of {trained}; what else is computed from the edges "
            "and sent has none of it"
        )
    if about.mechanism == "dp-sgd":
        return (
            "DP-SGD adds noise to the gradients of a local GNN, and this method has none: it "
            "changes nothing, and what the clients send is computed from their edges"
        )
    if "updates" in noised:
        return (
            "What the clients send is computed from their edges, and not all of it is noised: "
            "updates are, but the numbers that go with them (scores on true edges, loss) are not"
        )
    return "What the clients send is computed from their edges without noise"


def _randomised(about: _About, event: RandomisedResponse | SparseResponse) -> str:
    epsilon = about.sound.epsilon
    repeatable = "" if about.planned or event.noise_from != "seed" else _SIMULATED
    if epsilon is None:
        return f"{_TOO_LARGE}{repeatable}"
    done = (
        "every pair of nodes is flipped at random"
        if isinstance(event, RandomisedResponse)
        else f"every edge stays with probability {event.keep:.3g} and every other pair of nodes "
        f"becomes an edge with probability {event.create:.3g}"
    )
    sentences = (
        f"All that leaves a client ({about.left}) is computed from a graph in which {done}. "
        "Whether a given edge inside one silo exists changes the odds of anything that an "
        f"observer sees by a factor of at most e^{epsilon:.3g}.",
        meaning(epsilon, about.sizes, "about" if attains(event) else "at most"),
        _PUBLIC,
        "That is for one run: what other runs show at other rates, or of a changed graph, comes on "
        "top.",
        _PREDICTIONS,
    )
    return " ".join(filter(None, sentences)) + repeatable


def _summed(about: _About, event: NoisedSums) -> str:
    sound = about.sound
    repeatable = "" if about.planned or event.noise_from != "seed" else _SIMULATED
    if sound.epsilon is None:
        return _delta_too_large(about) or f"{_TOO_LARGE}{repeatable}"
    given = (
        "a given edge inside one silo exists"
        if event.edges == 1
        else f"up to {event.edges} given edges of one node inside one silo exist, which are all "
        "that it has unless it has more,"
    )
    hops = "hop" if event.hops == 1 else "hops"
    sentences = (
        f"All that leaves a client ({about.left}) is computed without edges, or from sums over "
        f"each node's neighbours, of {event.hops} {hops}, which are computed once and have noise "
        f"of standard deviation {event.noise:.3g}, where one neighbour adds 1 at most. Whether "
        f"{given} changes the odds of anything that an observer sees by a factor of at most "
        f"e^{sound.epsilon:.3g}, but for a chance of {sound.delta:.3g}.",
        meaning(sound.epsilon, about.sizes, "at most"),
        _PUBLIC,
        "That is for one run: what other runs show of a changed graph, over more hops or by "
        "another mechanism comes on top.",
        _PREDICTIONS,
    )
    return " ".join(filter(None, sentences)) + repeatable


def _noised(about: _About) -> str:
    sound, repeatable = about.sound, "" if about.planned else _SIMULATED
    if sound.epsilon is None:
        return _delta_too_large(about) or f"{_TOO_LARGE}{repeatable}"
    touched = max(event.touched for event in about.events if isinstance(event, CappedGradients))
    sentences = (
        f"All that leaves a client ({about.left}) is computed from gradients with noise, of which "
        f"a single edge can change {touched} at most, or without any edges. Whether a given edge "
        "inside one silo exists changes the odds of anything that an observer sees by a factor of "
        f"at most e^{sound.epsilon:.3g}, but for a chance of {sound.delta:.3g}.",
        meaning(sound.epsilon, about.sizes, "at most"),
        _PUBLIC,
        "That is for one run: every other one comes on top.",
        _PREDICTIONS,
    )
    return " ".join(filter(None, sentences)) + repeatable


def _delta_too_large(about: _About) -> str:
    """Says so, and what to set; empty if δ is not the reason."""
    nodes = max(size.nodes for size in about.sizes)
    if about.sound.delta <= largest_delta(nodes):
        return ""
    return (
        f"No privacy guarantee is given: δ is {about.sound.delta:.3g}, which is too large for a "
        f"silo of {nodes} nodes; set privacy.delta to {delta_to_set(nodes)} or less."
    )
