"""What is promised, in words that a layman understands."""

from feddep.privacy.accountant import Guarantee, Prices, noise_covers_all
from feddep.privacy.ledger import (
    CappedGradients,
    Ledger,
    Message,
    OneShotSampling,
    RandomisedResponse,
    SparseResponse,
)

_PUBLIC = "Which nodes there are, their features, their labels and the split count as public."


def statement(mechanism: str, prices: Prices, ledger: Ledger) -> str:
    """A few sentences about what somebody who sees all messages can learn of a single edge.

    Args:
        mechanism: the run's.
        prices: of the client that is worst off.
        ledger: of any client; it tells what left.
    """
    names = sorted({event.name for event in ledger if isinstance(event, Message)})
    left = ", ".join(names) or "nothing"
    sound = prices.sound
    flips = [e for e in ledger if isinstance(e, RandomisedResponse | SparseResponse)]
    if flips:
        return _randomised(sound.epsilon, flips[0], left)
    if any(isinstance(event, OneShotSampling) for event in ledger):
        return (
            f"Every neighbour list was sampled once, and all that left a client ({left}) was "
            "computed from these samples. A given edge is in them with a probability of up to "
            f"{sound.delta:.3g}; if it is, nothing hides it. "
            + ("That is no privacy guarantee. " if sound.verdict == "none" else "")
            + _PUBLIC
        )
    if noise_covers_all(ledger):
        return _noised(prices.sound, ledger, left)
    reason = {
        "nfdp": "Neighbour lists were sampled, but over and over again: in the course of the run "
        "nearly every edge was used as it is",
        "dp-sgd": "Noise was added to the gradients of the local GNN only; prototypes and the "
        "classifier are computed from true edges without noise",
        "none": "What the clients send is computed from their edges without noise",
    }[mechanism]
    return (
        f"No privacy guarantee is given. {reason}. Somebody who sees what left a client ({left}) "
        "may be able to tell whether two of its nodes are linked. " + _PUBLIC
    )


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
        f"Whether a given edge exists changes the odds of anything that an "
        f"observer sees by a factor of at most e^{epsilon:.3g}. {_PUBLIC}{repeatable}"
    )


def _noised(sound: Guarantee, ledger: Ledger, left: str) -> str:
    if sound.epsilon is None:
        return f"{_TOO_LARGE}{_SIMULATED}"
    touched = max(event.touched for event in ledger if isinstance(event, CappedGradients))
    return (
        f"All that left a client ({left}) was computed from gradients with noise, of which a "
        f"single edge can change {touched} at most, or without any edges. Whether a given edge "
        "exists changes the odds of anything that an observer sees by a factor of at most "
        f"e^{sound.epsilon:.3g}, but for a chance of {sound.delta:.3g}. {_PUBLIC}{_SIMULATED}"
    )
