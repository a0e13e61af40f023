"""What a silo's owner allows; the silo refuses everything else, whoever asks.

The consent is a TOML file on the silo's machine. The server is not trusted and may ask for
anything, so names are matched exactly and whatever is not listed is refused::

    methods = ["fedavg", "feddep"]
    messages = ["classifier", "prototypes"]
    rounds = 50
    smallest_cluster = 5
    highest_epsilon = "unbounded"
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from feddep.algorithms.method import Method
from feddep.deployment.protocol.disclosure_log import counted
from feddep.errors import ConsentError, InputError
from feddep.federation.content import Rows
from feddep.federation.messages import Reply, group_of
from feddep.federation.phase import numbers_sent
from feddep.graph.graph import Graph
from feddep.learning.spec import LearningSpec
from feddep.privacy.accountant import Guarantee, price
from feddep.privacy.events import Event, OneShotSampling
from feddep.runs.accounting import mechanism_events, planned_messages
from feddep.scenario.spec import RunSpec

_Names = Annotated[frozenset[Annotated[str, Field(min_length=1)]], Field(strict=False)]
_Count = Annotated[int, Field(ge=1)]
_Epsilon = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Consent(BaseModel):
    """One silo's consent. An error quotes the field's description as what was expected.

    Attributes:
        methods: methods that may run; one from another package by its address, module:ATTRIBUTE.
        messages: groups of arrays that may leave the silo.
        rounds: the highest number of training rounds.
        smallest_cluster: the fewest nodes over which a prototype may be the mean.
        highest_epsilon: the largest sound ε for one edge that the silo agrees to.
        numbers: plain numbers that may leave; None allows all that the method's phases declare.
        releases: how often one group may leave in a run; None allows one more than ``rounds``.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    methods: _Names = Field(description='a list of methods, such as ["fedavg", "feddep"]')
    messages: _Names = Field(description='a list of groups, such as ["classifier", "prototypes"]')
    rounds: _Count = Field(description="a whole number from 1")
    smallest_cluster: _Count = Field(description="a whole number from 1")
    highest_epsilon: _Epsilon | Literal["unbounded"] = Field(
        description='a number from 0, or "unbounded"'
    )
    numbers: _Names | None = Field(None, description='a list of numbers, such as ["loss"]')
    releases: _Count | None = Field(None, description="a whole number from 1")

    _file: str = PrivateAttr("the consent file")
    _lines: dict[str, int] = PrivateAttr(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Consent":
        """Reads a consent file.

        Raises:
            InputError: the file cannot be read or is not a consent. Names every wrong line.
        """
        try:
            text = path.read_text(encoding="utf-8")
            values = tomllib.loads(text)
        except OSError as error:
            raise InputError(f"cannot read the consent file {path}: {error.strerror}") from None
        except ValueError as error:  # not UTF-8, or not TOML
            raise InputError(f"{path} is not TOML: {error}") from None
        lines = _lines_of_keys(text)
        try:
            consent = cls.model_validate(values)
        except ValidationError as error:
            keys = dict.fromkeys(str(found["loc"][0]) for found in error.errors())
            wrong = "; ".join(_wrong(key, values, lines) for key in keys)
            raise InputError(f"{path} is not a valid consent: {wrong}") from None
        consent._file = path.name
        consent._lines = lines
        return consent

    @property
    def most_releases(self) -> int:
        """How often one group may leave in a run."""
        return self.rounds + 1 if self.releases is None else self.releases

    def check_method(self, name: str) -> None:
        """Refuses a method that is not listed.

        Call this before looking the method up: resolving ``module:ATTRIBUTE`` imports the module,
        and so already runs its code on the silo.

        Raises:
            ConsentError: the method is not listed.
        """
        _refuse("the run", self._unlisted({name}))

    def check_run(
        self,
        spec: RunSpec,
        method: Method,
        learning: LearningSpec,
        sound: Guarantee,
        *,
        nodes: int | None = None,
    ) -> None:
        """Refuses a run that goes beyond the consent.

        Args:
            spec: the run's spec.
            method: the method that the spec names.
            learning: the agreed learning settings, on which depends what leaves.
            sound: what the run costs this silo, see :func:`planned_price`.
            nodes: number of nodes in the silo's graph. With fewer than the smallest cluster, all
                of them become one prototype, which is still too small.

        Raises:
            ConsentError: names everything that is not allowed, and the lines that forbid it.
        """
        _refuse("the run", self._beyond(spec, method, learning, sound, nodes))

    def check_reply(self, phase_name: str, reply: Reply, already: Mapping[str, int]) -> None:
        """Refuses a reply with something that may not leave, or has left too often.

        Args:
            phase_name: the phase that the reply belongs to.
            reply: what is about to leave.
            already: how often each name has left in this run, as
                :func:`~feddep.deployment.protocol.disclosure_log.sent` counts it.

        Raises:
            ConsentError: names everything that may not leave.
        """
        _refuse(f"a reply in {phase_name}", self._excess(phase_name, reply, already))

    def _beyond(
        self,
        spec: RunSpec,
        method: Method,
        learning: LearningSpec,
        sound: Guarantee,
        nodes: int | None,
    ) -> Iterator[str]:
        yield from self._unlisted({spec.method, method.name})
        forbidden = method.discloses_in(learning) - self.messages
        if forbidden:
            asked = f"{_listed(forbidden)} would leave the silo"
            yield self._violation("messages", asked, _listed(self.messages))
        if spec.training.rounds > self.rounds:
            asked = f"training takes {spec.training.rounds} rounds"
            yield self._violation("rounds", asked, f"at most {self.rounds}")
        for smallest in _cluster_sizes(method, learning):
            yield from self._small_clusters(smallest, nodes)
        if self._costs_too_much(sound):
            asked = f"one edge costs a sound ε of {_epsilon(sound)}"
            yield self._violation("highest_epsilon", asked, f"at most {self.highest_epsilon}")
        yield from self._private_numbers(
            name for phase in method.phases for name in numbers_sent(phase, learning)
        )

    def _excess(self, phase: str, reply: Reply, already: Mapping[str, int]) -> Iterator[str]:
        groups = {group_of(name) for name in reply.arrays}
        if groups - self.messages:
            asked = f"{_listed(groups - self.messages)} would leave the silo"
            yield self._violation("messages", asked, _listed(self.messages))
        yield from self._private_numbers(reply.metrics)
        for name in sorted(counted(phase, reply.arrays, reply.metrics)):
            times = already.get(name, 0)
            if times >= self.most_releases:
                asked = f"{name} has left {times} times in this run and would leave once more"
                yield self._violation("releases", asked, f"at most {self.most_releases} times")

    def _unlisted(self, names: set[str]) -> Iterator[str]:
        for name in sorted(names - self.methods):
            yield self._violation("methods", f"the method is {name}", _listed(self.methods))

    def _small_clusters(self, smallest: int, nodes: int | None) -> Iterator[str]:
        allowed = f"at least {self.smallest_cluster}"
        if smallest < self.smallest_cluster:
            asked = f"a prototype may stand for {smallest} nodes (embedding.smallest)"
            yield self._violation("smallest_cluster", asked, allowed)
        if nodes is not None and nodes < self.smallest_cluster:
            asked = f"the silo's only prototype would stand for its {nodes} nodes"
            yield self._violation("smallest_cluster", asked, allowed)

    def _private_numbers(self, names: Iterable[str]) -> Iterator[str]:
        private = set() if self.numbers is None else set(names) - self.numbers
        if private:
            asked = f"the numbers {_listed(private)} would leave the silo"
            yield self._violation("numbers", asked, _listed(self.numbers or ()))

    def _costs_too_much(self, sound: Guarantee) -> bool:
        if self.highest_epsilon == "unbounded":
            return False
        if sound.epsilon is None or sound.verdict != "holds":
            return True
        return not sound.epsilon <= float(self.highest_epsilon)  # so that NaN is too much

    def _violation(self, key: str, asked: str, allowed: str) -> str:
        if key in self._lines:
            where = f"line {self._lines[key]} of {self._file}"
        elif self._lines:
            where = f"add the line '{key} = …' to {self._file}"
        else:
            where = f"the key {key} of {self._file}"
        return f"{key}: {asked}, allowed: {allowed} ({where})"


def planned_price(spec: RunSpec, method: Method, learning: LearningSpec, graph: Graph) -> Guarantee:
    """The sound (ε, δ) that a run would guarantee for one edge of a silo, before it starts.

    Everything that the method may send counts as sent. The guarantee holds only if the silo draws
    its noise from a secret of its own: the server can reproduce noise drawn from the run's seed.

    The server learns the result and may ask about many runs, so it must not depend on the edges.
    δ is therefore compared with one over the number of node *pairs* rather than of edges, and the
    worst case is assumed for one-shot samples, which show short lists whole.

    Args:
        spec: the run's spec.
        method: the method that the spec names.
        learning: the agreed learning settings.
        graph: the silo's own graph, before any mechanism.
    """
    nodes_alone = graph.with_edges([])
    planned = [_at_worst(event) for event in mechanism_events(method, learning, nodes_alone)]
    planned += planned_messages(method, learning)
    pairs = graph.nodes * (graph.nodes - 1) // 2
    return price(planned, pairs, spec.privacy.delta_prime).sound


def _cluster_sizes(method: Method, learning: LearningSpec) -> set[int]:
    """Over how many nodes, at least, the means are taken that leave a silo."""
    return {
        content.means_of
        for phase in method.phases
        for step in phase.steps(learning).values()
        for group in step.reply.values()
        for content in group.contained()
        if isinstance(content, Rows) and content.means_of
    }


def _at_worst(event: Event) -> Event:
    if isinstance(event, OneShotSampling):
        return replace(event, list_delta=1.0, edge_delta=1.0)
    return event


def _refuse(what: str, violations: Iterable[str]) -> None:
    found = [f"\n- {violation}" for violation in violations]
    if found:
        raise ConsentError(f"the silo does not consent to {what}:{''.join(found)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _epsilon(sound: Guarantee) -> str:
    bounded = sound.epsilon is not None and sound.verdict == "holds"
    return f"{sound.epsilon:g}" if bounded else "any size (it has no bound)"


def _wrong(key: str, values: Mapping[str, Any], lines: Mapping[str, int]) -> str:
    where = f"line {lines[key]}: " if key in lines else ""
    if key not in Consent.model_fields:
        return f"{where}unknown key {key!r}; known: {', '.join(Consent.model_fields)}"
    expected = Consent.model_fields[key].description
    if key not in values:
        return f"{key} is missing; expected {expected}"
    return f"{where}{key}: expected {expected} (got {values[key]!r})"


def _lines_of_keys(text: str) -> dict[str, int]:
    """The line number of each key, which TOML readers do not report."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        key = re.match(r"""\s*["']?(\w+)["']?\s*=""", line)
        if key:
            found.setdefault(key[1], number)
    return found
