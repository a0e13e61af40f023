"""What a silo's owner allows to be told about nodes with links to other silos.

Without these lines of the consent nothing is told, and the silo does not look for links either::

    links = "labels"
    links_epsilon = 4.0
    links_budget = 8.0
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from feddep.privacy.budget import exceeds
from feddep.privacy.events import SAID, Event, LinkAnswers, MatchedLinks
from feddep.privacy.links import is_linked, link_epsilon

_Epsilon = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_EPSILON = 'a number from 0, or "unbounded"'

Excess = tuple[str, str, str]
"""The key of a consent, what was asked for, and what it allows."""

_ALLOWED = {
    "none": frozenset[str](),
    "scores": frozenset({"scores"}),
    "labels": frozenset({"scores", "labels", "labels and scores"}),
    "everything": frozenset({"scores", "labels", "labels and scores", "everything"}),
}


class LinkConsent(BaseModel):
    """The part of a consent that is about links to other silos.

    Attributes:
        links: what a silo at the other end of a link may be told of the node at this end:
            ``scores``, what the classifier says of it; ``labels``, its confirmed class too;
            ``everything``, also features and hidden states. ``none`` forbids links altogether.
        links_epsilon: the largest ε of the noise on all that is told of one node in a run.
        links_budget: the largest ε of all runs together, counted from the disclosure log; None
            sets no budget.
        links_one_sided: for how many nodes the silo answers each other silo, although it does not
            have the link itself. Whoever may ask for many nodes can ask about all of them.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    links: Literal["none", "scores", "labels", "everything"] = Field(
        "none", description='"none", "scores", "labels" or "everything"'
    )
    links_epsilon: _Epsilon | Literal["unbounded"] = Field(0.0, description=_EPSILON)
    links_budget: _Epsilon | None = Field(None, description="a number from 0")
    links_one_sided: Annotated[int, Field(ge=0)] = Field(0, description="a whole number from 0")

    def beyond_links(self, told: Sequence[Event]) -> Iterator[Excess]:
        """What goes beyond these lines in a run that tells other silos this."""
        if not is_linked(told):
            return
        if self.links == "none":
            yield "links", "the run looks for links to other silos", "none"
            return
        kinds = {event.of for event in told if isinstance(event, LinkAnswers)}
        for kind in sorted(kinds - _ALLOWED[self.links]):
            what = "features or hidden states" if kind == "everything" else kind
            yield "links", f"other silos would be told {what} of nodes with links", self.links
        epsilon = link_epsilon(told)
        if self.links_epsilon != "unbounded" and exceeds(epsilon, float(self.links_epsilon)):
            asked = f"what is told of one node costs an ε of {spelt(epsilon)}"
            yield "links_epsilon", asked, f"at most {self.links_epsilon:g}"
        one_sided = any(isinstance(event, MatchedLinks) and event.one_sided for event in told)
        if one_sided and not self.links_one_sided:
            asked = "the run asks for answers about links that only the other silo has"
            yield "links_one_sided", asked, "none"

    def beyond_links_budget(self, before: float, own: float) -> Iterator[Excess]:
        """What exceeds the budget if a run of some ε comes after runs of another."""
        if self.links_budget is not None and exceeds(before + own, self.links_budget):
            asked = (
                f"what is told of one node would have cost an ε of {spelt(before + own)} in all "
                f"runs together; {spelt(before)} is spent by earlier ones"
            )
            yield "links_budget", asked, f"at most {self.links_budget:g}"


def told_by(planned: Sequence[Event], *, secret: bool) -> list[Event]:
    """What a run tells other silos, among all that is planned.

    Args:
        planned: the run's events.
        secret: whether the silo draws its noise from a secret of its own. Noise from the run's
            seed can be removed by everybody: then nothing bounds what is told.
    """
    found: list[Event] = []
    for event in planned:
        if isinstance(event, LinkAnswers):
            source: Literal["seed", "secret"] = "secret" if secret else "seed"
            event = replace(event, noise_from=source)
            event = event if secret else replace(event, epsilon=None)
        if isinstance(event, SAID):
            found.append(event)
    return found


def spelt(epsilon: float) -> str:
    """An ε in words."""
    return f"{epsilon:.4g}" if epsilon < float("inf") else "any size (nothing bounds it)"
