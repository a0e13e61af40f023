"""Privacy events: what was sampled, flipped, noised or sent. Accountants price nothing else.

Events are plain values that can be stored as JSON. ``Events`` are those of one client, in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from feddep.errors import DataError


@dataclass(frozen=True)
class NeighbourSampling:
    """Neighbour lists were sampled whenever they were read.

    Attributes:
        purpose: what they were sampled for: the embeddings behind prototypes (the paper's
            theorem), or the classifier.
        fanout: d.
        hops: lists read one after the other for one node, L or K.
        epochs: passes over the training nodes.
        degrees: ``((degree, nodes), …)`` of the client's graph, ascending.
    """

    purpose: Literal["embeddings", "classifier"]
    fanout: int
    hops: int
    epochs: int
    degrees: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FullNeighbours:
    """Neighbour lists were read as they are.

    Attributes:
        purpose: what for, or in which phase.
    """

    purpose: str


@dataclass(frozen=True)
class BernoulliSelection:
    """Generated neighbours were kept at this rate; the paper counts it as a mechanism."""

    keep: float


@dataclass(frozen=True)
class OneShotSampling:
    """Every list was sampled once, before anything else.

    Attributes:
        fanout: d.
        list_delta: largest probability that a list reveals an entry, over the client's nodes.
        edge_delta: largest probability that an edge is in either of its two lists.
    """

    fanout: int
    list_delta: float
    edge_delta: float


@dataclass(frozen=True)
class RandomisedResponse:
    """Every pair of nodes was flipped once, before anything else.

    Attributes:
        epsilon: ε for one undirected edge.
        noise_from: ``seed`` in a simulation, whose noise anybody can repeat.
    """

    epsilon: float
    noise_from: Literal["seed", "secret"] = "seed"


@dataclass(frozen=True)
class SparseResponse:
    """Randomised response with two rates of its own: fewer edges are kept, fewer created.

    Attributes:
        keep: q₁, probability that an edge stayed.
        create: q₀, probability that any other pair became an edge.
        noise_from: ``seed`` in a simulation, whose noise anybody can repeat.
    """

    keep: float
    create: float
    noise_from: Literal["seed", "secret"] = "seed"


@dataclass(frozen=True)
class NoisedSums:
    """Encodings were summed over neighbours and noised once, before anything else.

    Attributes:
        noise: σ, standard deviation of the noise on every number of a sum of rows of norm 1.
        hops: K, sums computed one from the other.
        edges: D, how many edges of one node ε is for.
        delta: δ that was chosen beforehand.
        noise_from: ``seed`` in a simulation, whose noise anybody can repeat.
    """

    noise: float
    hops: int
    edges: int
    delta: float
    noise_from: Literal["seed", "secret"] = "seed"


@dataclass(frozen=True)
class NoisedGradients:
    """DP-SGD on the local GNN or the classifier, or updates noised as a whole.

    Attributes:
        purpose: whose gradients.
        noise: σ, noise multiplier.
        clip: C.
        rate: probability that an example is in a batch; 1 where all are.
        steps: number of steps.
    """

    purpose: Literal["embeddings", "classifier", "updates"]
    noise: float
    clip: float
    rate: float
    steps: int


@dataclass(frozen=True)
class CappedGradients(NoisedGradients):
    """DP-SGD over lists in which a node occurs at most K times, so that an edge has a price too.

    Attributes:
        phase: the conversation that these gradients belong to.
        occurrences: K, for the lists of all but the outermost hop.
        touched: k, the most examples that one undirected edge can change.
        delta: δ that was chosen beforehand.
        edges: of the client's graph.
        trainings: how many trainings the steps make up; the result of each may leave once. None
            in the events of older runs.
    """

    phase: str
    occurrences: int
    touched: int
    delta: float
    edges: int
    trainings: int | None = None


@dataclass(frozen=True)
class KnownCrossings:
    """The server was given the edges between this client and the others, as they are."""


@dataclass(frozen=True)
class ToldToSilos:
    """Other silos are told something about this silo's nodes, by way of the server or past it.

    A phase declares it beside the messages that carry it, so that statements can name it. It has
    no price of its own for an edge: what is told leaves in messages, which have theirs.

    Attributes:
        phase: in which conversation.
        what: what is told, in a few words that follow "are told".
        to: who, as the subject of a sentence.
        epsilon: ε of the noise on what is told about one node; None where there is none.
        noise_from: ``seed`` in a simulation, whose noise anybody can repeat.
    """

    phase: str
    what: str
    to: str = "linked silos"
    epsilon: float | None = None
    noise_from: Literal["seed", "secret"] = "seed"

    @property
    def sentence(self) -> str:
        """Who is told what, and under which noise."""
        hidden = "without noise"
        if self.epsilon is not None:
            hidden = f"with noise of ε = {self.epsilon:.3g} for each node"
            if self.noise_from == "seed":
                hidden += ", which anybody who knows the seed can remove"
        return f"{self.to[:1].upper()}{self.to[1:]} are told {self.what}, {hidden}."


@dataclass(frozen=True)
class LinkAnswers(ToldToSilos):
    """The silo at the other end of a link is told something about the node at this end.

    Attributes:
        of: what a silo has to consent to: the confirmed class, what a classifier says of the node,
            both, or more than that, such as features or hidden states.
    """

    of: Literal["labels", "scores", "labels and scores", "everything"] = "everything"


@dataclass(frozen=True)
class MatchedLinks:
    """Silos found out in pairs which links both have; the server and the other silos did not.

    Attributes:
        one_sided: they also answer for links that only the other silo has.
    """

    one_sided: bool = False

    @property
    def sentence(self) -> str:
        """Who learns which links there are."""
        answers = " A silo also answers for links that only the other one has in its tables."
        return (
            "Which links lead from one silo to another is known to these two silos alone: the "
            "server carries sealed messages, and learns their sizes."
        ) + (answers if self.one_sided else "")


@dataclass(frozen=True)
class Message:
    """Something left the client.

    Attributes:
        phase: in which conversation.
        name: group of arrays, or ``numbers`` for scores and counts.
        times: how often; in a plan, in how many rounds it may.
        bytes: in total; 0 in a plan.
    """

    phase: str
    name: str
    times: int
    bytes: int


Event = (
    NeighbourSampling
    | FullNeighbours
    | BernoulliSelection
    | OneShotSampling
    | RandomisedResponse
    | SparseResponse
    | NoisedSums
    | NoisedGradients
    | CappedGradients
    | KnownCrossings
    | ToldToSilos
    | LinkAnswers
    | MatchedLinks
    | Message
)
Events = Sequence[Event]

SAID = (MatchedLinks, ToldToSilos)
"""Kinds of events with a sentence of their own in every statement."""

_KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        NeighbourSampling,
        FullNeighbours,
        BernoulliSelection,
        OneShotSampling,
        RandomisedResponse,
        SparseResponse,
        NoisedSums,
        NoisedGradients,
        CappedGradients,
        KnownCrossings,
        ToldToSilos,
        LinkAnswers,
        MatchedLinks,
        Message,
    )
}


def to_plain(events: Events) -> list[dict[str, Any]]:
    """The events as plain data for JSON."""
    return [{"event": type(event).__name__, **asdict(event)} for event in events]


def from_plain(rows: Sequence[Mapping[str, Any]]) -> list[Event]:
    """The inverse of :func:`to_plain`; an unknown event is refused."""
    found: list[Event] = []
    for row in rows:
        values = dict(row)
        kind = _KINDS.get(str(values.pop("event", None)))
        if kind is None:
            raise DataError(f"unknown privacy event: {row.get('event')!r}")
        if "degrees" in values:
            values["degrees"] = tuple((int(d), int(n)) for d, n in values["degrees"])
        try:
            found.append(kind(**values))
        except TypeError as error:
            raise DataError(f"the privacy event {row.get('event')!r}: {error}") from None
    return found
