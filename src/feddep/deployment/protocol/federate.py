"""One run between real silos, from the server's side; the server has no data of its own."""

import json
import re
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from feddep.algorithms import find_method
from feddep.deployment.protocol.agreement import (
    LARGEST_NORM,
    Agreement,
    agreed_on,
    check_federated,
)
from feddep.deployment.protocol.names import silo_name
from feddep.deployment.protocol.noted_heads import ServersNotes
from feddep.deployment.protocol.registry import RegisteredOnly, Registry, true_names
from feddep.deployment.protocol.remote_runtime import RemoteRuntime, meet, one_line, refusal
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import InputError
from feddep.federation.messages import State, grouped
from feddep.runs.files import Record, read_own, write_atomically
from feddep.runs.folder import REQUESTS, RunFolder
from feddep.runs.journal import Journal
from feddep.runs.pipeline import run_method
from feddep.runs.records import make_record, versions
from feddep.runs.storing import store
from feddep.runtime.envelope import Channel, Envelope
from feddep.scenario.spec import RunSpec

RUN_NAME = "federation.json"
"""The file with the name under which the silos know a run, and with the silos themselves."""

_STATEMENT = (
    "The guarantee for one edge, as each silo states it for its own; the weakest one counts. It is "
    "for this run alone. Predictions that a silo makes over its true edges are not covered: "
    "whoever publishes them gives the promise up. Each silo's disclosure log holds what left it."
)
_VERDICTS = ("holds", "none")
_MOST_NODES = 2**40  # a silo may say anything

Introductions = Mapping[int, Mapping[str, Any]]
"""How each silo introduced itself, by address."""

Promise = dict[str, Any]
"""ε, δ and the verdict on them."""


@dataclass(frozen=True)
class Member:
    """A silo that takes part, as it introduced itself.

    Attributes:
        name: what it is called.
        address: where it can be reached.
        features: number of its feature columns.
        classes: number of its classes.
        nodes: number of its nodes.
        key: fingerprint of the key behind the address; empty if there is no registry.
    """

    name: str
    address: int
    features: int
    classes: int
    nodes: int
    key: str = ""


def federate(
    channel: Channel,
    spec: RunSpec,
    folder: RunFolder,
    *,
    wait_policy: WaitPolicy | None = None,
    largest_norm: float = LARGEST_NORM,
    known: State | None = None,
    notes: ServersNotes | None = None,
    registry: Registry | None = None,
) -> Record:
    """Runs a spec over the silos that the channel reaches and stores the run; resumes a begun one.

    The server's state is on the disk after every round. Silos keep their own.

    Args:
        channel: carries envelopes to the silos.
        spec: what to run; ``partition.clients`` is the number of silos.
        folder: where the run is stored.
        wait_policy: how long to wait for which silos.
        largest_norm: the largest norm of a change of the classifier, and of each row of any other
            array; a reply beyond it is left out.
        known: the server's initial state: the edges between silos, for the methods with a third
            party that knows them.
        notes: where the heads of the silos' logs are noted; None notes none.
        registry: whose key is behind each address. Then nobody else is met, and a silo takes part
            only under its key's name. None takes every silo at its word.

    Raises:
        InputError: the method, the connected silos or their data do not fit the spec.
        InterruptedRunError: too few silos answer; the run can be resumed.
    """
    method = find_method(spec.method)
    check_federated(method)
    if method.sees_cross_edges and not known:
        raise InputError(
            f"{method.name} needs the edges between silos, which a third party knows; pass them "
            "with --crossings"
        )
    wait_policy = wait_policy or WaitPolicy()
    earlier = _earlier(folder.path)
    if registry is not None:
        registry = _of_this_run(registry, [member for member, _ in earlier])
        channel = RegisteredOnly(channel, registry)
    met: Introductions = meet(channel, spec.partition.clients, wait_policy, all_of_them=not earlier)
    if registry is not None:
        met = _true_names(met, registry, all_of_them=not earlier)
    if len(met) > spec.partition.clients:
        names = ", ".join(sorted(_name(own) for own in met.values()))
        raise InputError(
            f"{len(met)} silos are connected ({names}), but the spec is for "
            f"{spec.partition.clients}; set partition.clients, or stop the others"
        )
    _check_versions(met)
    _check_schemas(met)
    known_members = [member for member, _ in earlier]
    members = _met_again(known_members, met) if earlier else _first_met(met)
    if registry is not None:
        members = _by_key(members, registry)
    met = {own.address: met[own.address] for own in members if own.address in met}
    agreement = _agreement(run_name(folder.path, spec), spec, members)
    for member in members:
        _check_claim(agreement, member)
    remote_runtime = RemoteRuntime(
        channel,
        agreement,
        [member.address for member in members],
        folder.path / REQUESTS,
        wait_policy,
        nodes=[member.nodes for member in members],
        largest_norm=largest_norm,
        heads=[notes.head_of(member.name) for member in members] if notes else None,
    )
    present = [client for client, member in enumerate(members) if member.address in met]
    answers = remote_runtime.agree(present)
    if notes is not None:
        for client, answer in answers.items():
            notes.note(members[client].name, answer.get("head"))
    said = {client: _promise(own) for client, own in answers.items()}
    promised = [said.get(client) or earlier[client][1] for client in range(len(members))]
    _remember(folder.path, agreement.run, members, promised)
    journal = run_method(
        method,
        agreement.learning,
        remote_runtime,
        known or {},
        folder=folder,
        checkpoint_seconds=0.0,
    )
    record = _record(agreement, journal, members, promised, remote_runtime)
    own = journal.classifiers
    arrays = grouped("classifier", own[0]) if own else {}
    remote_runtime.close(arrays, {"scores": record["scores"]["silo"]})
    last = journal.after_the_best
    found = (record, journal.history, journal.classifiers)
    store(folder, lambda place: place.finish(*found, last=last))
    remote_runtime.forget()
    return record


def in_order(met: Introductions) -> list[int]:
    """The silos' addresses in the order of clients 0, 1, …: by their data's numbers, else by name.

    Raises:
        InputError: a silo has no name, two have the same, or only some have a number.
    """
    _addresses(met)
    numbers = [own.get("client") for own in met.values()]
    if all(number is None for number in numbers):
        return sorted(met, key=lambda address: str(met[address]["name"]))
    if sorted(numbers, key=str) != sorted(range(len(met)), key=str):
        raise InputError(
            f"expected the silos' data to be numbered 0 to {len(met) - 1}, each once (got "
            f"{one_line(', '.join(map(str, numbers)))})"
        )
    return sorted(met, key=lambda address: int(met[address]["client"]))


def _addresses(met: Introductions) -> dict[str, int]:
    """Each silo's address, by its name."""
    names = [_name(own) for own in met.values()]
    if len(set(names)) < len(names):
        raise InputError(f"every silo needs a name of its own (got {', '.join(sorted(names))})")
    return dict(zip(names, met, strict=True))


def _name(own: Mapping[str, Any]) -> str:
    """The name in a silo's introduction, which is not trusted."""
    if "refused" in own:
        raise InputError(f"a silo cannot take part: {refusal(Envelope(own))}")
    try:
        return silo_name(own["name"])
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"a silo's introduction is invalid ({one_line(repr(error))})") from None


def _check_versions(met: Introductions) -> None:
    here = versions()["feddep"]
    others = {_name(own): own.get("version") for own in met.values()}
    wrong = [f"{name} has {one_line(there)}" for name, there in others.items() if there != here]
    if wrong:
        raise InputError(
            f"the server has feddep {here}, but {', '.join(sorted(wrong))}; install the same "
            "version everywhere"
        )


def _check_schemas(met: Introductions) -> None:
    """Silos whose columns or classes differ are refused; what differs is theirs to find out."""
    digests = {_name(own): str(own.get("schema") or "unnamed")[:12] for own in met.values()}
    if len(set(digests.values())) > 1:
        told = ", ".join(f"{name}: {one_line(digest)}" for name, digest in sorted(digests.items()))
        raise InputError(
            f"the silos' columns or classes are not the same (hashes of their schemas: {told}); "
            "compare them with feddep schema join, and import every silo's tables by the result"
        )


def _member(address: int, own: Mapping[str, Any]) -> Member:
    try:
        sizes = {name: int(own[name]) for name in ("features", "classes", "nodes")}
        if not all(0 <= size <= _MOST_NODES for size in sizes.values()):
            raise ValueError(f"sizes out of range: {sizes}")
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a silo's introduction is invalid ({one_line(repr(error))})") from None
    return Member(_name(own), address, sizes["features"], sizes["classes"], sizes["nodes"])


def _first_met(met: Introductions) -> list[Member]:
    """The silos of a new run, in the clients' order."""
    return [_member(address, met[address]) for address in in_order(met)]


def _met_again(members: Sequence[Member], met: Introductions) -> list[Member]:
    """The silos of a resumed run. Each keeps its number, whether it is connected or not.

    Envelopes for an absent one go to its earlier address: Flower recognises a silo by its key.
    """
    here = _addresses(met)
    strangers = here.keys() - {member.name for member in members}
    if strangers:
        raise InputError(
            f"{', '.join(sorted(strangers))} did not take part when this run began; resume it with "
            f"{', '.join(member.name for member in members)} only"
        )
    return [_again(own, here[own.name], met) if own.name in here else own for own in members]


def _again(member: Member, address: int, met: Introductions) -> Member:
    """A silo that is back. What it said of itself when the run began is what counts.

    Raises:
        InputError: it introduces itself as another than it was.
    """
    now = _member(address, met[address])
    if replace(now, key=member.key) != replace(member, address=address):
        raise InputError(
            f"{member.name} is not what it was when this run began: it has {_sizes(now)}, and had "
            f"{_sizes(member)}; put its earlier data back, or start a run of another name"
        )
    return replace(now, key=member.key)


def _sizes(member: Member) -> str:
    return f"{member.nodes} nodes, {member.features} features and {member.classes} classes"


def _of_this_run(registry: Registry, members: Sequence[Member]) -> Registry:
    """The silos that may be met: on resuming those of the run, each with the key that it had.

    Raises:
        InputError: a silo's key is another than when the run began.
    """
    if not members:
        return registry
    keys = {own.name: own.key for own in registry.values()}
    for member in members:
        if member.key and keys.get(member.name, member.key) != member.key:
            raise InputError(
                f"{member.name}.pub is not the key that {member.name} had when this run began, and "
                "what was sent to that one is not sent to another; put the key back, or start a "
                "new run"
            )
    ours = {member.name for member in members}
    return {address: own for address, own in registry.items() if own.name in ours}


def _true_names(met: Introductions, registry: Registry, *, all_of_them: bool) -> Introductions:
    """Without silos that give another name than their key's.

    Raises:
        InputError: one does, and all are needed.
    """
    honest = true_names(met, registry)
    liars = sorted(registry[address].name for address in met.keys() - honest.keys())
    if liars and all_of_them:
        raise InputError(
            f"{', '.join(liars)}: the name in silo.toml is not that of the key at the server "
            "(server/silos/NAME.pub); correct one of the two"
        )
    return honest


def _by_key(members: Sequence[Member], registry: Registry) -> list[Member]:
    """The members where their keys are: also those that are absent."""
    places = {own.name: (address, own.key) for address, own in registry.items()}
    found = []
    for member in members:
        address, key = places.get(member.name, (member.address, member.key))
        found.append(replace(member, address=address, key=key))
    return found


def _agreement(run: str, spec: RunSpec, members: Sequence[Member]) -> Agreement:
    """The agreement that fits all silos; they must have the same feature columns."""
    if len({member.features for member in members}) > 1:
        counts = ", ".join(f"{member.name} has {member.features}" for member in members)
        raise InputError(f"all silos need the same feature columns: {counts}")
    classes = max(member.classes for member in members)
    nodes = sum(member.nodes for member in members)
    features = members[0].features
    return agreed_on(run, spec, features, classes, nodes, [member.name for member in members])


def _check_claim(agreement: Agreement, member: Member) -> None:
    """Refuses a silo that claims so many nodes that it could send anything.

    Raises:
        InputError: it names the silo.
    """
    try:
        agreement.check_nodes(member.nodes)
    except InputError as error:
        raise InputError(f"{member.name} says that it has {member.nodes} nodes: {error}") from None


def _promise(answer: Mapping[str, Any]) -> Promise:
    """The guarantee that a silo states, which is not trusted."""
    try:
        found = {name: answer["sound"][name] for name in ("epsilon", "delta", "verdict")}
        epsilon, delta, verdict = found.values()
        if epsilon is not None and not _is_within(epsilon, sys.float_info.max):
            raise ValueError(f"ε is {epsilon}")
        if not _is_within(delta, 1):
            raise ValueError(f"δ is {delta}")
        if verdict not in _VERDICTS:
            raise ValueError(f"the verdict is {verdict}")
        if "links" in answer:  # of nodes with links to other silos; a price of its own
            found["links"] = answer["links"]
            if found["links"] is not None and not _is_within(found["links"], sys.float_info.max):
                raise ValueError(f"ε of answers over links is {found['links']}")
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"a silo states an invalid privacy guarantee ({one_line(repr(error))})"
        ) from None
    return found


def _is_within(value: object, largest: float) -> bool:
    """Whether the value is a number from 0 to the largest."""
    return isinstance(value, int | float) and type(value) is not bool and 0 <= value <= largest


def run_name(folder: Path, spec: RunSpec) -> str:
    """The run's name: unique, and the same when the run is resumed."""
    file = folder / RUN_NAME
    if not file.exists():
        method = re.sub("[^A-Za-z0-9]+", "-", spec.method.partition(":")[2] or spec.method)
        name = f"{method.strip('-')[:40]}-{secrets.token_hex(6)}"
        write_atomically(file, json.dumps({"run": name}) + "\n")
    return str(read_own(file, "run")["run"])


def _remember(
    folder: Path, run: str, members: Sequence[Member], promised: Sequence[Promise]
) -> None:
    """Stores who takes part, in the clients' order, and each silo's guarantee."""
    silos = [{**asdict(own), "sound": sound} for own, sound in zip(members, promised, strict=True)]
    write_atomically(folder / RUN_NAME, json.dumps({"run": run, "silos": silos}, indent=1) + "\n")


def _earlier(folder: Path) -> list[tuple[Member, Promise]]:
    """What :func:`_remember` stored when the run began; empty for a new run."""
    file = folder / RUN_NAME
    silos = read_own(file).get("silos", []) if file.exists() else []
    promised = [own.pop("sound") for own in silos]
    return [(Member(**own), sound) for own, sound in zip(silos, promised, strict=True)]


def _record(
    agreement: Agreement,
    journal: Journal,
    members: Sequence[Member],
    promised: list[Promise],
    remote_runtime: RemoteRuntime,
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
        selection=journal.selection,
        traffic=journal.meter.counts(),
        privacy=_privacy(agreement.spec, promised),
        seconds={
            "total": sum(journal.seconds.values()),
            "phases": journal.seconds,
            "measuring": journal.measuring_seconds,
        },
    )
    names = [member.name for member in members]
    left_out = [{**vars(own), "silo": names[own.client]} for own in remote_runtime.offences]
    return {
        **record,
        "dataset": "silos",
        "partition": "given",
        "federation": {"silos": names, "left_out": left_out},
    }


def _privacy(spec: RunSpec, sound: list[Promise]) -> dict[str, Any]:
    """The silos' guarantees; the weakest one counts for the run."""
    unbounded = [own for own in sound if own["epsilon"] is None]
    worst = unbounded[0] if unbounded else max(sound, key=lambda own: float(own["epsilon"]))
    return {
        "mechanism": spec.privacy.mechanism,
        "verdict": worst["verdict"],
        "statement": _STATEMENT,
        "sound": worst,
        "silos": sound,
    }
