"""What a run would do with a silo's data and cost it, before it starts."""

from dataclasses import replace

from feddep.algorithms.method import Method
from feddep.graph.graph import Graph
from feddep.learning.spec import LearningSpec
from feddep.privacy.accountant import Guarantee, price
from feddep.privacy.events import Event, OneShotSampling
from feddep.runs.accounting import mechanism_events, planned_messages
from feddep.scenario.spec import RunSpec


def planned_price(spec: RunSpec, method: Method, learning: LearningSpec, graph: Graph) -> Guarantee:
    """The sound (ε, δ) that a run would guarantee for one edge of a silo, before it starts.

    See :func:`planned_events` for what counts and for the arguments.
    """
    events = planned_events(method, learning, graph)
    return price(events, graph.nodes, spec.privacy.delta_prime).sound


def planned_events(method: Method, learning: LearningSpec, graph: Graph) -> list[Event]:
    """What a run would do with a silo's edges, and all that it may send, before it starts.

    Everything that the method may send counts as sent. The guarantee holds only if the silo draws
    its noise from a secret of its own: the server can reproduce noise drawn from the run's seed.

    The server learns the result and may ask about many runs, so it must not depend on the edges.
    So the worst case is assumed for one-shot samples, which show short lists whole.

    Args:
        method: the method that the spec names.
        learning: the agreed learning settings.
        graph: the silo's own graph, before any mechanism.
    """
    nodes_alone = graph.with_edges([])
    planned = [_at_worst(event) for event in mechanism_events(method, learning, nodes_alone)]
    return planned + planned_messages(method, learning)


def _at_worst(event: Event) -> Event:
    if isinstance(event, OneShotSampling):
        return replace(event, list_delta=1.0, edge_delta=1.0)
    return event
