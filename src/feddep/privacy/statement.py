"""What is promised, in words that a layman understands."""

from feddep.privacy.accountant import Prices
from feddep.privacy.ledger import Ledger, Message, OneShotSampling, RandomisedResponse

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
    flips = [event for event in ledger if isinstance(event, RandomisedResponse)]
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


def _randomised(epsilon: float | None, event: RandomisedResponse, left: str) -> str:
    repeatable = (
        " This was a simulation: the noise can be repeated by anybody who knows the seed."
        if event.noise_from == "seed"
        else ""
    )
    if epsilon is None:
        return f"No privacy guarantee is given: ε is too large to promise anything.{repeatable}"
    return (
        f"All that left a client ({left}) was computed from a graph in which every pair of nodes "
        f"was flipped at random. Whether a given edge exists changes the odds of anything that an "
        f"observer sees by a factor of at most e^{epsilon:.3g}. {_PUBLIC}{repeatable}"
    )
