"""What is agreed on before a run, and what a stranger may not pass off as an agreement."""

import pytest
import torch
from envelopes import agreement_on

from feddep.algorithms import METHODS
from feddep.deployment.protocol.agreement import LARGEST_BYTES, Agreement, digest_of
from feddep.errors import InputError
from feddep.models.weights import to_arrays
from feddep.phases.local_gnn import shared_shapes
from feddep.scenario.spec import RunSpec

FEDERATED = [name for name in METHODS if name not in ("global", "oracle")]


@pytest.fixture
def agreement(small_graph) -> Agreement:
    return agreement_on(small_graph)


def test_plain_and_back(agreement):
    plain = agreement.to_plain()
    assert all(isinstance(value, str | int) for value in plain.values())
    assert Agreement.from_plain(plain) == agreement
    assert Agreement.from_plain(plain | {"kind": "agree"}) == agreement


@pytest.mark.parametrize("missing", ["run", "spec", "features", "classes", "nodes"])
def test_nothing_may_be_missing(agreement, missing):
    plain = agreement.to_plain()
    del plain[missing]
    with pytest.raises(InputError, match=f"expected an agreement.*{missing}"):
        Agreement.from_plain(plain)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"run": "../elsewhere"}, "run name: expected"),
        ({"run": "a_b"}, "run name: expected"),
        ({"run": "x" * 65}, "run name: expected"),
        ({"run": None, "spec": None}, "not TOML|unknown"),
        ({"features": 0}, "at least one feature, one class and one node"),
        ({"classes": -1}, "at least one feature, one class and one node"),
        ({"nodes": 0}, "at least one feature, one class and one node"),
        ({"nodes": "many"}, "expected an agreement"),
        ({"nodes": float("inf")}, "expected an agreement"),
        ({"classes": []}, "expected an agreement"),
        ({"spec": "method = "}, "not TOML"),
        ({"spec": "colour = 3"}, "unknown setting 'colour'"),
        ({"spec": "seed = -1"}, "seed"),
        ({"spec": 'method = "nonsense"'}, "unknown method 'nonsense'"),
    ],
)
def test_what_is_no_agreement_is_refused(agreement, wrong, said):
    with pytest.raises(InputError, match=said):
        Agreement.from_plain(agreement.to_plain() | wrong)


@pytest.mark.parametrize(
    ("method", "why"), [("global", "it needs the whole graph"), ("oracle", "no silo has its input")]
)
def test_what_is_no_federation_is_refused_by_name(agreement, method, why):
    spec = RunSpec(method=method).to_toml()
    with pytest.raises(InputError, match=f"{method} cannot run on Flower: {why}"):
        Agreement.from_plain(agreement.to_plain() | {"spec": spec})


@pytest.mark.parametrize("method", FEDERATED)
def test_every_other_method_is_one(small_graph, method):
    agreement = agreement_on(small_graph, method)
    assert agreement.method is METHODS[method]
    assert list(agreement.expected.phases) == [phase.name for phase in METHODS[method].phases]


def test_what_may_cross_is_what_the_method_declares(agreement):
    expected, spec = agreement.expected, agreement.learning
    assert {name: set(steps) for name, steps in expected.phases.items()} == {
        "averaging": {"train", "score"}
    }
    assert expected.largest_bytes == LARGEST_BYTES
    shapes = {name: array.shape for name, array in to_arrays(spec.classifier()).items()}
    train = expected.phases["averaging"]["train"]
    assert train.request["classifier"].shapes == train.reply["classifier"].shapes == shapes


@pytest.mark.parametrize(
    "large",
    [
        {"model.hidden": 20_000},
        {"embedding.width": 20_000},
        {"model.layers": 10**9},
        {"generator.slots": 2_000_000},
        {"generator.batch_size": 2**28},
        {"embedding.clusters": 2**26},
    ],
    ids=lambda large: next(iter(large)),
)
def test_what_could_not_be_sent_is_refused_before_it_is_made(small_graph, large):
    with pytest.raises(InputError, match=r"bytes, but at most .* choose a smaller"):
        agreement_on(small_graph, "feddep", **large)


def test_generated_rows_are_bounded_where_they_leave(small_graph):
    many = {"generator.slots": 1000}
    sends = agreement_on(small_graph, "feddep-wo-proto", **many)
    sends.check_nodes(10)
    with pytest.raises(InputError, match=r"'generate' of peer_search .* smaller generator.slots"):
        sends.check_nodes(100_000)
    agreement_on(small_graph, "feddep", **many).check_nodes(100_000)


def test_the_digest_is_that_of_everything_agreed_on(agreement):
    known = {**agreement.to_plain(), "client": 0}
    changes = {"run": "x", "spec": "x", "features": 9, "classes": 9, "nodes": 9, "client": 1}
    digests = {digest_of(known), *(digest_of(known | {k: v}) for k, v in changes.items())}
    assert len(digests) == 1 + len(changes)
    assert digest_of(known | {"sound": 1, "sent": {}}) == digest_of(known)


def test_shapes_cost_no_memory_and_no_random_number(small_graph):
    agreement = agreement_on(small_graph, "feddep", **{"embedding.warm_start": True})
    before = torch.random.get_rng_state()
    warm_start = agreement.expected.phases["local_gnn"]["train"].reply["classifier"]
    assert torch.equal(torch.random.get_rng_state(), before)
    assert warm_start.shapes == shared_shapes(agreement.learning)


def test_sizes_follow_the_spec(small_graph):
    agreement = agreement_on(
        small_graph, "feddep", **{"embedding.width": 6, "embedding.clusters": 5}
    )
    prototypes = agreement.expected.phases["prototype_exchange"]["release"].reply["prototypes"]
    assert (prototypes.count, prototypes.axes) == (5, (6,))
    assert agreement.expected.all_nodes == agreement.nodes


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"training.local_epochs": 10**9}, "local_epochs is 1000000000, where"),
        (
            {"training.local_epochs": 1000, "training.rounds": 101},
            "rounds x local_epochs is 101000",
        ),
        ({"training.fanout": 10**9}, "at most 1000"),
        ({"embedding.epochs": 10**9}, "at most 10000"),
        ({"generator.epochs": 10**9}, "at most 10000"),
    ],
)
def test_what_would_keep_a_silo_busy_for_ever_is_refused(small_graph, asked, says):
    with pytest.raises(InputError, match=says):
        agreement_on(small_graph, "feddep", **asked)
