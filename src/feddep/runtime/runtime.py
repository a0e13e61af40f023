"""What a runtime offers beyond carrying messages: memory for checkpoints, and measurements."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Protocol

from feddep.federation.messages import Arrays, Reply, Request, State
from feddep.learning.evaluation import Scores


class Runtime(Protocol):
    """A started federation.

    Attributes:
        clients: M.
    """

    clients: int

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Delivers the requests and returns the replies in the same order."""
        ...

    def states(self) -> list[State]:
        """Every client's memory, in the clients' order."""
        ...

    def restore(self, states: Sequence[State]) -> None:
        """Gives every client its memory back."""
        ...

    def measure(self, classifier: Arrays | None) -> "Future[list[Scores]]":
        """Scores a classifier, or each client's own, on the whole graph; never metered."""
        ...
