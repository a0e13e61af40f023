"""What a silo's owner allows over all runs together, besides ε.

A consent to one run is a consent to a thousand, if nothing counts them::

    all_runs = 20
    all_releases = 1000
    all_seconds = 36000
    share_of_nodes = 0.1
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from feddep.deployment.protocol.disclosure_log import counted
from feddep.deployment.protocol.link_consent import Excess
from feddep.deployment.protocol.log_lines import Agreed, Begun, Line, Payload, Withdrawn
from feddep.federation.messages import Reply

_Count = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1)]


class StandingConsent(BaseModel):
    """The part of a consent that counts over all runs; None sets no limit.

    Attributes:
        all_runs: how many runs the silo agrees to. One that was withdrawn before it began does not
            count.
        all_releases: how often one group of arrays, or the numbers of one phase, may leave.
        all_seconds: for how long the silo works.
        share_of_nodes: of which share of the silo's nodes rows of one group, such as ``features``
            or ``hidden``, may leave. It counts nodes, not how often each is shown.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    all_runs: _Count | None = Field(None, description="a whole number from 1")
    all_releases: _Count | None = Field(None, description="a whole number from 1")
    all_seconds: _Seconds | None = Field(None, description="a number above 0")
    share_of_nodes: _Share | None = Field(None, description="a number from 0 to 1")

    def beyond_runs(self, lines: Sequence[Line], asked: Agreed) -> Iterator[Excess]:
        """A run more than are allowed.

        Args:
            lines: of the silo's log, without the one about this run.
            asked: the line about the run that is asked for.
        """
        if self.all_runs is None:
            return
        earlier = _runs(lines) - {asked.run}
        if len(earlier) >= self.all_runs:
            told = f"the silo has agreed to {len(earlier)} other runs"
            yield "all_runs", told, f"at most {self.all_runs} in all"

    def beyond_releases(self, lines: Sequence[Line], phase: str, reply: Reply) -> Iterator[Excess]:
        """What has left too often in all runs together."""
        if self.all_releases is None:
            return
        times: Counter[str] = Counter()
        for line in lines:
            if isinstance(line, Payload):
                times.update(counted(line.phase, line.names, line.numbers))
        for name in sorted(counted(phase, reply.arrays, reply.metrics)):
            if times[name] >= self.all_releases:
                told = f"{name} has left {times[name]} times in all runs and would leave once more"
                yield "all_releases", told, f"at most {self.all_releases} times"

    def beyond_seconds(self, spent: float) -> Iterator[Excess]:
        """Work after the time that is allowed."""
        if self.all_seconds is not None and spent >= self.all_seconds:
            told = f"the silo has worked for {spent:.0f} s in all runs"
            yield "all_seconds", told, f"at most {self.all_seconds:g} s"

    def beyond_share(self, group: str, shown: int, nodes: int) -> Iterator[Excess]:
        """Rows of more nodes than are allowed."""
        if self.share_of_nodes is not None and shown > self.share_of_nodes * nodes:
            told = f"{group} of {shown} of {nodes} nodes would have left, in all runs together"
            yield "share_of_nodes", told, f"{self.share_of_nodes:.3g} of the nodes"


def _runs(lines: Sequence[Line]) -> set[str]:
    """The runs that were agreed to and not withdrawn before they began."""
    last: dict[str, Line] = {
        line.run: line for line in lines if isinstance(line, Agreed | Withdrawn)
    }
    begun = {line.run for line in lines if isinstance(line, Begun | Payload)}
    return begun | {run for run, line in last.items() if isinstance(line, Agreed)}
