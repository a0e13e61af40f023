"""From a spec to a graph, to its shards, to the graph of each client."""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
from feddep.graph.silos import ClientData, Silos
from feddep.learning.spec import LearningSpec
from feddep.privacy.spec import refuse_unread
from feddep.reading import json_of, plain_bytes
from feddep.scenario.presets import may_set, preset_settings
from feddep.scenario.spec import RunSpec, spec_keys
from feddep.seeding import Seeds
from feddep.tables.silo_data import open_silos

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
    if spec.silos:
        spec = _of_silos(spec, given)
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


def _of_silos(spec: RunSpec, given: Collection[str]) -> RunSpec:
    """The spec of a run on silos: they are the data set, and nobody divides them."""
    brought = {
        "dataset": Silos.name,
        "partition.clients": len(spec.silos),
        "partition.kind": Silos.kind,
        "split.kind": Silos.split,
    }
    for key, value in brought.items():
        if key in given and spec.value_of(key) != value:
            raise InputError(
                f"silos are the data, {len(spec.silos)} clients that nobody divides "
                f"(got {key} = {spec.value_of(key)}); leave it out"
            )
    return spec.with_settings(brought)


def settings_of(shards: ClientData) -> dict[str, Any]:
    """What shards or silos say about a run's spec."""
    if isinstance(shards, Silos):
        return {
            "dataset": shards.name,
            "silos": shards.folders,
            "partition.clients": shards.clients,
            "partition.kind": shards.kind,
            "split.kind": shards.split,
            "partition.links": shards.links,
        }
    return _known_kinds(
        {
            "dataset": shards.name,
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


def build(spec: RunSpec) -> ClientData:
    """The clients' subgraphs: loaded, split and partitioned as the spec says.

    Silos bring theirs. A shard folder brings its own partition and split, a graph folder its split
    if it has one.
    """
    shards: ClientData
    if spec.silos:
        flags: dict[str, Any] = {"flows": True} if spec.model.reads_flows else {}
        shards = open_silos(spec.silos, seed=spec.seed, **flags)
    elif _is_shard_folder(spec.dataset):
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


def build_shards(spec: RunSpec) -> Shards:
    """:func:`build` for those who need the whole graph.

    Raises:
        InputError: the spec names silos that are never joined.
    """
    found = build(spec)
    if isinstance(found, Silos):
        raise InputError("silos that are never joined have no whole graph; choose a data set")
    return found


def prepare(shards: ClientData, spec: RunSpec) -> ClientData:
    """The shards with the features that the spec leaves them, in the order of their names.

    A split by what nodes are marked with takes the place of the one that they bring.

    Raises:
        InputError: they cannot be trained on.
    """
    if spec.split.by != "random":
        shards = divided_by(shards, spec.split, seed=spec.seed)
    if isinstance(shards, Silos):
        shards = replace(shards, graphs=tuple(_prepared(graph, spec) for graph in shards))
    else:
        shards = replace(shards, graph=_prepared(shards.graph, spec))
    check_trainable(shards)
    return shards


def _prepared(graph: Graph, spec: RunSpec) -> Graph:
    graph = canonical(graph)
    return with_fewer_columns(graph, spec) if spec.feature_share < 1 else graph


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


def divided_by(shards: ClientData, spec: splits.SplitSpec, *, seed: int) -> ClientData:
    """The shards with another split, by what their nodes are marked with."""
    drawn = spec if spec.kind in splits.KINDS else replace(spec, kind="stratified")

    def divided(graph: Graph) -> Graph:
        return graph.with_split(splits.draw(graph, drawn, Seeds(seed)))

    split = name_of_split(spec)
    if isinstance(shards, Silos):
        return replace(shards, graphs=tuple(map(divided, shards)), split=split)
    return replace(shards, graph=divided(shards.graph), split=split)


def name_of_split(spec: splits.SplitSpec) -> str:
    """As records and manifests call it."""
    return spec.kind if spec.by == "random" else f"by {spec.by}"


def _refuse_fewer_labels(spec: splits.SplitSpec, whose: str) -> None:
    if spec.by == "random" and spec.train != splits.SplitSpec().train:
        raise InputError(
            f"{whose} brings a split of its own, so split.train = {spec.train} cannot hold; "
            "leave it out"
        )


def check_links(shards: ClientData, method: Method) -> None:
    """Refuses a method for linked silos where no silo knows a link to another.

    Raises:
        InputError: that is so, or the method needs what nobody has of silos that are not joined.
    """
    if shards.whole is None and (method.whole_graph or method.sees_cross_edges):
        raise InputError(
            f"{method.name} needs all data, or the edges between silos, in one place, and silos "
            "are never joined; choose another method"
        )
    if method.linked and shards.links == "lost":
        raise InputError(
            f"{method.name} needs silos that know their links to each other, and none of these "
            "does; add --links known, or data that name counterparties (docs/linked.md)"
        )


def client_graphs(shards: ClientData, method: Method) -> Iterable[Graph]:
    """The graph of each client of a method: its shard, or the whole graph for a single client."""
    return [shards.whole] if method.whole_graph and shards.whole is not None else shards


def initial_server_state(shards: ClientData, method: Method) -> State:
    """What the server knows before the first message: nothing, or the edges between clients."""
    if not method.sees_cross_edges or isinstance(shards, Silos):
        return {}
    return grouped("crossings", {str(i): rows for i, rows in enumerate(shards.crossings())})


def learning_spec_for(spec: RunSpec, data: Graph | ClientData, method: Method) -> LearningSpec:
    """:func:`learning_spec_of` the sizes of some data."""
    return learning_spec_of(spec, data.feature_count, data.classes, method)


def learning_spec_of(spec: RunSpec, features: int, classes: int, method: Method) -> LearningSpec:
    """The part of the spec that the clients of a method need for learning.

    Raises:
        InputError: a round cannot be chosen by the measure asked for with so many classes, or the
            model reads what the method's edges do not have.
    """
    spec.selection.check(classes)
    if spec.model.reads_flows and method.adds_nodes:
        raise InputError(
            f"{method.name} adds neighbours whose edges have no direction or weight, so "
            "model.weighted and model.directions mean nothing there; leave them out"
        )
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


def check_trainable(shards: ClientData) -> None:
    """Refuses a federation in which a class, or everybody, has nothing to train on.

    A single client without training nodes is allowed: it takes part with weight 0.
    """
    graphs = shards if isinstance(shards, Silos) else [shards.graph]
    labels = np.concatenate([graph.labels for graph in graphs])
    training = np.concatenate([graph.split for graph in graphs]) == Part.TRAIN
    if not training.any():
        raise InputError(f"{shards.name} has no training node; give nodes the split 'train'")
    present = np.bincount(labels[labels >= 0], minlength=shards.classes)
    trained = np.bincount(labels[training], minlength=shards.classes)
    empty = np.flatnonzero((present > 0) & (trained == 0))
    if len(empty):
        raise InputError(
            f"class {empty[0]} of {shards.name} has nodes but none to train on; "
            "use --split stratified or change the split column"
        )
    idle = _idle(shards, training)
    if idle:
        log.warning("clients without training nodes take part with weight 0: %s", ", ".join(idle))


def _idle(shards: ClientData, training: npt.NDArray[np.bool_]) -> list[str]:
    """The clients without training nodes."""
    if isinstance(shards, Silos):
        own = zip(shards.names, shards, strict=True)
        return [name for name, graph in own if not graph.mask(Part.TRAIN).any()]
    busy = np.unique(shards.owner[training]).tolist()
    return [str(client) for client in range(shards.clients) if client not in set(busy)]
