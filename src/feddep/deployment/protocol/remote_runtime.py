"""The server's side of a federation over a network.

Every exchange has a *place* in the run, and a silo remembers the place of its last answer. So an
envelope can be sent twice; a silo that was away replays what it missed, without sending answers
again; and a server that was killed repeats its round, in which silos that had already answered
give the same answer.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from feddep.deployment.protocol.agreement import LARGEST_NORM, Agreement
from feddep.deployment.protocol.request_log import (
    Offence,
    OffenceLog,
    PlaceLog,
    RequestLog,
    place_of,
)
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import FeddepError, InputError, InterruptedRunError, RuntimeFailureError
from feddep.federation.inspection import inspect_reply, without_long_gradients
from feddep.federation.messages import Arrays, Reply, Request, State
from feddep.learning.evaluation import Scores
from feddep.runtime.envelope import Channel, Envelope, Undelivered

FAILED = "cannot answer"
"""A refusal that begins like this is a passing failure: the silo may answer later."""

_MOST_CHARACTERS = 300
_LONGEST_REFUSAL = 2000  # the refusal of a run lists every line of the consent that forbids it
_LONGEST_PAUSE = 10.0
log = logging.getLogger("feddep")


@dataclass
class _Exchange:
    """The progress of one exchange.

    Attributes:
        place: its place in the run.
        waiting: requests without an answer.
        replies: replies that passed inspection.
        poisoned: clients whose replies did not pass.
        excuses: why other clients do not answer, if they said so.
    """

    place: str
    waiting: dict[int, Request]
    replies: dict[int, Reply] = field(default_factory=dict)
    poisoned: set[int] = field(default_factory=set)
    excuses: dict[int, str] = field(default_factory=dict)

    @property
    def answered(self) -> int:
        return len(self.replies) + len(self.poisoned)


class RemoteRuntime:
    """A :class:`~feddep.runtime.runtime.Runtime` whose clients are silos at the end of a channel.

    Args:
        channel: carries the envelopes.
        agreement: what to run; sent again to a silo that lost it.
        silos: the addresses of clients 0, 1, …
        folder: where requests and left-out replies are stored.
        wait_policy: how long to wait for which silos.
        nodes: each silo's number of nodes, which bounds the counts that it may report; None if
            only their sum is known.
        largest_norm: the largest norm that a reply may have.
        measure: scores a classifier on the whole graph, in a simulation; None between real silos.
        heads: of the silos' logs, as they gave them last; None if none is known.
    """

    def __init__(
        self,
        channel: Channel,
        agreement: Agreement,
        silos: Sequence[int],
        folder: Path,
        wait_policy: WaitPolicy,
        *,
        nodes: Sequence[int] | None = None,
        largest_norm: float = LARGEST_NORM,
        measure: Callable[[Arrays], Scores] | None = None,
        heads: Sequence[str | None] | None = None,
    ) -> None:
        self.clients = len(silos)
        self._channel, self._silos = channel, list(silos)
        self._run, self._agreement = agreement.run, agreement.to_plain()
        self._heads = heads or [None] * len(silos)
        self._phases = [phase.name for phase in agreement.method.phases]
        expected = replace(agreement.expected, largest_norm=largest_norm)
        known: Sequence[int | None] = nodes or [None] * len(silos)
        self._expected = [replace(expected, nodes=own) for own in known]
        self._log = RequestLog(folder)
        self._left_out = OffenceLog(folder / "left_out.jsonl")
        self._best = PlaceLog(folder / "best.jsonl")
        self._place = ""
        self._wait_policy, self._measure = wait_policy, measure
        self._spot: tuple[str, int] | None = None
        self._step = 0

    @property
    def offences(self) -> list[Offence]:
        """All replies left out so far, including those before the server was last restarted."""
        return self._left_out.offences

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Asks every silo, and returns the replies that came in time and passed inspection.

        Raises:
            InterruptedRunError: too few silos answered; the run can be resumed.
        """
        wait_policy, place = self._wait_policy, self._next_place(requests[0])
        self._log.write(place, requests)
        self._left_out.forget_from(place)
        self._best.forget_from(place)
        self._place = place
        asked = {request.client: request for request in requests}
        step = _Exchange(place, dict(asked))
        began, pause = time.monotonic(), 1.0
        while step.waiting:
            seconds = wait_policy.grace if self._is_enough(step) else wait_policy.wait
            left = began + seconds - time.monotonic()
            if left <= 0:
                break
            if self._ask(step, min(left, wait_policy.resend)):
                time.sleep(min(pause, max(0.0, began + seconds - time.monotonic())))
                pause = min(2 * pause, _LONGEST_PAUSE)
        absent = [client for client in asked if client not in {*step.replies, *step.poisoned}]
        if not self._is_enough(step):
            raise self._too_few(step, absent, time.monotonic() - began)
        for client in absent:
            reason = step.excuses.get(client, f"no answer within {wait_policy.grace:g} s")
            self._leave_out(place, asked[client], reason)
        return [step.replies[client] for client in asked if client in step.replies]

    def states(self) -> list[State]:
        """Nothing: silos keep their own states."""
        return []

    def keep(self) -> None:
        """Notes that this is the best round so far; the next envelope tells the silos."""
        self._best.note(self._place)

    def kept(self) -> list[State]:
        """Nothing: silos keep it themselves."""
        return []

    def restore(self, states: Sequence[State], kept: Sequence[State] = ()) -> None:
        """Does nothing: silos keep their own states."""

    @property
    def _best_place(self) -> str | None:
        return self._best.entries[-1][0] if self._best.entries else None

    def measure(self, classifier: Arrays | None) -> "Future[list[Scores]]":
        """Scores on the whole graph in a simulation; nothing between real silos."""
        done: Future[list[Scores]] = Future()
        known = self._measure is not None and classifier is not None
        done.set_result([self._measure(classifier)] if known else [])  # type: ignore[misc, arg-type]
        return done

    def close(self, arrays: Arrays, news: Mapping[str, Any]) -> None:
        """Sends every silo the result, waiting for absent ones as long as in a round.

        Args:
            arrays: the final classifier, if the method has one for all.
            news: what else goes into the header.
        """
        header = {"kind": "close", "run": self._run, "best": self._best_place, **news}
        envelope = Envelope(header, arrays)
        envelopes = dict.fromkeys(range(self.clients), envelope)
        answers = self._answers(envelopes, self._wait_policy.grace)
        for client in range(self.clients):
            if client not in answers:
                log.warning("client %d does not answer and does not get the result", client)
            elif "refused" in answers[client].header:
                log.warning(
                    "client %d does not accept the result: %s", client, refusal(answers[client])
                )

    def forget(self) -> None:
        """Deletes what was asked, features of silos among it: the run is over and stored."""
        self._log.delete()

    def _next_place(self, request: Request) -> str:
        spot = (request.phase, request.round)
        self._step = self._step + 1 if spot == self._spot else 0
        self._spot = spot
        return place_of(self._phases.index(request.phase), request.round, self._step)

    def _is_enough(self, step: _Exchange) -> bool:
        return bool(step.replies) and self._wait_policy.suffices(step.answered, self.clients)

    def _ask(self, step: _Exchange, seconds: float) -> bool:
        """Sends the unanswered requests once, and processes the answers.

        Returns whether a silo was down, failed or behind, so that it must be asked again.
        """
        previous = self._log.before(step.place)
        envelopes = {
            self._silos[client]: self._envelope(step.place, previous, request)
            for client, request in step.waiting.items()
        }
        answers = self._channel.deliver(envelopes, seconds)
        again = False
        for client, request in list(step.waiting.items()):
            answer = answers.get(self._silos[client])
            if isinstance(answer, Envelope) and "sync" in answer.header:
                again = True
                answer = self._bring_up_to_date(request, answer.header["sync"], step.place, seconds)
            if isinstance(answer, Undelivered):
                log.warning("client %d: %s", client, one_line(answer.reason))
                again = True
            elif answer is not None and "refused" in answer.header:
                step.excuses[client] = f"the silo refuses: {refusal(answer)}"
                log.warning("client %d: %s", client, step.excuses[client])
                if refusal(answer).startswith(FAILED):
                    again = True
                else:
                    del step.waiting[client]
            elif answer is not None:
                del step.waiting[client]
                self._take(step, request, answer)
        return again

    def _envelope(
        self, place: str, previous: str | None, request: Request, *, silent: bool = False
    ) -> Envelope:
        header = {
            "kind": "request",
            "run": self._run,
            "place": place,
            "previous": previous,
            "client": request.client,
            "phase": request.phase,
            "step": request.step,
            "round": request.round,
            "silent": silent,
            "best": self._best_place,
        }
        return Envelope(header, request.arrays)

    def _take(self, step: _Exchange, request: Request, answer: Envelope) -> None:
        """Accepts a reply, or leaves it out and logs why."""
        expected = self._expected[request.client]
        try:
            reply = reply_of(answer)
            inspect_reply(reply, request, expected)
        except FeddepError as error:
            step.poisoned.add(request.client)
            self._leave_out(step.place, request, str(error))
            return
        step.replies[request.client] = without_long_gradients(reply, request, expected)

    def _leave_out(self, place: str, request: Request, reason: str) -> None:
        offence = Offence(request.client, request.phase, request.round, one_line(reason))
        self._left_out.note(place, offence)
        log.warning("client %d is left out of this step: %s", request.client, offence.reason)

    def _bring_up_to_date(
        self, request: Request, last: object, place: str, seconds: float
    ) -> Envelope | None:
        """Sends a silo what it missed or lost, to be replayed without sending answers again.

        Returns its refusal, if it refuses. A silo that does not finish in time will report its
        place again when it is next asked.
        """
        log.warning("client %d is back and replays what it missed", request.client)
        until = time.monotonic() + seconds
        silo = self._silos[request.client]
        for envelope in self._missed(
            request.client, last if isinstance(last, str) else None, place
        ):
            left = until - time.monotonic()
            answer = self._channel.deliver({silo: envelope}, left).get(silo) if left > 0 else None
            if not isinstance(answer, Envelope):
                return None
            if "refused" in answer.header:
                return answer
        return None

    def _missed(self, client: int, last: str | None, place: str) -> Iterator[Envelope]:
        if last is None:
            yield self._about_the_run(client)
        for earlier, previous, request in self._log.between(last, place, client):
            yield self._envelope(earlier, previous, request, silent=True)

    def _about_the_run(self, client: int) -> Envelope:
        noted = {} if self._heads[client] is None else {"head": self._heads[client]}
        return Envelope({"kind": "agree", "client": client, **noted, **self._agreement})

    def agree(self, clients: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """Asks silos to agree to the run, and returns the privacy guarantee that each states.

        Raises:
            InputError: a silo refuses; the message says why.
            InterruptedRunError: a silo does not answer.
        """
        wait = self._wait_policy.wait
        found = self._answers({client: self._about_the_run(client) for client in clients}, wait)
        for client, answer in found.items():
            if "refused" in answer.header:
                why = refusal(answer, _LONGEST_REFUSAL)
                raise InputError(f"client {client} refuses the run: {why}")
        missing = [str(client) for client in clients if client not in found]
        if missing:
            raise InterruptedRunError(
                f"no answer from client {', '.join(missing)} within {wait:g} s; run the same "
                "command with --resume to continue"
            )
        return {client: found[client].header for client in sorted(found)}

    def _answers(self, envelopes: Mapping[int, Envelope], seconds: float) -> dict[int, Envelope]:
        """The clients' answers that come in time; unanswered envelopes are sent again."""
        until = time.monotonic() + seconds
        found: dict[int, Envelope] = {}
        failed: dict[int, Envelope] = {}
        while len(found) < len(envelopes) and (left := until - time.monotonic()) > 0:
            missing = [client for client in envelopes if client not in found]
            sent = {self._silos[client]: envelopes[client] for client in missing}
            answers = self._channel.deliver(sent, min(left, self._wait_policy.resend))
            for client in missing:
                answer = answers.get(self._silos[client])
                if isinstance(answer, Envelope):
                    passing = "refused" in answer.header and refusal(answer).startswith(FAILED)
                    (failed if passing else found)[client] = answer
            if len(found) < len(envelopes):
                time.sleep(min(1.0, left))
        return failed | found

    def _too_few(
        self, step: _Exchange, absent: Sequence[int], seconds: float
    ) -> InterruptedRunError:
        excuses = {client: f" ({step.excuses[client]})" for client in step.excuses}
        missing = ", ".join(f"{client}{excuses.get(client, '')}" for client in absent)
        found = f"{step.answered} of {self.clients} silos answered within {seconds:.0f} s"
        if self._wait_policy.suffices(step.answered, self.clients):
            found += ", but no reply passed inspection"
        else:
            found += f", fewer than the quorum; missing: {missing}"
        return InterruptedRunError(
            f"{found}. Run the same command with --resume to continue from the last round, with a "
            "lower --quorum if need be"
        )


def one_line(text: object, most: int = _MOST_CHARACTERS) -> str:
    """A stranger's text, made fit for one line of a log, a record or a terminal."""
    if not isinstance(text, str):
        return f"(no text but {type(text).__name__})"
    line = "".join(sign if sign.isprintable() else " " for sign in text[:most])
    return line if len(text) <= most else line + "…"


def refusal(answer: Envelope, most: int = _MOST_CHARACTERS) -> str:
    """The reason that a silo gives for its refusal."""
    return one_line(answer.header["refused"], most)


def reply_of(answer: Envelope) -> Reply:
    """The reply in an envelope, before inspection: its content is not trusted yet.

    Raises:
        RuntimeFailureError: the envelope holds something else.
    """
    try:
        client = int(answer.header["client"])
        metrics = {str(name): float(value) for name, value in answer.header["metrics"].items()}
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RuntimeFailureError(f"expected a reply, got something else ({error})") from None
    return Reply(client, answer.arrays, metrics)


def meet(
    channel: Channel, silos: int, wait_policy: WaitPolicy, *, all_of_them: bool = True
) -> dict[int, Mapping[str, Any]]:
    """Waits until silos have connected, and returns their introductions by address.

    Args:
        channel: reaches the silos.
        silos: how many silos there are.
        wait_policy: how long to wait.
        all_of_them: wait for all; otherwise a quorum suffices, after ``grace`` seconds.

    Raises:
        InterruptedRunError: too few connected.
    """
    began = time.monotonic()
    hello = Envelope({"kind": "hello"})
    known: dict[int, Mapping[str, Any]] = {}
    while len(known) < silos:
        enough = not all_of_them and wait_policy.suffices(len(known), silos)
        left = began + (wait_policy.grace if enough else wait_policy.wait) - time.monotonic()
        if left <= 0:
            if enough:
                break
            raise InterruptedRunError(
                f"{len(known)} of {silos} silos connected within {wait_policy.wait:g} s; start "
                "the others and run the same command again"
            )
        new = [address for address in channel.addresses() if address not in known]
        answers = channel.deliver(dict.fromkeys(new, hello), min(left, wait_policy.resend))
        for address, answer in answers.items():
            if isinstance(answer, Envelope):
                known[address] = answer.header
            else:
                log.warning("a silo did not introduce itself: %s", one_line(answer.reason))
        if len(known) < silos:
            time.sleep(min(1.0, left))
    return known
