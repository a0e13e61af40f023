"""No message of an honest run is refused, whatever the method and however odd the clients."""

from dataclasses import replace

import pytest

from feddep.algorithms import METHODS, find_method
from feddep.deployment.protocol.agreement import expected_of
from feddep.federation.inspection import (
    ANSWERED_WITH,
    ASKED_WITH,
    inspect_reply,
    inspect_request,
    without_long_gradients,
)
from small_runs import host_of, messages_of


def inspected(shards, method, **settings):
    """What is said in a run, after both sides have looked at it.

    They allow less than the package does: no honest message comes near its bounds.
    """
    host = host_of(find_method(method), shards, **settings)
    servers = replace(
        expected_of(host.method, host.spec, shards.graph.nodes),
        largest_bytes=2**20,
        largest_norm=100.0,
    )
    said = messages_of(host, shards)
    for request, reply in said:
        of_client = replace(servers, nodes=host.graphs[request.client].nodes)
        inspect_request(request, of_client)
        inspect_reply(reply, request, of_client)
        assert without_long_gradients(reply, of_client) is reply
    return said


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", ["small_shards", "odd_shards"])
def test_everything_that_is_said_passes(request, name, kind):
    said = inspected(request.getfixturevalue(kind), name)
    assert said
    for question, answer in said:
        step = (question.phase, question.step)
        told, brought = {*question.arrays}, {*answer.arrays, *answer.metrics}
        for names, there in [(ASKED_WITH, told), (ANSWERED_WITH, brought)]:
            groups = there | {f"{key.partition('/')[0]}/" for key in there if "/" in key}
            assert names.get(step, frozenset()) <= groups


def test_every_step_that_needs_something_is_one_of_a_method(small_shards):
    steps = {
        (question.phase, question.step)
        for name in METHODS
        for question, _ in inspected(small_shards, name)
    }
    assert ANSWERED_WITH.keys() | ASKED_WITH.keys() <= steps


@pytest.mark.parametrize(
    "settings",
    [{"embedding.warm_start": True}, {"training.update_clip": 0.1, "training.update_noise": 2.0}],
    ids=["warm start", "noised updates"],
)
def test_so_does_a_run_with_other_settings(small_shards, settings):
    said = inspected(small_shards, "feddep", **settings)
    sent = {question.phase for question, answer in said if answer.arrays}
    assert ("local_gnn" in sent) == ("embedding.warm_start" in settings)
