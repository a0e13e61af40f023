"""What a runtime offers: it carries messages, saves and restores states, and measures."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from feddep.federation.messages import Arrays, Reply, Request, State
from feddep.learning.evaluation import Scores


class Runtime(Protocol):
    """A started federation.

    Attributes:
        clients: M, the number of clients.
    """

    clients: int

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Delivers the requests and returns the replies in the same order.

        A runtime whose clients may be absent returns fewer replies than requests.
        """
        ...

    def states(self) -> list[State]:
        """Every client's state, in the clients' order."""
        ...

    def keep(self) -> None:
        """Has every client keep how its subgraph is mended now: the round is the best so far."""
        ...

    def kept(self) -> list[State]:
        """What the clients kept last, in the clients' order.

        Nothing if they never did, or keep it to themselves.
        """
        ...

    def restore(self, states: Sequence[State], kept: Sequence[State] = ()) -> None:
        """Gives every client its state back, and what it kept."""
        ...

    def measure(self, classifier: Arrays | None) -> "Future[list[Scores]]":
        """Scores a classifier, or each client's own if None, on the whole graph; never metered."""
        ...
