"""The one round loop: every phase of every method goes through it, in every runtime."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from feddep.federation.messages import State
from feddep.federation.metering import Transport
from feddep.federation.phase import AnyPhase, Ask, RoundReport


@dataclass(frozen=True)
class Progress:
    """Where a run stands: enough to continue after this round.

    Attributes:
        phase: index of the next phase.
        round: its next round.
        state: the server's memory.
    """

    phase: int = 0
    round: int = 0
    state: State = field(default_factory=dict)


def run_phases(
    phases: Sequence[AnyPhase],
    spec: object,
    clients: int,
    transport: Transport,
    progress: Progress,
    after_round: Callable[[AnyPhase, RoundReport | None, Progress], None],
) -> Progress:
    """Runs the phases in order from ``progress`` on, calling ``after_round`` after each round."""
    for index in range(progress.phase, len(phases)):
        phase = phases[index]
        while progress.round < phase.rounds(spec):
            ask = Ask(clients, phase.name, progress.round, transport.exchange)
            state, report = phase.serve(spec, ask, progress.state)
            progress = Progress(index, progress.round + 1, state)
            after_round(phase, report, progress)
        progress = Progress(index + 1, 0, progress.state)
    return progress
