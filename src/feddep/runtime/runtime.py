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

    def restore(self, states: Sequence[State]) -> None:
        """Gives every client its state back."""
        ...

    def measure(self, classifier: Arrays | None) -> "Future[list[Scores]]":
        """Scores a classifier, or each client's own if None, on the whole graph; never metered."""
        ...
