"""No message of an honest run is refused, whatever the method and however odd the clients.

And what phases declare is what they do: every step that is declared is taken, every group and
number that is declared is sent by somebody.
"""

from dataclasses import replace

import pytest

from feddep.algorithms import METHODS, find_method
from feddep.deployment.protocol.agreement import expected_of
from feddep.federation.inspection import inspect_reply, inspect_request, without_long_gradients
from feddep.federation.messages import group_of
from small_runs import messages_of, pool_of


def inspected(shards, method, **settings):
    """What is said in a run, after both sides have looked at it.

    They allow less than the package does: no honest message comes near its bounds.
    """
    pool = pool_of(find_method(method), shards, **settings)
    servers = replace(
        expected_of(pool.method, pool.spec, shards.graph.nodes),
        largest_bytes=2**20,
        largest_norm=100.0,
    )
    said = messages_of(pool, shards)
    for request, reply in said:
        of_client = replace(servers, nodes=pool.graphs[request.client].nodes)
        inspect_request(request, of_client)
        inspect_reply(reply, request, of_client)
        assert without_long_gradients(reply, request, of_client) is reply
    return said, servers.phases


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["small_shards", "odd_shards"])
def test_everything_that_is_said_passes(request, name, kind):
    said, _ = inspected(request.getfixturevalue(kind), name)
    assert said


def declared_names(steps):
    return {
        (phase, step, direction, name)
        for phase, own in steps.items()
        for step, declared in own.items()
        for direction in ("request", "reply", "numbers")
        for name in getattr(declared, direction)
    }


def said_names(said):
    found = set()
    for question, answer in said:
        place = (question.phase, question.step)
        found |= {(*place, "request", group_of(name)) for name in question.arrays}
        found |= {(*place, "reply", group_of(name)) for name in answer.arrays}
        found |= {(*place, "numbers", name) for name in answer.metrics}
    return found


@pytest.mark.parametrize("name", METHODS)
def test_a_phase_declares_what_it_carries_and_nothing_else(small_shards, name):
    said, steps = inspected(small_shards, name)
    assert said_names(said) == declared_names(steps)
    taken = {(question.phase, question.step) for question, _ in said}
    assert taken == {(phase, step) for phase, own in steps.items() for step in own}


@pytest.mark.parametrize(
    "settings",
    [{"embedding.warm_start": True}, {"training.update_clip": 0.1, "training.update_noise": 2.0}],
    ids=["warm start", "noised updates"],
)
def test_so_does_a_run_with_other_settings(small_shards, settings):
    said, steps = inspected(small_shards, "feddep", **settings)
    assert said_names(said) == declared_names(steps)
    sent = {question.phase for question, answer in said if answer.arrays}
    assert ("local_gnn" in sent) == ("embedding.warm_start" in settings)
