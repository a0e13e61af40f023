"""What a method is: an ordered tuple of phases, and what it admits to."""

from dataclasses import dataclass

from feddep.federation.phase import AnyPhase


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row of the table. A variant is ``dataclasses.replace(METHOD, …)``.

    Attributes:
        name: as on the command line and in records.
        summary: one sentence for ``feddep methods``.
        phases: its conversations, in order.
        discloses: groups of arrays that leave a client.
        fused: the classifier takes embeddings of missing neighbours.
        whole_graph: one party holds the whole graph; the number of clients does not matter.
    """

    name: str
    summary: str
    phases: tuple[AnyPhase, ...]
    discloses: frozenset[str] = frozenset()
    fused: bool = False
    whole_graph: bool = False
