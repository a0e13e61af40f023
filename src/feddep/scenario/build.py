"""From a spec to a graph, to its shards, to the graph of each client."""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from feddep.algorithms import find_method
from feddep.algorithms.method import Method
from feddep.errors import InputError, unknown
from feddep.federation.messages import State, grouped
from feddep.graph import datasets, partition, splits, synthetic
from feddep.graph.arranging import canonical
from feddep.graph.files import MANIFEST, format_of
from feddep.graph.folder import is_graph_folder, read_graph
from feddep.graph.graph import Graph, Part
from feddep.graph.shard import Shards, is_shard_collection, read_shards, shard_settings
from feddep.learning.spec import LearningSpec
from feddep.privacy.spec import refuse_unread
from feddep.reading import json_of, plain_bytes
from feddep.scenario.presets import may_set, preset_settings
from feddep.scenario.spec import RunSpec, spec_keys
from feddep.seeding import Seeds

log = logging.getLogger(__name__)


def dataset_names() -> list[str]:
    """Every name that :func:`load` knows."""
    return ["synthetic", *datasets.DATASETS]


def load(name: str, spec: synthetic.SyntheticSpec) -> Graph:
    """A data set by name, or a graph folder by path. ``spec`` shapes ``synthetic``.

    Raises:
        InputError: neither a known name nor a graph folder.
    """
    if name == "synthetic":
        return synthetic.generate(spec, Seeds(spec.seed))
    if name in datasets.DATASETS:
        return datasets.load(name)
    folder = Path(name)
    if is_graph_folder(folder):
        return read_graph(folder)
    if is_shard_collection(folder):
        return read_shards(folder).graph
    with suppress(OSError):  # what cannot be a file, such as a name that is too long, is none
        if folder.exists():
            raise InputError(
                f"{name} is neither a graph folder nor a shard folder; "
                "both have a manifest.json (see docs/own_data.md)"
            )
    raise unknown("data set", name, dataset_names())


def resolve(spec: RunSpec, given: Collection[str] = ()) -> RunSpec:
    """The spec with the values that the user left open, and those that nobody may choose.

    The preset fills the keys that are not given. A method's own settings and a folder's shards
    stand above it.

    Args:
        spec: the run's spec.
        given: keys that the user set; one that contradicts is refused, not overruled, and so is a
            parameter of another mechanism than the run's.
    """
    method = find_method(spec.method)
    if any(may_set(key) and key not in given for key in spec_keys()):
        preset = preset_settings(spec.preset, method, _data_name(spec.dataset))
        spec = spec.with_settings({key: preset[key] for key in preset if key not in given})
    decided = [(f"method {method.name}", method.settings)]
    if _is_shard_folder(spec.dataset):
        brought = _known_kinds(shard_settings(Path(spec.dataset)))
        if "seed" in given:
            del brought["seed"]  # shards may be trained on with several seeds
        decided.append((spec.dataset, brought))
    for who, settings in decided:
        for key, value in settings.items():
            if key in given and spec.value_of(key) != value:
                raise InputError(
                    f"{who} has {key} = {value} (got {spec.value_of(key)}); leave it out"
                )
        spec = spec.with_settings(settings)
    section = "privacy."
    parameters = {
        key.removeprefix(section): spec.value_of(key) for key in given if key.startswith(section)
    }
    refuse_unread(spec.privacy.mechanism, parameters)
    return spec


def settings_of(shards: Shards) -> dict[str, Any]:
    """What shards say about a run's spec."""
    return _known_kinds(
        {
            "dataset": shards.graph.name,
            "partition.clients": shards.clients,
            "partition.kind": shards.kind,
            "split.kind": shards.split,
            "partition.links": shards.links,
        }
    )


def _known_kinds(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of shards; a kind of their owner's own is ``given`` to whoever runs on them."""
    known = {"partition.kind": [*partition.KINDS], "split.kind": [*splits.KINDS]}
    own = {key for key, kinds in known.items() if settings[key] not in kinds}
    return {**settings, **dict.fromkeys(own, "given")}


def build(spec: RunSpec) -> Shards:
    """The clients' subgraphs: loaded, split and partitioned as the spec says.

    A shard folder brings its own partition and split, a graph folder its split if it has one.
    """
    if _is_shard_folder(spec.dataset):
        shards = read_shards(Path(spec.dataset))
        _refuse_fewer_labels(spec.split, spec.dataset)
    else:
        shards = split_and_partition(
            load(spec.dataset, spec.synthetic),
            spec.partition,
            spec.split,
            seed=spec.seed,
        )
    return prepare(shards, spec)


def prepare(shards: Shards, spec: RunSpec) -> Shards:
    """The shards with the features that the spec leaves them, in the order of their names.

    A split by what nodes are marked with takes the place of the one that they bring.

    Raises:
        InputError: they cannot be trained on.
    """
    if spec.split.by != "random":
        shards = divided_by(shards, spec.split, seed=spec.seed)
    if shards.graph.schema is not None:
        shards = replace(shards, graph=canonical(shards.graph))
    if spec.feature_share < 1:
        shards = replace(shards, graph=with_fewer_columns(shards.graph, spec))
    check_trainable(shards)
    return shards


def with_fewer_columns(graph: Graph, spec: RunSpec) -> Graph:
    """The graph with the share of its feature columns that the spec leaves it."""
    count = max(1, round(spec.feature_share * graph.feature_count))
    rng = Seeds(spec.seed).stream("feature_share")
    columns = np.sort(rng.permutation(graph.feature_count)[:count])
    return replace(graph, features=graph.features[:, columns], schema=None)


def split_and_partition(
    graph: Graph,
    partition_spec: partition.PartitionSpec,
    split_spec: splits.SplitSpec,
    *,
    seed: int,
) -> Shards:
    """Splits a graph, unless it has a split and none by its marks is asked for; partitions it."""
    seeds = Seeds(seed)
    if (graph.split != Part.NONE).any() and split_spec.by == "random":
        _refuse_fewer_labels(split_spec, graph.name)
        split = "given"
    else:
        graph = graph.with_split(splits.draw(graph, split_spec, seeds))
        split = name_of_split(split_spec)
    owner = partition.assign(graph, partition_spec, seeds)
    shards = Shards(graph, owner, partition_spec.kind, seed, split)
    return shards.with_known_links() if partition_spec.links == "known" else shards


def divided_by(shards: Shards, spec: splits.SplitSpec, *, seed: int) -> Shards:
    """The shards with another split, by what their nodes are marked with."""
    drawn = spec if spec.kind in splits.KINDS else replace(spec, kind="stratified")
    graph = shards.graph.with_split(splits.draw(shards.graph, drawn, Seeds(seed)))
    return replace(shards, graph=graph, split=name_of_split(spec))


def name_of_split(spec: splits.SplitSpec) -> str:
    """As records and manifests call it."""
    return spec.kind if spec.by == "random" else f"by {spec.by}"


def _refuse_fewer_labels(spec: splits.SplitSpec, whose: str) -> None:
    if spec.by == "random" and spec.train != splits.SplitSpec().train:
        raise InputError(
            f"{whose} brings a split of its own, so split.train = {spec.train} cannot hold; "
            "leave it out"
        )


def check_links(shards: Shards, method: Method) -> None:
    """Refuses a method for linked silos where no silo knows a link to another.

    Raises:
        InputError: that is so.
    """
    if method.linked and shards.links == "lost":
        raise InputError(
            f"{method.name} needs silos that know their links to each other, and none of these "
            "does; add --links known, or data that name counterparties (docs/linked.md)"
        )


def client_graphs(shards: Shards, method: Method) -> Iterable[Graph]:
    """The graph of each client of a method: its shard, or the whole graph for a single client."""
    return [shards.graph] if method.whole_graph else shards


def initial_server_state(shards: Shards, method: Method) -> State:
    """What the server knows before the first message: nothing, or the edges between clients."""
    if not method.sees_cross_edges:
        return {}
    return grouped("crossings", {str(i): rows for i, rows in enumerate(shards.crossings())})


def learning_spec_for(spec: RunSpec, graph: Graph, method: Method) -> LearningSpec:
    """:func:`learning_spec_of` a graph's sizes."""
    return learning_spec_of(spec, graph.feature_count, graph.classes, method)


def learning_spec_of(spec: RunSpec, features: int, classes: int, method: Method) -> LearningSpec:
    """The part of the spec that the clients of a method need for learning.

    Raises:
        InputError: a round cannot be chosen by the measure asked for with so many classes.
    """
    spec.selection.check(classes)
    return LearningSpec(
        features=features,
        classes=classes,
        seed=spec.seed,
        model=spec.model,
        training=spec.training,
        embedding=spec.embedding,
        generator=spec.generator,
        privacy=spec.privacy,
        aggregation=spec.aggregation,
        selection=spec.selection,
        fusion=method.fusion,
        links=spec.links,
    )


def _data_name(dataset: str) -> str:
    """The name of the data; a folder's is in its manifest."""
    folder = Path(dataset)
    if dataset in dataset_names() or format_of(folder) is None:
        return dataset
    manifest = json_of(plain_bytes(folder / MANIFEST))
    return str(manifest.get("data_set", manifest.get("name", dataset)))


def _is_shard_folder(dataset: str) -> bool:
    return dataset not in dataset_names() and is_shard_collection(Path(dataset))


def check_trainable(shards: Shards) -> None:
    """Refuses a federation in which a class, or everybody, has nothing to train on.

    A single client without training nodes is allowed: it takes part with weight 0.
    """
    graph = shards.graph
    training = graph.split == Part.TRAIN
    if not training.any():
        raise InputError(f"{graph.name} has no training node; give nodes the split 'train'")
    present = np.bincount(graph.labels[graph.labels >= 0], minlength=graph.classes)
    trained = np.bincount(graph.labels[training], minlength=graph.classes)
    empty = np.flatnonzero((present > 0) & (trained == 0))
    if len(empty):
        raise InputError(
            f"class {empty[0]} of {graph.name} has nodes but none to train on; "
            "use --split stratified or change the split column"
        )
    idle = set(range(shards.clients)) - set(np.unique(shards.owner[training]).tolist())
    if idle:
        log.warning(
            "clients without training nodes take part with weight 0: %s",
            ", ".join(map(str, sorted(idle))),
        )
