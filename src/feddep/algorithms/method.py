"""What a method is: an ordered tuple of phases, and its declarations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from feddep.federation.phase import AnyPhase
from feddep.models.sage import Fusion


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row of the table. A variant is ``dataclasses.replace(METHOD, …)``.

    Attributes:
        name: as on the command line and in records.
        summary: one sentence for ``feddep methods``.
        phases: its conversations, in order.
        discloses: groups of arrays that leave a client.
        settings: keys of the spec that make the method what it is; they cannot be changed.
        defaults: keys of the spec that override the paper's values for a data set; tuned presets
            and users may change them.
        preset_of: the method whose tuned settings are used, so that an ablation differs from it in
            nothing but what it leaves out.
        sees_cross_edges: a third party that knows the edges between clients takes part, although
            the problem assumes that nobody does; every table marks it.
        fusion: which of the classifier's layers take embeddings of missing neighbours.
        reconstruction: written from the paper's description, without the text of the original;
            every table says so.
        whole_graph: one party holds the whole graph; the number of clients does not matter.
    """

    name: str
    summary: str
    phases: tuple[AnyPhase, ...]
    discloses: frozenset[str] = frozenset()
    settings: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    preset_of: str | None = None
    sees_cross_edges: bool = False
    fusion: Fusion = "none"
    reconstruction: bool = False
    whole_graph: bool = False
