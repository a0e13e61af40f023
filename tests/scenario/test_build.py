"""From a spec to the clients' data."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from feddep.algorithms import find_method
from feddep.errors import InputError
from feddep.graph.folder import write_graph
from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards, write_shards
from feddep.graph.synthetic import SyntheticSpec
from feddep.privacy.spec import Mechanism
from feddep.scenario import build
from feddep.scenario.spec import RunSpec

SMALL = {
    "synthetic.nodes": 60,
    "synthetic.classes": 3,
    "synthetic.communities_per_class": 2,
    "partition.clients": 3,
}


def small_spec(**settings: object) -> RunSpec:
    dotted = {key.replace("__", "."): value for key, value in settings.items()}
    return RunSpec().with_settings(SMALL | dotted)


def assert_same_graph(found: Graph, expected: Graph) -> None:
    for name in ("indptr", "indices", "labels", "node_ids", "split"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert (found.features != expected.features).nnz == 0


# Loading


def test_synthetic_is_shaped_by_its_spec():
    graph = build.load("synthetic", SyntheticSpec(nodes=140, classes=4, feature_count=120))
    assert (graph.nodes, graph.classes, graph.feature_count) == (140, 4, 120)


def test_a_graph_folder_is_loaded_by_its_path(tmp_path: Path, small_graph: Graph):
    write_graph(small_graph, tmp_path / "mine")
    assert_same_graph(build.load(str(tmp_path / "mine"), SyntheticSpec()), small_graph)


def test_a_shard_folder_is_loaded_as_the_whole_graph(tmp_path: Path, small_shards: Shards):
    write_shards(small_shards, tmp_path / "shards")
    found = build.load(str(tmp_path / "shards"), SyntheticSpec())
    assert_same_graph(found, small_shards.graph)


@pytest.mark.parametrize("name", ["coras", "no/such/folder", "n" * 5000])
def test_an_unknown_data_set_is_refused_with_the_known_ones(name: str):
    with pytest.raises(InputError) as caught:
        build.load(name, SyntheticSpec())
    assert repr(name)[:100] in str(caught.value)
    for known in ("synthetic", "cora", "citeseer", "pubmed", "msacademic"):
        assert known in str(caught.value)


def test_a_folder_without_manifest_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="neither a graph folder nor a shard folder"):
        build.load(str(tmp_path), SyntheticSpec())


# Resolving


def test_a_name_decides_nothing():
    spec = small_spec(seed=4)
    assert build.resolve(spec, {"partition.clients", "selection.metric", "selection.ties"}) == spec


def test_a_shard_folder_decides_clients_partition_and_split(tmp_path: Path, small_graph: Graph):
    spec = small_spec(partition__kind="random", split__kind="random")
    shards = build.split_and_partition(small_graph, spec.partition, spec.split, seed=1)
    write_shards(shards, tmp_path / "shards")
    found = build.resolve(RunSpec().with_settings({"dataset": str(tmp_path / "shards")}))
    assert (found.partition.clients, found.partition.kind) == (3, "random")
    assert found.split.kind == "random"


def test_shards_of_a_kind_of_ones_own_are_written_and_run_on_again(
    tmp_path: Path, small_shards: Shards
):
    own = replace(small_shards, kind="by country", split="by year")
    write_shards(own, tmp_path / "shards")
    given = {"dataset": str(tmp_path / "shards")}
    found = build.resolve(RunSpec().with_settings(given), given)
    assert (found.partition.kind, found.split.kind) == ("given", "given")
    shards = build.build(found)
    assert (shards.kind, shards.split) == ("by country", "by year")
    assert np.array_equal(shards.owner, own.owner)
    assert build.settings_of(own)["split.kind"] == "given"


@pytest.mark.parametrize(
    ("key", "value"),
    [("partition.clients", 4), ("partition.kind", "random"), ("split.kind", "quota")],
)
def test_a_setting_that_contradicts_the_shard_folder_is_refused(
    tmp_path: Path, small_shards: Shards, key: str, value: object
):
    write_shards(small_shards, tmp_path / "shards")
    given = {"dataset": str(tmp_path / "shards"), key: value}
    with pytest.raises(InputError, match=rf"{key} = .* \(got {value}\)"):
        build.resolve(RunSpec().with_settings(given), given)


def test_a_setting_that_agrees_with_the_shard_folder_is_allowed(
    tmp_path: Path, small_shards: Shards
):
    write_shards(small_shards, tmp_path / "shards")
    given = {"dataset": str(tmp_path / "shards"), "partition.clients": 3}
    assert build.resolve(RunSpec().with_settings(given), given).partition.clients == 3


def test_shards_say_what_a_spec_needs_to_know(small_shards: Shards):
    assert build.settings_of(small_shards) == {
        "dataset": "synthetic",
        "partition.clients": 3,
        "partition.kind": "louvain",
        "split.kind": "stratified",
        "partition.links": "known",
    }


# Building


def test_the_same_spec_gives_the_same_shards():
    one, other = build.build(small_spec(seed=2)), build.build(small_spec(seed=2))
    assert np.array_equal(one.owner, other.owner)
    assert_same_graph(one.graph, other.graph)


def test_the_run_seed_changes_split_and_partition_but_not_the_data_set():
    one, other = build.build(small_spec(seed=0)), build.build(small_spec(seed=1))
    assert not np.array_equal(one.owner, other.owner)
    assert not np.array_equal(one.graph.split, other.graph.split)
    assert np.array_equal(one.graph.indices, other.graph.indices)


def test_the_spec_decides_kind_and_number_of_parts():
    shards = build.build(small_spec(partition__kind="label-skew", partition__clients=2, seed=5))
    assert (shards.clients, shards.kind, shards.seed) == (2, "label-skew", 5)


def test_a_shard_folder_brings_its_own_partition_and_split(tmp_path: Path, small_shards: Shards):
    write_shards(small_shards, tmp_path / "shards")
    spec = build.resolve(RunSpec().with_settings({"dataset": str(tmp_path / "shards"), "seed": 9}))
    found = build.build(spec)
    assert np.array_equal(found.owner, small_shards.owner)
    assert_same_graph(found.graph, small_shards.graph)


def test_a_split_that_the_graph_brings_is_kept(small_shards: Shards):
    spec = small_spec(seed=8)
    again = build.split_and_partition(small_shards.graph, spec.partition, spec.split, seed=8)
    assert np.array_equal(again.graph.split, small_shards.graph.split)


def test_more_clients_than_nodes_are_refused():
    with pytest.raises(InputError, match=r"at most 60 clients.* \(got 61\)"):
        build.build(small_spec(partition__clients=61))


# What can be trained


def with_parts(shards: Shards, split: np.ndarray) -> Shards:
    return Shards(shards.graph.with_split(split), shards.owner, shards.kind, shards.seed)


def test_no_training_node_at_all_is_refused(small_shards: Shards):
    split = np.where(small_shards.graph.split == Part.TRAIN, Part.NONE, small_shards.graph.split)
    with pytest.raises(InputError, match="no training node"):
        build.check_trainable(with_parts(small_shards, split))


def test_a_class_without_training_node_is_refused_by_number(small_shards: Shards):
    graph = small_shards.graph
    split = np.where(graph.labels == 1, Part.TEST, graph.split)
    with pytest.raises(InputError, match=r"class 1 of synthetic .* none to train on"):
        build.check_trainable(with_parts(small_shards, split))


def test_a_class_without_any_node_is_allowed_and_with_one_refused(small_shards: Shards):
    graph = small_shards.graph
    two_of_three = np.where(graph.labels == 2, 1, graph.labels)
    with_one = np.where(np.arange(graph.nodes) == graph.members(Part.TEST)[0], 2, two_of_three)
    build.check_trainable(replace(small_shards, graph=replace(graph, labels=two_of_three)))
    with pytest.raises(InputError, match="class 2 of synthetic has nodes but none to train on"):
        build.check_trainable(replace(small_shards, graph=replace(graph, labels=with_one)))


def test_clients_without_training_nodes_are_allowed_and_named_in_a_warning(
    small_graph: Graph, caplog: pytest.LogCaptureFixture
):
    one_of_each_class = np.unique(small_graph.labels, return_index=True)[1]
    split = np.full(small_graph.nodes, Part.TEST)
    split[one_of_each_class] = Part.TRAIN
    owner = np.arange(small_graph.nodes) % 2 * 2
    owner[one_of_each_class] = 1
    with caplog.at_level(logging.WARNING):
        build.check_trainable(Shards(small_graph.with_split(split), owner, "random", 0))
    assert "weight 0: 0, 2" in caplog.text


def test_there_is_no_warning_when_every_client_trains(
    small_shards: Shards, caplog: pytest.LogCaptureFixture
):
    build.check_trainable(small_shards)
    assert not caplog.records


# Clients' graphs and learning


def test_every_party_holds_its_shard(small_shards: Shards):
    found = list(build.client_graphs(small_shards, find_method("fedavg")))
    assert [graph.nodes for graph in found] == np.bincount(small_shards.owner).tolist()


def test_the_one_party_of_global_holds_the_whole_graph(small_shards: Shards):
    (found,) = build.client_graphs(small_shards, find_method("global"))
    assert found is small_shards.graph


def test_the_learning_spec_takes_shape_from_the_graph_and_the_rest_from_the_spec(
    small_graph: Graph,
):
    spec = small_spec(seed=6, model__hidden=9, training__rounds=4)
    learning = build.learning_spec_for(spec, small_graph, find_method("fedavg"))
    assert (learning.features, learning.classes, learning.seed) == (60, 3, 6)
    assert (learning.model, learning.training) == (spec.model, spec.training)


def test_a_method_s_own_settings_are_part_of_the_spec_and_cannot_be_contradicted():
    spec = RunSpec().with_settings({"method": "feddep-wo-dgen"})
    assert build.resolve(spec).embedding.depth == 0
    asked = {"method": "feddep-wo-dgen", "embedding.depth": 2}
    with pytest.raises(InputError, match=r"feddep-wo-dgen has embedding.depth = 0 \(got 2\)"):
        build.resolve(RunSpec().with_settings(asked), asked)


@pytest.mark.parametrize(
    ("key", "value", "readers"),
    [
        ("privacy.epsilon", 2.0, {"randomised-response", "aggregation-perturbation", "dp-sgd"}),
        ("privacy.keep_edge", 0.5, {"randomised-response"}),
        ("privacy.occurrences", 1, {"dp-sgd"}),
        ("privacy.max_degree", 3, {"aggregation-perturbation"}),
    ],
)
@pytest.mark.parametrize("mechanism", get_args(Mechanism))
def test_a_parameter_that_the_mechanism_does_not_read_is_refused(
    key: str, value: float, readers: set[str], mechanism: str
):
    given = {"privacy.mechanism": mechanism, key: value}
    spec = small_spec().with_settings(given)
    if mechanism in readers:
        assert build.resolve(spec, given).value_of(key) == value
    else:
        with pytest.raises(InputError, match=f"{key} is .* {mechanism} does not .*got {value}"):
            build.resolve(spec, given)
        open_value = {key: 0}
        assert build.resolve(spec.with_settings(open_value), given).value_of(key) == 0


def test_the_mechanism_that_counts_is_the_method_s_own():
    given = {"method": "feddep-wo-nfdp", "privacy.epsilon": 2.0}
    assert build.resolve(small_spec().with_settings(given), given).privacy.mechanism == "dp-sgd"
    given |= {"privacy.keep_edge": 0.5}
    with pytest.raises(InputError, match="dp-sgd does not take"):
        build.resolve(small_spec().with_settings(given), given)


def test_a_shard_folder_brings_its_seed_unless_one_is_given(small_shards: Shards, tmp_path: Path):
    write_shards(replace(small_shards, seed=7), tmp_path / "shards")
    spec = RunSpec().with_settings({"dataset": str(tmp_path / "shards")})
    assert build.resolve(spec).seed == 7
    assert build.resolve(spec.with_settings({"seed": 3}), {"seed"}).seed == 3


def test_a_partition_of_one_s_own_is_called_given(small_shards: Shards):
    assert build.settings_of(replace(small_shards, kind="by hand"))["partition.kind"] == "given"


def test_a_graph_s_own_split_is_kept_and_called_given(small_shards: Shards):
    spec = RunSpec()
    shards = build.split_and_partition(small_shards.graph, spec.partition, spec.split, seed=0)
    assert shards.split == "given"
    np.testing.assert_array_equal(shards.graph.split, small_shards.graph.split)


def test_a_share_of_the_feature_columns_is_kept(small_shards):
    spec = RunSpec().with_settings(
        {"feature_share": 0.25, "synthetic.nodes": 150, "partition.clients": 3}
    )
    whole, fewer, again = (
        build.build(s).graph for s in (replace(spec, feature_share=1.0), spec, spec)
    )
    assert fewer.feature_count == round(0.25 * whole.feature_count)
    assert fewer.edges == whole.edges
    assert (fewer.features != again.features).nnz == 0
    other = build.build(replace(spec, seed=1)).graph
    assert (fewer.features.sum(axis=0) != other.features.sum(axis=0)).any()


def test_fewer_labels_are_for_splits_that_are_drawn_here(tmp_path: Path, small_shards: Shards):
    spec = RunSpec().with_settings({"split.train": 0.1})
    few = build.build(spec.with_settings({"dataset": "synthetic"})).graph
    assert (few.split == Part.TRAIN).sum() < 0.15 * few.nodes
    write_shards(small_shards, tmp_path / "shards")
    with pytest.raises(InputError, match=r"brings a split of its own, so split.train = 0.1"):
        build.build(spec.with_settings({"dataset": str(tmp_path / "shards")}))
    with pytest.raises(InputError, match="leave it out"):
        build.split_and_partition(small_shards.graph, spec.partition, spec.split, seed=0)
