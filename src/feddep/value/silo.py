"""What a federation bought one silo, worked out by the silo for itself alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from feddep.algorithms import find_method
from feddep.errors import InputError
from feddep.graph.files import AnyPath
from feddep.graph.folder import read_graph
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards
from feddep.runs.execute import execute
from feddep.runs.opening import open_run
from feddep.runs.result import Result
from feddep.value.measure import Value, Way
from feddep.value.ways import ALONE, FOLDER, How, compared, in_words, settings_of

_OF_SHARDS = ("dataset", "seed", "partition.", "split.", "synthetic.")


def silo_value(folder: Path, data: AnyPath, how: How | None = None) -> Value:
    """What the run of a federation bought one silo. Nothing is sent, and nobody is asked.

    Args:
        folder: of the silo's results of the run.
        data: its graph folder.
        how: how training alone is carried out.

    Raises:
        InputError: the folder holds no results of a silo, or they do not fit the graph.
    """
    how = how or How()
    result = open_run(folder)
    if "silo" not in result.record:
        raise InputError(f"{folder} holds a whole run, which brings its data; leave out --data")
    graph, client = read_graph(data), int(result.record["silo"]["client"])
    alone = _alone(result, graph, folder, how)
    name = result.spec.method
    ways = [
        Way(
            name=ALONE,
            about="the silo trains the same network by itself",
            predictions=[{0: alone.predict(graph, client=0)}],
            seconds=float(alone.record["seconds"]["total"]),
        )
    ]
    if name != ALONE:
        ways.append(
            Way(
                name=name,
                about=find_method(name).summary,
                predictions=[{0: result.predict(graph, client=client)}],
                privacy=in_words(result.record["privacy"]),
                alone=False,
            )
        )
    found = compared(ways, [[graph]], result.spec, [graph.name])
    note = "Bytes and seconds of the run are with the server; the silo's log lists what it sent."
    return replace(found, notes=[*found.notes, note])


def _alone(result: Result, graph: Graph, folder: Path, how: How) -> Result:
    given = settings_of(result.spec, ALONE, result.spec.seed)
    given = {key: value for key, value in given.items() if not key.startswith(_OF_SHARDS)}
    out = folder / FOLDER / f"{ALONE}-s{result.spec.seed}"
    if not (out / "record.json").exists():
        how.tell("training alone")
    one = Shards(graph, np.zeros(graph.nodes, np.int32), "given", result.spec.seed, "given")
    return execute(
        given,
        one,
        out=out,
        resume=True,
        workers=how.workers,
        device=how.device,
        runner=how.runner,
        tell=how.tell,
    )
