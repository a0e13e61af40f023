"""What is agreed on before a run, and what a stranger may not pass off as an agreement."""

import pytest
from correspondence import agreement_on

from feddep.algorithms import METHODS
from feddep.deployment.agreement import LARGEST_BYTES, Agreement
from feddep.errors import InputError
from feddep.models.weights import to_arrays
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
        ({"run": "../elsewhere"}, "a run's name"),
        ({"run": "a_b"}, "a run's name"),
        ({"run": "x" * 65}, "a run's name"),
        ({"run": None, "spec": None}, "not TOML|unknown"),
        ({"features": 0}, "needs features, classes and nodes"),
        ({"classes": -1}, "needs features, classes and nodes"),
        ({"nodes": 0}, "needs features, classes and nodes"),
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
    ("method", "why"), [("global", "one party holds the whole graph"), ("oracle", "nobody has its")]
)
def test_what_is_no_federation_is_refused_by_name(agreement, method, why):
    spec = RunSpec(method=method).to_toml()
    with pytest.raises(InputError, match=f"{method} cannot run on Flower: {why}"):
        Agreement.from_plain(agreement.to_plain() | {"spec": spec})


@pytest.mark.parametrize("method", FEDERATED)
def test_every_other_method_is_one(small_graph, method):
    agreement = agreement_on(small_graph, method)
    assert agreement.method is METHODS[method]
    assert agreement.expected.discloses == METHODS[method].discloses


def test_what_may_cross_is_what_the_method_declares(agreement):
    expected, recipe = agreement.expected, agreement.recipe
    assert expected.discloses == {"classifier"}
    assert set(expected.reports) == {"averaging"}
    assert expected.largest_bytes == LARGEST_BYTES
    shapes = {name: array.shape for name, array in to_arrays(recipe.classifier()).items()}
    assert expected.shapes["classifier"] == shapes


def test_sizes_follow_the_spec(small_graph):
    agreement = agreement_on(
        small_graph, "feddep", **{"embedding.width": 6, "embedding.clusters": 5}
    )
    assert agreement.expected.rows["prototypes"] == (5, 6)
    assert agreement.expected.rows["features"] == (agreement.nodes, small_graph.feature_count)
