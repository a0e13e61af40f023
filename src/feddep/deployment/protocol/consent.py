"""What a silo's owner allows; the silo refuses everything else, whoever asks.

The consent is a TOML file on the silo's machine. The server is not trusted and may ask for
anything, so names are matched exactly and whatever is not listed is refused::

    methods = ["fedavg", "feddep"]
    messages = ["classifier", "prototypes"]
    rounds = 50
    smallest_cluster = 5
    highest_epsilon = "unbounded"
    highest_delta = 1e-7

A budget bounds all runs together; ``docs/privacy.md`` says what it counts::

    budget_epsilon = 4.0
    budget_delta = 1e-7
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, ValidationError

from feddep.algorithms.method import Method
from feddep.deployment.protocol.budget import (
    Account,
    account_of,
    is_shown,
    links_spent,
    release_key,
    told_epsilon,
)
from feddep.deployment.protocol.disclosure_log import counted
from feddep.deployment.protocol.link_consent import Excess, LinkConsent
from feddep.deployment.protocol.log_lines import Agreed, Head, Line, find, head_from, spelt
from feddep.deployment.protocol.standing_consent import StandingConsent
from feddep.errors import ConsentError, DataError, InputError
from feddep.federation.content import Rows
from feddep.federation.messages import Reply, group_of
from feddep.federation.phase import numbers_sent
from feddep.learning.spec import LearningSpec
from feddep.privacy.accountant import NOTHING, Guarantee
from feddep.privacy.budget import exceeds
from feddep.privacy.events import Event
from feddep.privacy.meaning import delta_to_set, largest_delta
from feddep.privacy.perturb import perturbs
from feddep.reading import plain_text, toml_of
from feddep.scenario.spec import RunSpec

_Names = Annotated[frozenset[Annotated[str, Field(min_length=1)]], Field(strict=False)]
_Count = Annotated[int, Field(ge=1)]
_Epsilon = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Delta = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
_DataName = Annotated[str, Field(pattern=r"\A[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}\z")]
_Line = Annotated[int, Field(ge=0)]
_Noted = Annotated[str, Field(pattern=r"\A\d{1,12}:[0-9a-f]{64}\z")]
_Heads = Annotated[frozenset[_Noted], Field(strict=False)]
_A_HEAD = "NUMBER:HASH as `feddep disclosures verify` prints it"


class Consent(LinkConsent, StandingConsent):
    """One silo's consent. An error quotes the field's description as what was expected.

    Attributes:
        methods: methods that may run; one from another package by its address, module:ATTRIBUTE.
        messages: groups of arrays that may leave the silo.
        rounds: the highest number of training rounds.
        smallest_cluster: the fewest nodes over which a prototype may be the mean.
        highest_epsilon: the largest sound ε for one edge that the silo agrees to.
        highest_delta: the largest δ that the silo agrees to. None leaves it to ``highest_epsilon``:
            an ε that is bounded holds at no larger δ than
            :func:`~feddep.privacy.meaning.largest_delta`.
        numbers: plain numbers that may leave; None allows all that the method's phases declare.
        releases: how often one group may leave in a run; None allows one more than ``rounds``.
        budget_epsilon: the largest ε for one edge of all runs together; None sets no budget.
        budget_delta: δ of all runs together; 0 leaves nothing for DP-SGD.
        budget_graph: names the silo's data. A budget is for the data of one name, whatever becomes
            of them; another name begins another budget.
        budget_since: the last line of the disclosure log that is not counted.
        noted_head: a head of the log, which must still be in it.
        lost_heads: heads that are known to be lost, and are not looked for.
    """

    methods: _Names = Field(description='a list of methods, such as ["fedavg", "feddep"]')
    messages: _Names = Field(description='a list of groups, such as ["classifier", "prototypes"]')
    rounds: _Count = Field(description="a whole number from 1")
    smallest_cluster: _Count = Field(description="a whole number from 1")
    highest_epsilon: _Epsilon | Literal["unbounded"] = Field(
        description='a number from 0, or "unbounded"'
    )
    highest_delta: _Delta | None = Field(None, description="a number from 0 and below 1")
    numbers: _Names | None = Field(None, description='a list of numbers, such as ["loss"]')
    releases: _Count | None = Field(None, description="a whole number from 1")
    budget_epsilon: _Epsilon | None = Field(None, description="a number from 0")
    budget_delta: _Delta = Field(0.0, description="a number from 0 and below 1")
    budget_graph: _DataName = Field(
        "", description="a name for the silo's data, of 1 to 64 letters, digits, spaces, . _ and -"
    )
    budget_since: _Line = Field(0, description="a line of the disclosure log, or 0 for all")
    noted_head: _Noted | None = Field(None, description=f"a head of the log, {_A_HEAD}")
    lost_heads: _Heads = Field(frozenset(), description=f"a list of heads, each {_A_HEAD}")

    _file: str = PrivateAttr("the consent file")
    _lines: dict[str, int] = PrivateAttr(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "Consent":
        """Reads a consent file.

        Raises:
            InputError: the file cannot be read or is not a consent. Names every wrong line.
        """
        try:
            text = plain_text(path)
            values = toml_of(text)
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
        consent._check_budget_keys(path)
        return consent

    def _check_budget_keys(self, path: Path) -> None:
        """A budget's other keys would seem to limit something without the one that does."""
        idle = {"budget_delta"} & self.model_fields_set if self.budget_epsilon is None else set()
        if not self.has_budget:
            idle |= {"budget_graph", "budget_since"} & self.model_fields_set
        if idle:
            raise InputError(
                f"{path} is not a valid consent: {_listed(idle)} without budget_epsilon, the "
                "budget's ε; add it"
            )

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
        told: Sequence[Event] = (),
    ) -> None:
        """Refuses a run that goes beyond the consent.

        Args:
            spec: the run's spec.
            method: the method that the spec names.
            learning: the agreed learning settings, on which depends what leaves.
            sound: what the run costs this silo, see :func:`~.planned.planned_price`.
            nodes: number of nodes in the silo's graph. With fewer than the smallest cluster, all
                of them become one prototype, which is still too small.
            told: what other silos are told, see :func:`~.link_consent.told_by`.

        Raises:
            ConsentError: names everything that is not allowed, and the lines that forbid it.
        """
        _refuse("the run", self._beyond(spec, method, learning, sound, nodes))
        self.refuse("the run", self.beyond_links(told))

    def check_budget(self, lines: Sequence[Line], asked: Agreed, heads: Mapping[str, Head]) -> None:
        """Refuses a run that would exceed the budget, or whose budget cannot be counted.

        Args:
            lines: of the silo's log, checked.
            asked: the line about the run, which is to be the next; or one of the log's.
            heads: heads of the log that were noted, by where; without a budget only the one in
                this consent is looked for.

        Raises:
            ConsentError: says what is spent, and the line that forbids more.
        """
        own = {} if self.noted_head is None else {f"noted_head of {self._file}": self.noted_head}
        found = {where: head for where, text in own.items() if (head := head_from(text))}
        if self.counts_runs:
            found |= heads
        _refuse("the run", self._lost(lines, found))
        others = [line for line in lines if line.number != asked.number]
        self.refuse("the run", self.beyond_runs(others, asked))
        links = self.beyond_links_budget(self._told(others, asked), told_epsilon(asked))
        self.refuse("the run", links)
        if self.budget_epsilon is None:
            return
        before = self.account(others, asked.graph)
        if not (is_shown(asked) and before.holds(release_key(asked))):
            after = self.account([*others, asked], asked.graph)
            _refuse("the run", self._beyond_budget(before, after, asked.number))

    def refuse(self, what: str, excesses: Iterable[Excess]) -> None:
        """Refuses something if it exceeds any line of the consent.

        Raises:
            ConsentError: names everything that is not allowed, and the lines that forbid it.
        """
        _refuse(what, (self._violation(*excess) for excess in excesses))

    @property
    def has_budget(self) -> bool:
        """Whether what runs cost together is bounded, which takes a log to count it from."""
        return self.budget_epsilon is not None or self.links_budget is not None

    @property
    def counts_runs(self) -> bool:
        """Whether anything is bounded over all runs, which takes a log that was not cut."""
        return self.has_budget or self.all_runs is not None or self.all_releases is not None

    def _told(self, others: Sequence[Line], asked: Agreed) -> float:
        return links_spent(others, asked, self.budget_graph, self.budget_since)

    def account(self, lines: Sequence[Line], graph: str | None) -> Account:
        """What counts against this budget.

        Args:
            lines: of the silo's log, checked.
            graph: recognises the silo's graph of today; None if it is not known.
        """
        return account_of(lines, self.budget_graph, graph, self.budget_since)

    def delta_for(self, nodes: int) -> float:
        """δ at which the budget is counted: no more than can be a promise for so many nodes."""
        return min(self.budget_delta, largest_delta(nodes))

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
            asked = f"one edge costs a sound ε of {_epsilon(sound, nodes)}"
            if sound == NOTHING and not perturbs(spec.privacy):
                asked += _unnoised(spec, method, learning)
            yield self._violation("highest_epsilon", asked, f"at most {self.highest_epsilon}")
        if self.highest_delta is not None and not sound.delta <= self.highest_delta:
            asked = f"the promise fails with a chance δ of {sound.delta:g}"
            yield self._violation("highest_delta", asked, f"at most {self.highest_delta:g}")
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

    def _lost(self, lines: Sequence[Line], heads: Mapping[str, Head]) -> Iterator[str]:
        for where, head in heads.items():
            if spelt(head) in self.lost_heads:
                continue
            try:
                find("the disclosure log", head, lines)
            except DataError as error:
                yield (
                    f"{error} ({where}); what was spent cannot be counted. Put the log back; if it "
                    f'is lost for good, the owner may say so: lost_heads = ["{spelt(head)}"] in '
                    f"{self._file}"
                )

    def _beyond_budget(self, before: Account, after: Account, number: int) -> Iterator[str]:
        if self.budget_since >= number:
            told = f"the log has {number - 1} lines so far"
            yield self._violation("budget_since", told, "a line that it has")
        delta = self.delta_for(after.nodes)
        spent, asked = before.epsilon(delta), after.epsilon(delta)
        if not exceeds(asked, float(self.budget_epsilon or 0)):
            return
        if math.isfinite(spent) and after.delta(1.0) and delta == 0:
            yield self._violation(
                "budget_delta", "the noise of this run has a price only with a δ", "0"
            )
            return
        runs = len({run for release in before.releases for run in release.runs})
        told = (
            f"one edge would have cost an ε of {_total(asked)} in all runs together, at δ = "
            f"{after.delta(delta):g}; {_total(spent)} is spent by {runs} earlier ones"
        )
        yield self._violation("budget_epsilon", told, f"at most {self.budget_epsilon:g}")

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


def _refuse(what: str, violations: Iterable[str]) -> None:
    found = [f"\n- {violation}" for violation in violations]
    if found:
        raise ConsentError(f"the silo does not consent to {what}:{''.join(found)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _unnoised(spec: RunSpec, method: Method, learning: LearningSpec) -> str:
    """Names what noised updates leave bare, for whoever counted on their noise."""
    names = {name for phase in method.phases for name in numbers_sent(phase, learning)}
    if not (spec.training.update_clip and spec.training.update_noise and names):
        return ""
    return (
        f"; training.update_noise covers the weights alone, and {_listed(names)}, computed from "
        "the true edges, go with them without noise"
    )


def _total(epsilon: float) -> str:
    return f"{epsilon:.4g}" if math.isfinite(epsilon) else "any size (something has no bound)"


def _epsilon(sound: Guarantee, nodes: int | None) -> str:
    if sound.epsilon is not None and sound.verdict == "holds":
        return f"{sound.epsilon:g}"
    if nodes is None or sound.delta >= 1 or sound.delta <= largest_delta(nodes):
        return "any size (it has no bound)"
    return (
        f"any size (δ is {sound.delta:g}, too large for {nodes} nodes; set privacy.delta to "
        f"{delta_to_set(nodes)} or less)"
    )


_OF_PARTS = {**StandingConsent.model_fields, **LinkConsent.model_fields}


def _wrong(key: str, values: Mapping[str, Any], lines: Mapping[str, int]) -> str:
    where = f"line {lines[key]}: " if key in lines else ""
    if key not in Consent.model_fields:
        known = sorted(Consent.model_fields, key=_OF_PARTS.__contains__)
        return f"{where}unknown key {key!r}; known: {', '.join(known)}"
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
