"""The server's side of a federation over a network: it brings the silos together for each step.

Every exchange has a *place* in the run, and a silo remembers the last place that it answered at.
So a letter can be sent twice, a silo that was away is told what it missed, and a server that was
killed begins its round again: whoever answered already gives the same answer.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from feddep.deployment.agreement import LARGEST_NORM, Agreement
from feddep.deployment.request_log import RequestLog, place_of
from feddep.errors import FeddepError, InputError, InterruptedRunError, RuntimeFailureError
from feddep.federation.inspection import InspectionError, inspect_reply
from feddep.federation.messages import Arrays, Reply, Request, State
from feddep.learning.evaluation import Scores
from feddep.runtime.letter import Letter, Lost, Post

PROTOCOL = 1
log = logging.getLogger("feddep")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long the server waits for whom.

    Attributes:
        quorum: share of the silos that a round needs.
        grace: seconds after which a round with a quorum goes on without the rest.
        wait: seconds that a round without a quorum waits before the run ends, to be resumed.
        resend: seconds after which a letter without an answer is sent again.
    """

    quorum: float = 1.0
    grace: float = 600.0
    wait: float = 3600.0
    resend: float = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.quorum <= 1:
            raise InputError(f"quorum: expected a share above 0, up to 1 (got {self.quorum:g})")
        for name in ("grace", "wait", "resend"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}: expected seconds above 0 (got {getattr(self, name):g})")


@dataclass(frozen=True)
class Offence:
    """A reply that was left out, and why."""

    client: int
    phase: str
    round: int
    reason: str


class Convener:
    """A :class:`~feddep.runtime.runtime.Runtime` whose clients are silos at the end of a post.

    Args:
        post: carries the letters.
        agreement: what is run; sent to whoever forgot it.
        silos: the addresses of clients 0, 1, …
        folder: where the requests are kept.
        patience: how long to wait for whom.
        largest_norm: of what a reply may hold.
        measure: scores a classifier on the whole graph, where somebody has it; in a simulation.
    """

    def __init__(
        self,
        post: Post,
        agreement: Agreement,
        silos: Sequence[int],
        folder: Path,
        patience: Patience,
        *,
        largest_norm: float = LARGEST_NORM,
        measure: Callable[[Arrays], Scores] | None = None,
    ) -> None:
        self.clients = len(silos)
        self.offences: list[Offence] = []
        self._post, self._silos = post, list(silos)
        self._run, self._agreement = agreement.run, agreement.to_plain()
        self._phases = [phase.name for phase in agreement.method.phases]
        self._expected = replace(agreement.expected, largest_norm=largest_norm)
        self._log = RequestLog(folder)
        self._patience, self._measure = patience, measure
        self._spot: tuple[str, int] | None = None
        self._step = 0

    def exchange(self, requests: Sequence[Request]) -> list[Reply]:
        """Asks every silo; the replies of those that answered in time and passed inspection.

        Raises:
            InterruptedRunError: too few answered; the run can be resumed.
        """
        place = self._next_place(requests[0])
        self._log.write(place, requests)
        waiting = {request.client: request for request in requests}
        replies: dict[int, Reply] = {}
        began = time.monotonic()
        while waiting:
            patience = self._patience
            enough = len(replies) >= max(1.0, patience.quorum * self.clients)
            left = began + (patience.grace if enough else patience.wait) - time.monotonic()
            if left <= 0:
                if enough:
                    self._go_on_without(waiting)
                    break
                raise self._too_few(len(replies), waiting)
            self._ask(place, waiting, replies, min(left, patience.resend))
        return [replies[request.client] for request in requests if request.client in replies]

    def states(self) -> list[State]:
        """None: silos keep their memories."""
        return []

    def restore(self, states: Sequence[State]) -> None:
        """Nothing: silos keep their memories."""

    def measure(self, classifier: Arrays | None) -> "Future[list[Scores]]":
        """Scores on the whole graph, where there is one; between real silos nobody has it."""
        done: Future[list[Scores]] = Future()
        known = self._measure is not None and classifier is not None
        done.set_result([self._measure(classifier)] if known else [])  # type: ignore[misc, arg-type]
        return done

    def close(self, arrays: Arrays, news: Mapping[str, Any]) -> None:
        """Gives every silo the result; one that is away can ask for it later."""
        letter = Letter({"kind": "close", "run": self._run, **news}, arrays)
        self._post.deliver(dict.fromkeys(self._silos, letter), self._patience.resend)

    def _next_place(self, request: Request) -> str:
        spot = (request.phase, request.round)
        self._step = self._step + 1 if spot == self._spot else 0
        self._spot = spot
        return place_of(self._phases.index(request.phase), request.round, self._step)

    def _ask(
        self, place: str, waiting: dict[int, Request], replies: dict[int, Reply], seconds: float
    ) -> None:
        """Sends what is missing once, and takes in what comes back."""
        previous = self._log.before(place)
        letters = {
            self._silos[client]: self._letter(place, previous, request)
            for client, request in waiting.items()
        }
        answers = self._post.deliver(letters, seconds)
        again = False
        for client, request in list(waiting.items()):
            answer = answers.get(self._silos[client])
            if isinstance(answer, Lost):
                log.warning("client %d: %s", client, answer.reason)
                again = True
            elif answer is not None and "sync" in answer.header:
                again = True
                if not self._brought_up_to_date(request, answer.header["sync"], place, seconds):
                    del waiting[client]
            elif answer is not None:
                del waiting[client]
                self._take(request, answer, replies)
        if again:
            time.sleep(min(1.0, seconds))  # or a silo that is down, or lies, is asked all the time

    def _letter(
        self, place: str, previous: str | None, request: Request, *, silent: bool = False
    ) -> Letter:
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
        }
        return Letter(header, request.arrays)

    def _take(self, request: Request, answer: Letter, replies: dict[int, Reply]) -> None:
        """Accepts a reply, or leaves it out and says why."""
        try:
            if "refused" in answer.header:
                raise InspectionError(f"the silo refuses: {answer.header['refused']}")
            reply = reply_of(answer)
            inspect_reply(reply, request, self._expected)
        except FeddepError as error:
            self._leave_out(request, str(error))
            return
        replies[request.client] = reply

    def _leave_out(self, request: Request, reason: str) -> None:
        self.offences.append(Offence(request.client, request.phase, request.round, reason))
        log.warning("client %d is left out of this step: %s", request.client, reason)

    def _brought_up_to_date(
        self, request: Request, last: object, place: str, seconds: float
    ) -> bool:
        """Tells a silo what it missed or lost; what it answers to that stays with it.

        A silo that does not answer in time will say again where it is. False if it refuses, and
        so is left out.
        """
        log.warning("client %d comes back: it is told what it missed", request.client)
        until = time.monotonic() + seconds
        silo = self._silos[request.client]
        for letter in self._missed(request.client, last if isinstance(last, str) else None, place):
            left = until - time.monotonic()
            answer = self._post.deliver({silo: letter}, left).get(silo) if left > 0 else None
            if not isinstance(answer, Letter):
                return True
            if "refused" in answer.header:
                self._leave_out(request, f"the silo refuses: {answer.header['refused']}")
                return False
        return True

    def _missed(self, client: int, last: str | None, place: str) -> Iterator[Letter]:
        if last is None:
            yield self._about_the_run(client)
        for earlier, previous, request in self._log.between(last, place, client):
            yield self._letter(earlier, previous, request, silent=True)

    def _about_the_run(self, client: int) -> Letter:
        return Letter({"kind": "agree", "client": client, **self._agreement})

    def agree(self, clients: Sequence[int]) -> dict[int, Mapping[str, Any]]:
        """Tells silos about the run; what each says about its privacy.

        Raises:
            InputError: a silo refuses; it says why.
            InterruptedRunError: one does not answer.
        """
        letters = {client: self._about_the_run(client) for client in clients}
        found = {}
        for client, answer in self._all_of(letters).items():
            if "refused" in answer.header:
                raise InputError(f"client {client} refuses the run: {answer.header['refused']}")
            found[client] = answer.header
        return dict(sorted(found.items()))

    def _all_of(self, letters: Mapping[int, Letter]) -> dict[int, Letter]:
        """The answers of all clients that are written to."""
        until = time.monotonic() + self._patience.wait
        found: dict[int, Letter] = {}
        while len(found) < len(letters):
            left = until - time.monotonic()
            missing = [client for client in letters if client not in found]
            if left <= 0:
                names = ", ".join(map(str, missing))
                raise InterruptedRunError(
                    f"no answer from client {names} within {self._patience.wait:g} s; the same "
                    "command with --resume goes on"
                )
            sent = {self._silos[client]: letters[client] for client in missing}
            answers = self._post.deliver(sent, min(left, self._patience.resend))
            for client in missing:
                answer = answers.get(self._silos[client])
                if isinstance(answer, Letter):
                    found[client] = answer
            if len(found) < len(letters):
                time.sleep(min(1.0, left))
        return found

    def _go_on_without(self, waiting: Mapping[int, Request]) -> None:
        for request in waiting.values():
            self._leave_out(request, f"no answer within {self._patience.grace:g} s")

    def _too_few(self, present: int, waiting: Mapping[int, Request]) -> InterruptedRunError:
        missing = ", ".join(str(client) for client in waiting)
        return InterruptedRunError(
            f"{present} of {self.clients} silos answered within {self._patience.wait:g} s, fewer "
            f"than the quorum; missing: {missing}. The same command with --resume goes on from "
            "the last round"
        )


def reply_of(answer: Letter) -> Reply:
    """A reply as it came over the wire; its content is not trusted yet.

    Raises:
        RuntimeFailureError: it is none.
    """
    try:
        client = int(answer.header["client"])
        metrics = {str(name): float(value) for name, value in answer.header["metrics"].items()}
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RuntimeFailureError(f"expected a reply, got something else ({error})") from None
    return Reply(client, answer.arrays, metrics)


def meet(post: Post, silos: int, patience: Patience) -> dict[int, Mapping[str, Any]]:
    """Waits until so many silos are connected and have introduced themselves; theirs by address.

    Raises:
        InterruptedRunError: fewer came.
    """
    until = time.monotonic() + patience.wait
    hello = Letter({"kind": "hello", "protocol": PROTOCOL})
    known: dict[int, Mapping[str, Any]] = {}
    while len(known) < silos:
        left = until - time.monotonic()
        if left <= 0:
            raise InterruptedRunError(
                f"{len(known)} of {silos} silos are connected after {patience.wait:g} s; start "
                "the others and run the same command again"
            )
        new = [address for address in post.addresses() if address not in known]
        answers = post.deliver(dict.fromkeys(new, hello), min(left, patience.resend))
        for address, answer in answers.items():
            if isinstance(answer, Letter):
                known[address] = answer.header
            else:
                log.warning("a silo cannot introduce itself: %s", answer.reason)
        if len(known) < silos:
            time.sleep(min(1.0, left))
    return known
