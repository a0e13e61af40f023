"""How long a server waits. A module of its own: whoever starts a run must not load torch."""

from dataclasses import dataclass

from feddep.errors import InputError


@dataclass(frozen=True, kw_only=True)
class WaitPolicy:
    """How long the server waits for which silos.

    A silo that answers counts for the quorum even if inspection then refuses its reply: one
    hostile silo must not stop the others. A silo that is silent or refuses does not count. A
    refusal that begins with :data:`~feddep.deployment.protocol.remote_runtime.FAILED` is a passing
    failure, and the silo is asked again until the time is up; any other refusal is final.

    Attributes:
        quorum: share of the silos that must answer in every step; at least one reply must pass.
        grace: seconds after which a step that has a quorum continues without the rest.
        wait: seconds after which a step without a quorum ends the run, which can be resumed.
        resend: seconds after which an unanswered envelope is sent again.
    """

    quorum: float = 1.0
    grace: float = 600.0
    wait: float = 3600.0
    resend: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.quorum <= 1:
            raise InputError(f"quorum: expected a share above 0, up to 1 (got {self.quorum:g})")
        for name in ("grace", "wait", "resend"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}: expected seconds above 0 (got {getattr(self, name):g})")

    def suffices(self, present: int, silos: int) -> bool:
        """Whether ``present`` of the silos are a quorum."""
        return present >= max(1.0, self.quorum * silos)
