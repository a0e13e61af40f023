"""What silos tell each other about the nodes at the ends of links between them: its price.

The promise is another one than that for edges inside a silo: ε is for one node of the silo that
answers, against the silos that have a link to it. The server carries sealed bytes.
"""

import math

from feddep.privacy.events import Events, LinkAnswers, MatchedLinks


def link_epsilon(events: Events) -> float:
    """ε for all that one client tells of one of its nodes; infinite where nothing bounds it."""
    answers = [event for event in events if isinstance(event, LinkAnswers)]
    return math.fsum(math.inf if e.epsilon is None else e.epsilon for e in answers)


def is_linked(events: Events) -> bool:
    """Whether a client tells other silos anything of links to them."""
    return any(isinstance(event, MatchedLinks | LinkAnswers) for event in events)
