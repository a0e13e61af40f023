"""A small federation's declarations, and messages that are honest by them."""

from dataclasses import replace

import numpy as np

from feddep.federation.content import (
    ByPeer,
    Count,
    Exactly,
    Gradients,
    Nodes,
    Number,
    Parts,
    Rows,
    Table,
    Weights,
)
from feddep.federation.inspection import Expected
from feddep.federation.messages import Reply, Request
from feddep.federation.phase import Step

SHAPES = {"bias": (3,), "own": (2, 3)}
SCORES = {"val_correct": 1, "val_total": 2, "test_correct": 0, "test_total": 0}
COUNTS = dict.fromkeys(SCORES, Number.COUNT)
NUMBERS = {**COUNTS, "loss": Number.REAL, "training_nodes": Number.COUNT}
CLASSIFIER = {"classifier": Weights(SHAPES)}
PROTOTYPES = Rows(4, (3,))
GENERATOR = Parts(
    {
        "hidden": Exactly((2, 2)),
        "inputs": Rows(6, (2,)),
        "kept": Rows(6, (4,), "bool"),
    },
    aligned=("inputs", "kept"),
)
EXPECTED = Expected(
    phases={
        "averaging": {
            "train": Step(request=CLASSIFIER, reply=CLASSIFIER, numbers=NUMBERS),
            "score": Step(request=CLASSIFIER, numbers=COUNTS),
        },
        "prototype_exchange": {
            "release": Step(reply={"prototypes": PROTOTYPES}),
            "receive": Step(request={"foreign": ByPeer(PROTOTYPES, optional=True)}),
        },
        "neighbour_expansion": {
            "show": Step(request={"nodes": Nodes()}, reply={"features": Table(Count.ASKED, 5)}),
            "receive": Step(request={"added": Table(Count.NEIGHBOURS, 5, linked=True)}),
        },
        "true_neighbours": {
            "show": Step(request={"nodes": Nodes()}, reply={"embeddings": Rows(Count.ASKED, (3,))}),
            "receive": Step(
                request={"nodes": Nodes(repeated=True), "neighbours": Rows(Count.ASKED, (3,))}
            ),
        },
        "code_graph": {
            "show": Step(reply={"codes": Rows(Count.NODES, (3,))}),
            "receive": Step(request={"neighbours": Rows(Count.NODES, (3,), optional=True)}),
        },
        "peer_search": {
            "generate": Step(reply={"generated": Rows(Count.SOME_NODES, (4, 3))}),
            "compare": Step(
                request={"generated": ByPeer(Rows(Count.ALL_NODES, (4, 3)))},
                reply={"gradients": Gradients()},
            ),
        },
        "neighgen": {
            "share": Step(reply={"neighgen": GENERATOR}),
            "compare": Step(
                request={"neighgen": ByPeer(GENERATOR)},
                reply={"gradients": Gradients(of=("hidden",))},
            ),
            "train": Step(numbers={"generator_loss": Number.REAL}),
        },
        "local_gnn": {
            "train": Step(
                reply={"classifier": Weights({"bias": (3,)}, optional=True)},
                numbers={"training_nodes": Number.COUNT},
            )
        },
        "chat": {"say": Step(reply={"classifier": Weights(SHAPES, complete=False, optional=True)})},
    },
    largest_bytes=1000,
    largest_norm=10.0,
    nodes=7,
    all_nodes=9,
)


def floats(*shape, value=1.0):
    return np.full(shape, value, np.float32)


WEIGHTS = {"classifier/bias": floats(3), "classifier/own": floats(2, 3)}
TRAINED = {**SCORES, "loss": 0.5, "training_nodes": 4}
TRAIN = Request(2, "averaging", "train", 0, WEIGHTS)
RELEASE = Request(2, "prototype_exchange", "release", 0)
SHOW = Request(2, "neighbour_expansion", "show", 0, {"nodes": np.array([4, 0])})
COMPARE = Request(2, "peer_search", "compare", 0, {"generated/1": floats(2, 4, 3)})
GENERATED = {"hidden": floats(2, 2), "inputs": floats(5, 2), "kept": np.ones((5, 4), bool)}
PULL = Request(
    2, "neighgen", "compare", 0, {f"neighgen/1/{name}": array for name, array in GENERATED.items()}
)
SHARE = Request(2, "neighgen", "share", 0)
SHARED = {f"neighgen/{name}": array for name, array in GENERATED.items()}
SPARSE = {
    "features/indptr": np.array([0, 2, 3]),
    "features/indices": np.array([0, 4, 1], np.int32),
    "features/data": floats(3),
}
CHAT = Request(2, "chat", "say", 0)

HONEST = [
    (Reply(2, WEIGHTS, TRAINED), TRAIN),
    (Reply(2, {}, SCORES), replace(TRAIN, step="score")),
    (Reply(2, {"prototypes": floats(4, 3)}), RELEASE),
    (Reply(2, {"prototypes": floats(1, 3)}), RELEASE),
    (Reply(2, SPARSE), SHOW),
    (Reply(2, {"features/rows": floats(2, 5)}), SHOW),
    (Reply(2, {"gradients/1": floats(2, 4, 3)}, {}), COMPARE),
    (Reply(2, {"gradients/1/hidden": floats(2, 2)}), PULL),
    (Reply(2, SHARED), SHARE),
    (Reply(2, {}, {"generator_loss": 1.5}), replace(SHARE, step="train")),
    (
        Reply(2, {"classifier/bias": floats(3)}, {"training_nodes": 1}),
        Request(2, "local_gnn", "train", 0),
    ),
    (
        Reply(2, {"embeddings": floats(0, 3)}),
        Request(2, "true_neighbours", "show", 0, {"nodes": np.array([], int)}),
    ),
    (Reply(2), CHAT),
]


def but(arrays, **changes):
    """Arrays or numbers with some changed, or left out where the change is None."""
    changed = {**arrays, **{name.replace("__", "/"): value for name, value in changes.items()}}
    return {name: value for name, value in changed.items() if value is not None}


def added(**changes):
    table = {name.replace("features", "added"): array for name, array in SPARSE.items()}
    return but(table | {"added/links": np.array([[6, 0], [0, 1]])}, **changes)


ASKED = [
    TRAIN,
    RELEASE,
    SHOW,
    COMPARE,
    CHAT,
    Request(2, "prototype_exchange", "receive", 0, {"foreign/0": floats(4, 3)}),
    Request(2, "neighbour_expansion", "receive", 0, added()),
    Request(
        2, "true_neighbours", "receive", 0, {"nodes": np.array([6]), "neighbours": floats(1, 3)}
    ),
    Request(2, "code_graph", "receive", 0, {"neighbours": floats(7, 3)}),
    Request(2, "code_graph", "receive", 0),
]
