"""The ways of learning that are compared: the run, training alone, FedAvg, and trees."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from feddep.algorithms import find_method
from feddep.errors import InputError
from feddep.graph.graph import Graph, Part
from feddep.graph.silos import ClientData
from feddep.runs.data_to_predict import silo_names
from feddep.runs.execute import Runner, execute
from feddep.runs.folder import plain_method
from feddep.runs.opening import open_run
from feddep.runs.pipeline import run as run_in_process
from feddep.runs.result import Result
from feddep.scenario import build
from feddep.scenario.presets import may_set
from feddep.scenario.spec import RunSpec, spec_keys
from feddep.seeding import Seeds
from feddep.value import trees
from feddep.value.measure import Predictions, Value, Way, measured
from feddep.value.regime import regime_of
from feddep.value.scoring import Metric

FOLDER = "value"
ALONE = "local"
By = Literal["random", "case", "time"]
_PLAIN = ("nfdp", "one-shot", "none")  # mechanisms that add no noise to what is learnt from
_LONGEST_ABOUT = 200


@dataclass(frozen=True)
class How:
    """How missing runs are carried out.

    Attributes:
        workers: processes of a run.
        device: that they use.
        runner: what trains.
        tell: called with a line before each run that is missing.
    """

    workers: int | None = None
    device: str = "auto"
    runner: Runner = run_in_process
    tell: Callable[[str], None] = lambda text: None


def value_of(folder: Path, *, runs: int = 1, by: By = "random", how: How | None = None) -> Value:
    """What collaboration bought each silo of a simulated run.

    Missing runs are trained with the run's own settings and kept in its folder ``value``.

    Args:
        folder: of a finished run.
        runs: seeds to train with: the run's own and those that follow it.
        by: everything is trained again with the nodes divided by ``case`` or ``time``.
        how: how missing runs are carried out.

    Raises:
        InputError: the folder holds no such run, or its data are not there any more.
    """
    how = how or How()
    first = open_run(folder)
    if "silo" in first.record or "federation" in first.record:
        raise InputError(
            f"{folder} is of a real federation: each silo asks for itself, with --data and the "
            "folder of its own graph"
        )
    if find_method(first.spec.method).whole_graph:
        raise InputError(
            f"{first.spec.method} joins all data, so it is no collaboration of silos; "
            "name the run of another method"
        )
    if by != "random":
        folder = folder / FOLDER / f"by-{by}"
        first = _divided_by(first, by, folder, how)
    names = list(dict.fromkeys([ALONE, "fedavg", first.spec.method]))
    shards = [_shards(first.spec, seed) for seed in _seeds(first.spec, runs)]
    graphs = [list(each) for each in shards]
    _check_same(first, graphs[0], folder)
    ways = [_trained(name, first, shards, folder, how) for name in names]
    named = silo_names(first.spec, len(shards[0]))
    silos = [f"silo {name}" if name.isdigit() else name for name in named]
    return compared(ways, graphs, first.spec, silos, joined=shards[0].whole)


def _divided_by(first: Result, by: By, folder: Path, how: How) -> Result:
    """The run again, under a split like the future."""
    given = settings_of(first.spec, first.spec.method, first.spec.seed) | {"split.by": by}
    out = folder / plain_method(first.spec.method)
    if not (out / "record.json").exists():
        how.tell(f"training {first.spec.method}, split by {by}")
    return execute(
        given,
        out=out,
        resume=True,
        workers=how.workers,
        device=how.device,
        runner=how.runner,
        tell=how.tell,
    )


def compared(
    ways: Sequence[Way],
    graphs: Sequence[Sequence[Graph]],
    spec: RunSpec,
    silos: list[str],
    *,
    joined: Graph | None = None,
) -> Value:
    """The comparison with trees beside it.

    Args:
        ways: of learning, :data:`ALONE` among them.
        graphs: of every silo, for each seed.
        spec: of the run.
        silos: their names.
        joined: the whole graph, in a simulation.
    """
    seeds = Seeds(spec.seed).child("value")
    labels = np.concatenate([graph.labels[graph.mask(Part.TRAIN)] for graph in graphs[0]])
    metric = Metric.for_classes(labels, graphs[0][0].classes)
    notes = []
    if graphs[0][0].feature_count <= trees.MOST_COLUMNS:
        ways = [*ways, *_trees(graphs, seeds)]
    else:
        notes.append(f"Trees are left out: there are more than {trees.MOST_COLUMNS} columns.")
    tests = [graph.labels[graph.mask(Part.TEST)] for graph in graphs[0]]
    if not any(map(len, tests)):
        raise InputError("no silo has a test node; give nodes the split 'test'")
    rare = metric.positive
    return Value(
        metric=metric.name,
        positive=None if rare is None else _class_name(graphs[0][0], rare),
        reference=ALONE,
        method=spec.method,
        seeds=len(graphs),
        silos=silos,
        test_nodes=[len(test) for test in tests],
        positives=[None if rare is None else int((test == rare).sum()) for test in tests],
        ways=measured(ways, graphs, metric, ALONE, seeds),
        regime={} if rare is None else regime_of(graphs[0], rare, joined, spec.seed),
        notes=notes,
        split=build.name_of_split(spec.split),
    )


def settings_of(spec: RunSpec, method: str, seed: int) -> dict[str, Any]:
    """The run's own settings for another method: what a preset would fill, and what was changed.

    Training alone needs no noise, as nothing leaves; so it has none.
    """
    plain = RunSpec()
    fixed = find_method(method).settings
    given = {
        key: spec.value_of(key)
        for key in spec_keys()
        if key not in fixed and (may_set(key) or spec.value_of(key) != plain.value_of(key))
    }
    if method == ALONE and spec.privacy.mechanism not in _PLAIN:
        given = {key: value for key, value in given.items() if not key.startswith("privacy.")}
        given["privacy.mechanism"] = "none"
    return given | {"method": method, "seed": seed}


def way_of(name: str, results: Sequence[Result], predictions: Sequence[Predictions]) -> Way:
    """One way of learning from its runs."""
    record = results[0].record
    traffic = record.get("traffic", {"up_bytes": 0, "down_bytes": 0})
    seconds = [float(result.record["seconds"]["total"]) for result in results]
    alone = name == ALONE
    return Way(
        name=name,
        about="each silo trains the same network by itself" if alone else _about(name),
        predictions=predictions,
        up_bytes=0 if alone else int(traffic["up_bytes"]),
        down_bytes=0 if alone else int(traffic["down_bytes"]),
        seconds=float(np.mean(seconds)),
        privacy=Way.privacy if alone else in_words(record["privacy"]),
        alone=alone,
    )


def in_words(privacy: Mapping[str, Any]) -> str:
    """What a run promises about a link inside a silo, and of what linked silos are told."""
    sound: Mapping[str, Any] = privacy.get("sound") or {}
    epsilon = sound.get("epsilon")
    if epsilon is None or not np.isfinite(epsilon):
        words = "no bound on what a link may reveal"
    else:
        held = "" if sound.get("verdict", "holds") == "holds" else ", too large to promise anything"
        words = f"ε = {epsilon:.3g} for one link{held}"
    told = (privacy.get("links") or {}).get("epsilon")
    return words if told is None else f"{words}; ε = {told:.3g} for what is told of one node"


def _trained(name: str, first: Result, shards: Sequence[ClientData], folder: Path, how: How) -> Way:
    results = list(_results(name, first, len(shards), folder, how))
    predictions = [
        {silo: result.predict(graph, client=silo) for silo, graph in enumerate(each)}
        for result, each in zip(results, shards, strict=True)
    ]
    return way_of(name, results, predictions)


def _results(name: str, first: Result, runs: int, folder: Path, how: How) -> Iterator[Result]:
    for seed in _seeds(first.spec, runs):
        if name == first.spec.method and seed == first.spec.seed:
            yield first
            continue
        out = folder / FOLDER / f"{plain_method(name)}-s{seed}"
        if not (out / "record.json").exists():
            how.tell(f"training {name}, seed {seed}")
        yield execute(
            settings_of(first.spec, name, seed),
            out=out,
            resume=True,
            workers=how.workers,
            device=how.device,
            runner=how.runner,
            tell=how.tell,
        )


def _trees(graphs: Sequence[Sequence[Graph]], seeds: Seeds) -> list[Way]:
    own = [[trees.columns(graph) for graph in each] for each in graphs]
    around = [[trees.with_neighbours(graph) for graph in each] for each in graphs]
    ways = [
        ("trees", "gradient-boosted trees on the silo's own columns", own, False),
        (
            "trees, neighbours",
            "trees that also get the means over the neighbours in the silo",
            around,
            False,
        ),
    ]
    if len(graphs[0]) > 1:
        ways.append(("trees, pooled", "trees on all silos' columns in one place", own, True))
    return [
        Way(
            name=name,
            about=about,
            predictions=[
                dict(_predicted(tables[run], list(graphs[run]), pooled, seeds, run))
                for run in range(len(graphs))
            ],
            privacy="none: all tables in one place" if pooled else Way.privacy,
            tree=True,
            alone=not pooled,
        )
        for name, about, tables, pooled in ways
    ]


def _predicted(
    tables: Sequence[trees.Floats], graphs: list[Graph], pooled: bool, seeds: Seeds, run: int
) -> Iterator[tuple[int, trees.Floats]]:
    seed = seeds.integer("trees", run)
    for silo, graph in enumerate(graphs):
        among = range(len(graphs)) if pooled else [silo]
        found = trees.probabilities(
            [tables[i] for i in among], [graphs[i] for i in among], silo if pooled else 0, seed
        )
        if found is not None and graph.mask(Part.TEST).any():
            yield silo, found


def _shards(spec: RunSpec, seed: int) -> ClientData:
    return build.build(spec.with_settings({"seed": seed}))


def _seeds(spec: RunSpec, runs: int) -> range:
    return range(spec.seed, spec.seed + runs)


def _check_same(result: Result, graphs: Sequence[Graph], folder: Path) -> None:
    there = result.record.get("data", {}).get("nodes")
    here = sum(graph.nodes for graph in graphs)
    if there not in (None, here):
        raise InputError(
            f"{folder} was run on other data than are there now ({there} nodes then, {here} now); "
            "run it again"
        )


def _about(name: str) -> str:
    return find_method(name).summary[:_LONGEST_ABOUT]


def _class_name(graph: Graph, number: int) -> str:
    names = () if graph.schema is None else graph.schema.classes
    return names[number] if names else str(number)
