"""A client: it answers requests from its own data, and refuses to send what is not declared."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from feddep.errors import DisclosureError, unknown
from feddep.federation.messages import Reply, Request, State, group_of
from feddep.federation.phase import AnyPhase


@dataclass(frozen=True, eq=False)
class Client:
    """One client of a federation, in any runtime.

    Args:
        silo: what the client halves of the phases work on; it never leaves the client.
        phases: the method's conversations.
        discloses: groups of arrays that the method declares to leave a client.
    """

    silo: Any
    phases: Sequence[AnyPhase]
    discloses: frozenset[str]

    def handle(self, request: Request, state: State) -> tuple[Reply, State]:
        """Answers one request; the client's memory goes in and comes out as a value.

        Raises:
            DisclosureError: the reply holds a name that the method does not declare.
        """
        by_name = {phase.name: phase for phase in self.phases}
        if request.phase not in by_name:
            raise unknown("phase", request.phase, by_name)
        phase = by_name[request.phase]
        reply, state = phase.answer(request, state, self.silo)
        self._check(phase, reply)
        return reply, state

    def _check(self, phase: AnyPhase, reply: Reply) -> None:
        undeclared = {group_of(name) for name in reply.arrays} - self.discloses
        undeclared |= set(reply.metrics) - phase.reports
        if undeclared:
            raise DisclosureError(
                f"phase {phase.name!r} wanted to send {', '.join(sorted(undeclared))}, which is "
                f"not declared (declared arrays: {', '.join(sorted(self.discloses)) or 'none'}; "
                f"numbers: {', '.join(sorted(phase.reports)) or 'none'}); nothing was sent"
            )
