"""The story of a run between real silos, told by the server, which has no data of its own."""

import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from feddep.algorithms import find_method
from feddep.deployment.agreement import LARGEST_NORM, Agreement, check_federated
from feddep.deployment.config import silo_name
from feddep.deployment.convener import Convener, Patience, meet
from feddep.errors import InputError
from feddep.experiments.folder import RunFolder
from feddep.experiments.journal import Journal, Watcher
from feddep.experiments.pipeline import follow
from feddep.experiments.records import Record, make_record, write_atomically
from feddep.federation.messages import State, grouped
from feddep.runtime.letter import Post
from feddep.scenario.spec import RunSpec

RUN_NAME = "federation.json"
"""The file with the name by which the silos know a run."""

Introductions = Mapping[int, Mapping[str, Any]]
"""What the silos said about themselves, by address."""


def federate(
    post: Post,
    spec: RunSpec,
    folder: RunFolder,
    *,
    patience: Patience | None = None,
    largest_norm: float = LARGEST_NORM,
    known: State | None = None,
    watch: Watcher | None = None,
) -> Record:
    """Runs the spec over the silos that the post reaches, and stores it; goes on if it was begun.

    The server's memory is on the disk after every round. Silos keep theirs themselves.

    Args:
        post: carries letters to silos.
        spec: what to run; ``partition.clients`` is the number of silos.
        folder: where the run is stored.
        patience: how long to wait for whom.
        largest_norm: of a change of the classifier, and of each row of anything else; a reply
            beyond is left out.
        known: what the server knows at the beginning: the edges between silos, for the methods
            whose third party knows them.
        watch: told after every round.

    Raises:
        InterruptedRunError: too few silos answer; the run can be resumed.
    """
    method = find_method(spec.method)
    check_federated(method)
    if method.sees_cross_edges and not known:
        raise InputError(
            f"{method.name} needs a third party that knows the edges between silos; give them "
            "with --crossings"
        )
    patience = patience or Patience()
    met = meet(post, spec.partition.clients, patience)
    silos = in_order(met)
    if len(silos) > spec.partition.clients:
        names = ", ".join(sorted(str(own["name"]) for own in met.values()))
        raise InputError(
            f"{len(silos)} silos are connected ({names}), the spec is for "
            f"{spec.partition.clients}; set partition.clients, or stop the others"
        )
    agreement = _agreement(_run_name(folder.path, spec), spec, [met[silo] for silo in silos])
    convener = Convener(
        post, agreement, silos, folder.path / "requests", patience, largest_norm=largest_norm
    )
    promised = [_promise(own) for own in convener.agree(range(len(silos))).values()]
    journal = follow(
        method,
        agreement.recipe,
        convener,
        known or {},
        folder=folder,
        watch=watch,
        checkpoint_seconds=0.0,
    )
    record = _record(agreement, journal, [met[silo] for silo in silos], promised, convener)
    own = journal.classifiers
    arrays = grouped("classifier", own[0]) if own else {}
    convener.close(arrays, {"scores": record["scores"]["silo"]})
    folder.finish(record, journal.history, journal.classifiers)
    return record


def in_order(met: Introductions) -> list[int]:
    """The silos' addresses as clients 0, 1, …: by the numbers of their data, else by name.

    Raises:
        InputError: a silo has no name or that of another, or not all have a number or none.
    """
    names = [_name(own) for own in met.values()]
    if len(set(names)) < len(names):
        raise InputError(f"every silo needs a name of its own (got {', '.join(sorted(names))})")
    numbers = [own.get("client") for own in met.values()]
    if all(number is None for number in numbers):
        return sorted(met, key=lambda address: str(met[address]["name"]))
    if sorted(numbers, key=str) != sorted(range(len(met)), key=str):
        raise InputError(
            f"the silos' data are numbered {', '.join(map(str, numbers))}; expected 0 to "
            f"{len(met) - 1}, each once"
        )
    return sorted(met, key=lambda address: int(met[address]["client"]))


def _name(own: Mapping[str, Any]) -> str:
    """How a silo calls itself; it may say anything."""
    if "refused" in own:
        raise InputError(f"a silo cannot take part: {own['refused']}")
    try:
        return silo_name(own["name"])
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"a silo introduces itself wrongly ({error!r})") from None


def _agreement(run: str, spec: RunSpec, silos: list[Mapping[str, Any]]) -> Agreement:
    """What can be agreed on: all silos must have the same feature columns."""
    try:
        features = {str(own["name"]): int(own["features"]) for own in silos}
        classes = max(int(own["classes"]) for own in silos)
        nodes = sum(int(own["nodes"]) for own in silos)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a silo introduces itself wrongly ({error!r})") from None
    if len(set(features.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in features.items())
        raise InputError(f"all silos need the same feature columns: {counts}")
    return Agreement(run, spec, next(iter(features.values())), classes, nodes)


def _promise(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a silo says that it promises; it may say anything."""
    try:
        found = {name: answer["sound"][name] for name in ("epsilon", "delta", "verdict")}
        if found["epsilon"] is not None and not float(found["epsilon"]) >= 0:
            raise ValueError(f"ε is {found['epsilon']}")
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a silo says wrongly what it promises ({error!r})") from None
    return found


def _run_name(folder: Path, spec: RunSpec) -> str:
    """The run's name: one for each run, the same when it goes on."""
    file = folder / RUN_NAME
    if not file.exists():
        method = re.sub("[^A-Za-z0-9]+", "-", spec.method.partition(":")[2] or spec.method)
        name = f"{method.strip('-')[:40]}-{secrets.token_hex(6)}"
        write_atomically(file, json.dumps({"run": name}) + "\n")
    return str(json.loads(file.read_text())["run"])


def _record(
    agreement: Agreement,
    journal: Journal,
    silos: list[Mapping[str, Any]],
    promised: list[dict[str, Any]],
    convener: Convener,
) -> Record:
    record = make_record(
        agreement.spec,
        split="given",
        data={
            "nodes": agreement.nodes,
            "features": agreement.features,
            "classes": agreement.classes,
        },
        history=journal.history,
        best=journal.best,
        traffic=journal.meter.counts(),
        privacy=_privacy(agreement.spec, promised),
        seconds={
            "total": sum(journal.seconds.values()),
            "phases": journal.seconds,
            "measuring": journal.measuring_seconds,
        },
    )
    names = [str(own["name"]) for own in silos]
    left_out = [{**vars(own), "silo": names[own.client]} for own in convener.offences]
    return {
        **record,
        "dataset": "silos",
        "partition": "given",
        "federation": {"silos": names, "left_out": left_out},
    }


def _privacy(spec: RunSpec, sound: list[dict[str, Any]]) -> dict[str, Any]:
    """What the silos say that they promise; the worst of it counts."""
    unbounded = [own for own in sound if own["epsilon"] is None]
    worst = unbounded[0] if unbounded else max(sound, key=lambda own: float(own["epsilon"]))
    return {
        "mechanism": spec.privacy.mechanism,
        "verdict": worst["verdict"],
        "sound": worst,
        "silos": sound,
    }
