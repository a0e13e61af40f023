"""How long a server waits; a module of its own, as whoever starts a run must not load torch."""

from dataclasses import dataclass

from feddep.errors import InputError


@dataclass(frozen=True, kw_only=True)
class WaitPolicy:
    """How long the server waits for whom.

    Whoever answers counts for the quorum, even if the reply is then left out because it does not
    pass inspection: one silo that sends poison must not stop the others. A silo that is silent or
    refuses does not count. One that is in trouble (the remote_runtime's ``FAILED``) is asked again until
    the time is up; any other refusal stands.

    Attributes:
        quorum: share of the silos that must answer in every step; one good reply there must be.
        grace: seconds after which a step with a quorum goes on without the rest.
        wait: seconds that a step without a quorum waits before the run ends, to be resumed.
        resend: seconds after which a envelope without an answer is sent again.
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
        """Whether so many of the silos are a quorum."""
        return present >= max(1.0, self.quorum * silos)
