"""What the server and the silos agree on before a run, and what they may then send each other."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from feddep.algorithms import find_method, fingerprint
from feddep.algorithms.method import Method
from feddep.deployment.protocol.names import silo_name
from feddep.errors import InputError
from feddep.federation.content import Content, Weights
from feddep.federation.inspection import Expected
from feddep.federation.sealed import seals
from feddep.learning.spec import LearningSpec
from feddep.runtime.envelope import LARGEST_BYTES
from feddep.scenario.build import learning_spec_of
from feddep.scenario.spec import RunSpec

LARGEST_NORM = 1e6
"""No honest message of any method comes near this. It stops a hostile one from driving the
arithmetic of honest clients to infinity."""

_MOST_EPOCHS = 100_000
_MOST = {
    "training.local_epochs": 1000,
    "training.fanout": 1000,
    "model.layers": 16,
    "embedding.epochs": 10_000,
    "embedding.clusters": 10_000,
    "generator.epochs": 10_000,
    "generator.joint_batches": 10_000,
    "partition.clients": 10_000,
}
"""Of settings that cost a silo time or memory whatever its data are."""

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")  # it becomes the name of a folder


@dataclass(frozen=True)
class Agreement:
    """One run, as the server and every silo know it.

    Attributes:
        run: its name.
        spec: what to run.
        features: number of feature columns, the same in every silo.
        classes: number of classes.
        nodes: number of nodes in all silos together.
        silos: their names, in the clients' order, where they seal messages for each other;
            otherwise empty.
    """

    run: str
    spec: RunSpec
    features: int
    classes: int
    nodes: int
    silos: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _RUN.fullmatch(self.run):
            raise InputError(
                f"run name: expected 1 to 64 letters, digits and -, the first a letter or digit "
                f"(got {self.run!r})"
            )
        if min(self.features, self.classes, self.nodes) < 1:
            raise InputError(
                "a run needs at least one feature, one class and one node "
                f"(got {self.features}, {self.classes} and {self.nodes})"
            )
        check_federated(self.method)
        self._check_size()
        self._check_work()
        if len(set(self.silos)) < len(self.silos) or (self.silos and not self.is_linked):
            raise InputError(
                "silos are named, each once, where they seal messages for each other "
                f"(got {', '.join(self.silos)})"
            )

    def _check_work(self) -> None:
        """Refuses a spec that would keep a silo busy, or its memory full, for no honest reason."""
        training = self.spec.training
        asked = {key: value_at(self.spec, key) for key in _MOST}
        asked["training.rounds x local_epochs"] = training.rounds * training.local_epochs
        for key, value in asked.items():
            most = _MOST.get(key, _MOST_EPOCHS)
            if value > most:
                raise InputError(f"{key} is {value}, where a run between silos has at most {most}")

    def _check_size(self) -> None:
        """Refuses a spec whose messages would be too large, before anybody computes them."""
        model, embedding, generator = self.spec.model, self.spec.embedding, self.spec.generator
        hidden, width = model.hidden, self.learning.embedding_width
        outputs = max(hidden, embedding.width, self.classes)
        convolution = ((1 + model.means) * hidden + embedding.width + 1) * outputs
        weights = (self.learning.inputs + width + 1) * hidden + model.layers * convolution
        head = (hidden + 1) * (hidden + generator.slots * width)
        batch = generator.batch_size * (hidden + generator.slots)
        prototypes = self.spec.partition.clients * embedding.clusters * width
        _check_sent("model", weights, "model.hidden or embedding.width")
        _check_sent("generator", head + batch, "generator.slots or generator.batch_size")
        _check_sent("prototypes of all silos", prototypes, "embedding.clusters")

    def check_nodes(self, nodes: int) -> None:
        """Refuses a run in which a silo of this size could not send what it would have to.

        Args:
            nodes: number of nodes in the silo's graph.

        Raises:
            InputError: a message would be too large.
        """
        for phase in self.method.phases:
            for step, declared in phase.steps(self.learning).items():
                size = sum(content.largest_bytes(nodes) for content in declared.reply.values())
                if size > LARGEST_BYTES:
                    raise InputError(
                        f"what this silo would send in step {step!r} of {phase.name} has up to "
                        f"{size} bytes, of which at most {LARGEST_BYTES} can be sent; take a "
                        "smaller generator.slots or embedding.width"
                    )

    @property
    def method(self) -> Method:
        """The method to run."""
        return find_method(self.spec.method)

    @cached_property
    def learning(self) -> LearningSpec:
        """The learning settings, as the phases need them."""
        return learning_spec_of(self.spec, self.features, self.classes, self.method)

    @cached_property
    def is_linked(self) -> bool:
        """Whether silos seal messages for each other."""
        return seals(self.method.phases, self.learning)

    @cached_property
    def digest(self) -> str:
        """A hash of all that was agreed on."""
        text = json.dumps(self.to_plain(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def result(self) -> dict[str, Content]:
        """What the server may give every silo at the end."""
        return {"classifier": Weights(self.learning.classifier_shapes, optional=True)}

    @cached_property
    def expected(self) -> Expected:
        """What messages may hold."""
        return expected_of(self.method, self.learning, self.nodes)

    def to_plain(self) -> dict[str, Any]:
        """The agreement as plain values, for the header of an envelope."""
        return {
            "run": self.run,
            "spec": self.spec.to_toml(),
            "features": self.features,
            "classes": self.classes,
            "nodes": self.nodes,
            "method_file": fingerprint(self.spec.method) or "",  # of a method of somebody's own
            **({"silos": [*self.silos]} if self.silos else {}),
        }

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> "Agreement":
        """Reads what :meth:`to_plain` wrote. The sender is not trusted.

        Raises:
            InputError: the values are not an agreement, or name a method that silos cannot run.
        """
        try:
            run, text = str(values["run"]), str(values["spec"])
            sizes = [int(values[name]) for name in ("features", "classes", "nodes")]
            silos = tuple(silo_name(name) for name in values.get("silos", ()))
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"expected an agreement, got something else ({error!r})") from None
        features, classes, nodes = sizes
        found = cls(run, RunSpec.from_toml(text), features, classes, nodes, silos)
        if values.get("method_file", "") != (fingerprint(found.spec.method) or ""):
            raise InputError(
                f"the file of {found.spec.method} is not the same here as at the server; install "
                "the same version of it everywhere"
            )
        return found


def value_at(spec: RunSpec, key: str) -> int:
    """A number of a spec by its dotted key."""
    section, _, name = key.partition(".")
    return int(getattr(getattr(spec, section), name))


def agreed_on(
    run: str, spec: RunSpec, features: int, classes: int, nodes: int, names: Sequence[str]
) -> Agreement:
    """An agreement that names the silos if they seal messages for each other."""
    plain = Agreement(run, spec, features, classes, nodes)
    return replace(plain, silos=tuple(names)) if plain.is_linked else plain


def digest_of(known: Mapping[str, Any]) -> str:
    """A hash of an agreement, as plain values, and of the number of the client that agrees."""
    names = ("run", "spec", "features", "classes", "nodes", "client")
    named = [known["silos"]] if known.get("silos") else []
    text = json.dumps([*(known[name] for name in names), *named])
    return hashlib.sha256(text.encode()).hexdigest()


def _check_sent(what: str, numbers: int, smaller: str) -> None:
    if 4 * numbers > LARGEST_BYTES:
        raise InputError(
            f"the {what} would take up to {4 * numbers} bytes, but at most {LARGEST_BYTES} can be "
            f"sent; choose a smaller {smaller}"
        )


def check_federated(method: Method) -> None:
    """Refuses the methods that do not run between silos."""
    if method.whole_graph or method.name == "oracle":
        why = "it needs the whole graph" if method.whole_graph else "no silo has its input"
        raise InputError(
            f"{method.name} cannot run on Flower: {why}; use `feddep run`, which simulates it"
        )


def expected_of(method: Method, learning: LearningSpec, nodes: int) -> Expected:
    """What the messages of a run may hold, as far as it is known before the run starts.

    Args:
        method: the method whose messages they are.
        learning: the agreed learning settings.
        nodes: number of nodes in all silos together.
    """
    return Expected(
        phases={phase.name: phase.steps(learning) for phase in method.phases},
        largest_bytes=LARGEST_BYTES,
        largest_norm=LARGEST_NORM,
        all_nodes=nodes,
    )
