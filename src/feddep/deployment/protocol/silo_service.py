"""The silo's side of a federation over a network: it answers envelopes from its own data.

An envelope may arrive twice, or after the silo was killed and restarted. So the silo stores each
answer under its place in the run, and the same envelope gets the same answer. A silo that is at
another place than the server says so; the server then sends it what it missed, to be replayed.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from feddep.deployment.protocol.agreement import Agreement, digest_of
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.disclosure_log import (
    DisclosureLog,
    agreements,
    counted,
    left_apart,
    shows,
    spent,
)
from feddep.deployment.protocol.disclosure_log import sent as left_in
from feddep.deployment.protocol.envelope_fields import (
    envelope_hash,
    number_in,
    request_in,
    text_in,
)
from feddep.deployment.protocol.link_consent import told_by
from feddep.deployment.protocol.log_lines import Agreed, Line, spelt
from feddep.deployment.protocol.memory import Answer, Pieces, RunMemory
from feddep.deployment.protocol.noted_heads import noted_heads
from feddep.deployment.protocol.planned import planned_events
from feddep.deployment.protocol.silo_keys import link_keys_in
from feddep.deployment.protocol.silo_results import (
    measures_at_silo,
    own_classifier,
    part_of,
    write_results,
)
from feddep.deployment.protocol.standing import Repeats, Standing
from feddep.errors import FeddepError, InputError
from feddep.federation.client import Client
from feddep.federation.inspection import inspect_request, inspect_result
from feddep.federation.messages import Reply, Request, State, group, grouped
from feddep.graph.fingerprint import seal, sealed_fingerprint
from feddep.graph.graph import Graph
from feddep.learning.mending import mending_of
from feddep.learning.silo import Secret, open_silo
from feddep.privacy.accountant import NOTHING, Guarantee, bounding, price
from feddep.privacy.budget import shown_rates
from feddep.privacy.events import Events, from_plain, to_plain
from feddep.privacy.links import is_linked, link_epsilon
from feddep.privacy.meaning import GraphSize, meaning
from feddep.privacy.pair_keys import Keyring
from feddep.runs.accounting import finite, plain
from feddep.runs.records import versions
from feddep.runtime.envelope import Envelope
from feddep.scenario.spec import RunSpec

log = logging.getLogger("feddep")


@dataclass(frozen=True, eq=False)
class SiloService:
    """Answers for one silo.

    Attributes:
        name: the silo's name.
        graph: loads the silo's graph.
        client: the silo's client number, if its data have one; otherwise the server numbers the
            silos by name.
        consent: what the owner allows; None, in simulations, allows everything.
        disclosures: the log in which everything is written before it leaves.
        secret: the root of the silo's random draws. None takes the run's seed, which the server
            knows too: random noise then protects nothing against the server.
        results: the folder for what the silo gets out of its runs.
        link_keys: its keys for messages to other silos. None, in simulations, takes the run's
            seed; without them a real silo takes part in no run that needs them.
    """

    name: str
    graph: Callable[[], Graph]
    client: int | None = None
    consent: Consent | None = None
    disclosures: DisclosureLog | None = None
    secret: int | None = None
    results: Path | None = None
    link_keys: Keyring | None = None
    repeats: Repeats = field(default_factory=Repeats, repr=False)

    def answer(self, envelope: Envelope, pieces: Callable[[str], Pieces]) -> Envelope:
        """Answers any envelope; a request that cannot be met is refused with the reason.

        Args:
            envelope: what the server sent.
            pieces: gives the storage for the run of a name.
        """
        kinds = {"agree": self._agree, "request": self._request, "close": self._close}
        try:
            kind = envelope.header.get("kind")
            if kind == "hello":
                return self._hello()
            if not isinstance(kind, str) or kind not in kinds:
                raise InputError(f"expected an envelope of kind {', '.join(kinds)} (got {kind!r})")
            return kinds[kind](envelope, RunMemory(pieces(text_in(envelope.header, "run"))))
        except FeddepError as error:
            log.warning("%s refuses: %s", self.name, error)
            return Envelope({"refused": str(error)})
        except Exception as error:  # nothing that a server sends may end a silo's process
            log.exception("%s cannot answer", self.name)
            return Envelope({"refused": f"cannot answer: {type(error).__name__}"})

    def _hello(self) -> Envelope:
        graph = self.graph()
        return Envelope(
            {
                "name": self.name,
                "client": self.client,
                "nodes": graph.nodes,
                "features": graph.feature_count,
                "classes": graph.classes,
                "version": versions()["feddep"],
                **({} if graph.schema is None else {"schema": graph.schema.digest()}),
            }
        )

    def _agree(self, envelope: Envelope, memory: RunMemory) -> Envelope:
        try:
            known = self._agreed(envelope, memory)
        except FeddepError as error:
            if self.disclosures is not None and self.repeats.may_log_refusal():
                self.disclosures.refuse(run=text_in(envelope.header, "run"), reason=str(error))
            raise
        memory.agree(known)
        head = None if self.disclosures is None else spelt(self.disclosures.head())
        links = {"links": known["links"]} if "links" in known else {}
        return Envelope({"sound": known["sound"], "head": head, **links})

    def _agreed(self, envelope: Envelope, memory: RunMemory) -> dict[str, Any]:
        """What the silo remembers of a run that it agrees to. The agreement is logged."""
        agreement, graph = self._looked_up(envelope.header), self.graph()
        if graph.feature_count != agreement.features or graph.classes > agreement.classes:
            raise InputError(
                f"{self.name} has {graph.feature_count} feature columns and {graph.classes} "
                f"classes, but the run has {agreement.features} and {agreement.classes}"
            )
        agreement.check_nodes(graph.nodes)
        planned = planned_events(agreement.method, agreement.learning, graph)
        sound = price(planned, graph.nodes, agreement.spec.privacy.delta_prime).sound
        if self.secret is None and (self.consent is not None or self.disclosures is not None):
            sound = NOTHING  # the server can reproduce the silo's random draws
        told = told_by(planned, secret=self.secret is not None or self.consent is None)
        self._check_consent(agreement, sound, told)
        client = number_in(envelope.header, "client")
        known = {**agreement.to_plain(), "client": client, "sound": plain(sound)}
        if is_linked(told):
            known |= {"told": to_plain(told), "links": finite(link_epsilon(told))}
            link_keys_in(self, agreement, client)  # or it says what is missing
        known["graph"] = self._graph_seal()
        self._check_same(known, memory)
        if self.disclosures is not None:  # what has left counts, even if the memory was lost
            known["sent"] = left_in(self.disclosures.path, agreement.run)
            self._log_agreed(self.disclosures, agreement, known, planned, envelope.header)
        elif self.consent is not None and self.consent.counts_runs:
            raise InputError("a budget is counted from the disclosure log, and this silo has none")
        return known

    def _log_agreed(
        self,
        disclosures: DisclosureLog,
        agreement: Agreement,
        known: Mapping[str, Any],
        planned: Events,
        header: Mapping[str, Any],
    ) -> None:
        """Logs an agreement, unless the budget is spent or the log is not what it was."""
        consent, heads = self.consent, noted_heads(disclosures, header.get("head"))

        def check(lines: Sequence[Line], asked: Line) -> None:
            if consent is not None and isinstance(asked, Agreed):
                consent.check_budget(lines, asked, heads)

        disclosures.agree(
            run=agreement.run,
            agreement=digest_of(known),
            epsilon=known["sound"]["epsilon"],
            delta=known["sound"]["delta"],
            graph=known["graph"],
            priced=self._priced(agreement, known["client"], planned),
            check=check,
        )

    def _priced(self, agreement: Agreement, client: int, planned: Events) -> dict[str, Any]:
        """What the log keeps to price the run again; see :class:`~.log_lines.Priced`."""
        found, privacy = bounding(planned), agreement.spec.privacy
        rates = None if self.secret is None else shown_rates(privacy)
        told = told_by(planned, secret=self.secret is not None)
        return {
            "data": "" if self.consent is None else self.consent.budget_graph,
            "nodes": self.graph().nodes,
            "version": versions()["feddep"],
            "key": None if self.secret is None else seal("key", self.secret),
            "events": None if self.secret is None or found is None else to_plain(found),
            "rates": rates,
            "shown": None if rates is None else self._shown(agreement, client),
            **({"told": to_plain(told)} if told else {}),
        }

    def _shown(self, agreement: Agreement, client: int) -> str | None:
        """Recognises the graph that all answers will come from.

        The graph itself is looked at, and not only what its noise is drawn from: a version that
        draws differently shows another one, which costs its own ε.
        """
        if self.secret is None:
            return None
        return sealed_fingerprint(_opened(self, agreement, client).silo.graph, self.secret)

    def _looked_up(self, values: Mapping[str, Any]) -> Agreement:
        """Reads an agreement, after checking its method: looking a method up may import code."""
        if self.consent is not None:
            asked = RunSpec.from_toml(str(values.get("spec")))
            self.consent.check_method(asked.method)
        return Agreement.from_plain(values)

    def _check_consent(self, agreement: Agreement, sound: Guarantee, told: Events) -> None:
        if self.consent is not None:
            asked = (agreement.spec, agreement.method, agreement.learning, sound)
            self.consent.check_run(*asked, nodes=self.graph().nodes, told=told)

    def _check_same(self, known: Mapping[str, Any], memory: RunMemory) -> None:
        """Refuses a second agreement under a run's name: its ε was promised for the first."""
        before = (
            set() if self.disclosures is None else agreements(self.disclosures.path, known["run"])
        )
        if memory.agreement is not None:
            before.add((digest_of(memory.agreement), memory.agreement.get("graph")))
        if {agreement for agreement, _ in before} - {digest_of(known)}:
            raise InputError(
                f"{self.name} has already agreed to a different run named {known['run']}; give "
                "this run another name"
            )
        for _, graph in before:
            self._check_graph(known["run"], graph)

    def _check_graph(self, run: str, agreed: str | None) -> None:
        """Refuses to go on with a graph other than the one that ε was promised for.

        Two graphs in one run are two releases. An agreement of an earlier version, or of a silo
        without a secret, which promises nothing, does not say which graph it was for.
        """
        if agreed is not None and agreed != self._graph_seal():
            raise InputError(
                f"{self.name} has other data, or another secret, than when it agreed to {run}, "
                "and its ε was promised for those; put the earlier edges, features and secret "
                "back, or start a run of another name, whose ε then comes on top"
            )

    def _meaning(self, sound: Mapping[str, Any]) -> str | None:
        """What ε means on the silo's graph, for its owner alone: it tells the number of edges."""
        if sound["epsilon"] is None:
            return None
        graph = self.graph()
        return meaning(sound["epsilon"], [GraphSize(graph.nodes, graph.edges)])

    def _graph_seal(self) -> str | None:
        return None if self.secret is None else sealed_fingerprint(self.graph(), self.secret)

    def _request(self, envelope: Envelope, memory: RunMemory) -> Envelope:
        header, known = envelope.header, memory.agreement
        if known is None:
            return Envelope({"sync": None})
        self._check_graph(known["run"], known.get("graph"))
        agreement = self._looked_up(known)  # the consent may be stricter than it was
        told = from_plain(known.get("told", ()))
        self._check_consent(agreement, Guarantee(**known["sound"]), told)
        _check_budget_again(self, agreement)
        request, place = request_in(envelope, known), text_in(header, "place")
        asked, silent = envelope_hash(envelope), bool(header.get("silent"))
        last, state, sent = memory.recall()
        if last is not None and last == header.get("best"):  # the round before was the best so far
            memory.keep(last, _to_keep(state))
        earlier = memory.answer_at(place)
        if earlier is None or earlier.asked != asked:
            if earlier is not None:  # a different request at the same place: answered anew
                state = earlier.before
            elif last != header.get("previous"):
                return Envelope({"sync": last})
            reply, after = self._handle(agreement, request, state, memory)
            if not silent:
                sent = self._released(agreement, request, reply, sent)
            earlier = Answer(place, asked, reply, state)
            memory.move_on(earlier, after, sent)
        if silent:
            return Envelope({"done": place})
        self.repeats.check(known["run"], place)
        return self._hand_over(earlier.reply, request, known)

    def _handle(
        self, agreement: Agreement, request: Request, state: State, memory: RunMemory
    ) -> tuple[Reply, State]:
        """Works an answer out. From the first one on, the run's price is spent for good."""
        client = _opened(self, agreement, request.client)
        inspect_request(request, replace(agreement.expected, nodes=client.silo.graph.nodes))
        if self.disclosures is not None and not memory.begun:
            self.disclosures.begin(run=agreement.run)
            memory.begin()
        with standing.clocked() if (standing := self._standing) else nullcontext():
            return client.handle(request, state)

    @property
    def _standing(self) -> Standing | None:
        known = self.consent is not None and self.disclosures is not None
        return Standing(self.consent, self.disclosures) if known else None  # type: ignore[arg-type]

    def _released(
        self, agreement: Agreement, request: Request, reply: Reply, sent: Mapping[str, int]
    ) -> dict[str, int]:
        """How often each name will have left after this reply, if consent and ε allow it."""
        left = self._left(agreement, request, reply, sent)
        if self.consent is not None:
            self.consent.check_reply(request.phase, reply, left)
        step = agreement.expected.phases[request.phase][request.step]
        if (standing := self._standing) is not None:
            standing.check(request, reply, step.reply, self.graph())
        names = counted(request.phase, reply.arrays, reply.metrics)
        for name in step.reply.keys() & names:
            if step.releases is not None and left.get(name, 0) >= step.releases:
                raise InputError(
                    f"{self.name} promised its ε for {step.releases} releases of {name}, and all "
                    "of them have left; one more would exceed it"
                )
        return {**sent, **{name: sent.get(name, 0) + 1 for name in names}}

    def _left(
        self, agreement: Agreement, request: Request, reply: Reply, sent: Mapping[str, int]
    ) -> dict[str, int]:
        """How often each name has left besides this reply.

        The log is asked too: a memory that was put back from an older copy has forgotten answers.
        """
        if self.disclosures is None:
            return dict(sent)
        shown = shows(request.phase, request.step, request.round, reply)
        logged = left_apart(self.disclosures.path, agreement.run, shown)
        names = sent.keys() | logged.keys()
        return {name: max(sent.get(name, 0), logged.get(name, 0)) for name in names}

    def _hand_over(self, reply: Reply, request: Request, known: Mapping[str, Any]) -> Envelope:
        """Logs what is about to leave, then lets it go."""
        if self.disclosures is not None:
            self.disclosures.append(
                run=known["run"],
                phase=request.phase,
                step=request.step,
                round=request.round,
                reply=reply,
                epsilon=known["sound"]["epsilon"],
            )
        return Envelope({"client": reply.client, "metrics": dict(reply.metrics)}, reply.arrays)

    def _close(self, envelope: Envelope, memory: RunMemory) -> Envelope:
        """Stores the silo's results of the run, and deletes what it remembered of it."""
        known = memory.agreement
        if known is not None:
            self._check_graph(known["run"], known.get("graph"))
            _check_result(envelope, self._looked_up(known))
            if self.results is not None:
                self._keep(known, envelope, memory, self.results / known["run"])
            begun = memory.begun
            memory.forget()
            log_of = self.disclosures
            if log_of is not None and not begun and not spent(log_of.path, known["run"]):
                log_of.withdraw(run=known["run"])
        return Envelope({"done": True})

    def _keep(
        self, known: Mapping[str, Any], envelope: Envelope, memory: RunMemory, folder: Path
    ) -> None:
        """Writes what :func:`feddep.open_run` opens, with the silo's own scores."""
        last, state, _ = memory.recall()
        best, graph = envelope.header.get("best"), self.graph()
        kept = _to_keep(state) if last is not None and last == best else memory.kept_at(best)
        weights = own_classifier(state if kept is None else kept, envelope.arrays)
        part = part_of(graph, kept, state, secret=self.secret is not None)
        agreement = self._looked_up(known)
        silo = _opened(self, agreement, known["client"]).silo
        measures = measures_at_silo(agreement, silo, graph, weights, part)
        about = {**known, "means": self._meaning(known["sound"])}
        write_results(folder, about, envelope.header, weights, part, measures, graph)


def _to_keep(state: State) -> State:
    """What a silo needs of a round's memory for predictions."""
    return {**mending_of(state), **grouped("classifier", group(state, "classifier"))}


@lru_cache(maxsize=4)
def _check_budget_again(service: SiloService, agreement: Agreement) -> None:
    """Leaves a run that goes beyond a budget which was lowered since the silo agreed.

    Cached: a process reads its consent once, and no later run can exceed the budget.
    """
    consent, disclosures = service.consent, service.disclosures
    if consent is None or not consent.counts_runs or disclosures is None:
        return
    lines = disclosures.lines()
    own = [line for line in lines if isinstance(line, Agreed) and line.run == agreement.run]
    if not own:
        raise InputError(
            f"the disclosure log has no line about the run {agreement.run}, to which this silo "
            "agreed; what was spent cannot be counted. Put the log back"
        )
    consent.check_budget(lines, own[-1], noted_heads(disclosures, None))


@lru_cache(maxsize=4)
def _opened(service: SiloService, agreement: Agreement, client: int) -> Client:
    """A client ready to answer. Cached, so that a process opens its data only once."""
    torch.set_num_threads(1)
    method = agreement.method
    secret = None if service.secret is None else Secret(service.secret, agreement.run)
    links = link_keys_in(service, agreement, client) if agreement.is_linked else None
    device = torch.device("cpu")
    silo = open_silo(client, service.graph(), agreement.learning, device, secret, links)
    return Client(silo, method.phases, agreement.learning, silo.graph.nodes)


def _check_result(envelope: Envelope, agreement: Agreement) -> None:
    """Inspects the final result like everything else that the server sends."""
    inspect_result(envelope.arrays, agreement.result, agreement.expected)
