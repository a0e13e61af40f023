"""A client answers requests from its own data and refuses to send what is not declared."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from feddep.errors import DisclosureError, InputError, unknown
from feddep.federation.content import Problems, Seen, content_problems, short
from feddep.federation.messages import Reply, Request, State, group_of, settled
from feddep.federation.phase import AnyPhase, Step, Steps


@dataclass(frozen=True, eq=False)
class Client:
    """One client of a federation, in any runtime.

    Args:
        silo: what the client halves of the phases work on; it never leaves the client.
        phases: the method's conversations.
        spec: what was agreed on for learning.
        nodes: of its graph; None leaves open how many rows stand for all of them.
    """

    silo: Any
    phases: Sequence[AnyPhase]
    spec: Any
    nodes: int | None = None

    @cached_property
    def _declared(self) -> dict[str, Steps]:
        return {phase.name: phase.steps(self.spec) for phase in self.phases}

    def handle(self, request: Request, state: State) -> tuple[Reply, State]:
        """Answers one request; the client's memory goes in and comes out as a value.

        Raises:
            InputError: the phase does not belong to the method, or does not declare what is asked.
            DisclosureError: the reply holds a name that the phase does not declare for the step.
        """
        if request.phase not in self._declared:
            raise unknown("phase", request.phase, self._declared)
        steps = self._declared[request.phase]
        if request.step not in steps:
            raise unknown(f"step of phase {request.phase}", request.step, steps)
        step = steps[request.step]
        asked = {group_of(name) for name in request.arrays} - step.request.keys()
        if asked:
            raise InputError(
                f"step {request.step!r} of phase {request.phase!r} carries "
                f"{_listed(step.request)} to a client (got {_listed(asked)})"
            )
        phase = next(phase for phase in self.phases if phase.name == request.phase)
        reply, state = phase.answer(request, state, self.silo)
        reply = replace(reply, arrays=settled(reply.arrays))
        self._check(request, reply, step)
        return reply, state

    def _check(self, request: Request, reply: Reply, step: Step) -> None:
        """Whether the reply is what the phase declares; what it says is not looked at."""
        undeclared = {group_of(name) for name in reply.arrays} - step.reply.keys()
        undeclared |= set(reply.metrics) - step.numbers.keys()
        if undeclared:
            raise DisclosureError(
                f"phase {request.phase!r} wanted to send {_listed(undeclared)} in step "
                f"{request.step!r}, which is not declared (declared arrays: "
                f"{_listed(step.reply)}; numbers: {_listed(step.numbers)}); nothing was sent"
            )
        seen = Seen(nodes=self.nodes, asked=request.arrays)
        for problem in _mismatches(reply, step, seen):
            raise DisclosureError(
                f"phase {request.phase!r} wanted to send something else in step "
                f"{request.step!r} than it declares: {problem}; nothing was sent"
            )


def _mismatches(reply: Reply, step: Step, seen: Seen) -> Problems:
    yield from content_problems(reply.arrays, step.reply, seen)
    for name in sorted(step.numbers.keys() - reply.metrics.keys()):
        yield f"the number {name} is missing"
    for name, value in reply.metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{name} is no plain number but {short(value)}"


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
