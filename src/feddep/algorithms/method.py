"""What a method is: an ordered tuple of phases, and its declarations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from feddep.errors import InputError
from feddep.federation.phase import AnyPhase, groups_sent
from feddep.learning.mending import AddedNodes
from feddep.learning.spec import LearningSpec
from feddep.models.sage import Fusion


@dataclass(frozen=True, kw_only=True)
class Method:
    """One row of the table. A variant is ``dataclasses.replace(METHOD, …)``.

    Attributes:
        name: as on the command line and in records.
        summary: one sentence for ``feddep methods``.
        phases: its conversations, in order.
        settings: keys of the spec that make the method what it is; they cannot be changed.
        defaults: keys of the spec that override the paper's values for a data set; tuned presets
            and users may change them.
        preset_of: the method whose tuned settings are used, so that an ablation differs from it in
            nothing but what it leaves out.
        sees_cross_edges: a third party that knows the edges between clients takes part, although
            the problem assumes that nobody does; every table marks it.
        linked: silos use the links to others that they know; without such links it is not run.
        fusion: which of the classifier's layers take embeddings of missing neighbours.
        reconstruction: written from the paper's description, without the text of the original;
            every table says so.
        whole_graph: a single client holds the whole graph, whatever the number of clients is.
        trains_generator: whether the keys ``generator.*`` that say how a generator is trained make
            a difference; where they do not, a sweep takes runs that differ in them for the same.
    """

    name: str
    summary: str
    phases: tuple[AnyPhase, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    preset_of: str | None = None
    sees_cross_edges: bool = False
    linked: bool = False
    fusion: Fusion = "none"
    reconstruction: bool = False
    whole_graph: bool = False
    trains_generator: bool = True

    def __post_init__(self) -> None:
        names = [phase.name for phase in self.phases]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:  # messages, prices and consent go by the name
            raise InputError(
                f"the phases of {self.name} need different names (got {', '.join(twice)} twice); "
                "give one of them another name"
            )

    @property
    def adds_nodes(self) -> bool:
        """Whether neighbours are put into the silos' graphs as nodes."""
        return any(isinstance(getattr(p, "mender", None), AddedNodes) for p in self.phases)

    def discloses_in(self, spec: LearningSpec) -> frozenset[str]:
        """Groups of arrays that leave a client in a run of this spec, as the phases declare."""
        return frozenset[str]().union(*(groups_sent(phase, spec) for phase in self.phases))

    @property
    def discloses(self) -> frozenset[str]:
        """Groups of arrays that leave a client, unless a run asks for more."""
        return self.discloses_in(LearningSpec(features=1, classes=2, fusion=self.fusion))
