"""NeighGen: generators out, gradients back, every epoch; in the last one nodes are added."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agreement import assert_agree
from feddep.algorithms import find_method
from feddep.federation.client import Client
from feddep.federation.messages import group
from feddep.federation.metering import Meter
from feddep.federation.run_phases import Progress, run_phases
from feddep.graph.shard import Shards
from feddep.learning.generation import GeneratorTraining
from feddep.learning.neighgen import HEAD, NeighGen, descend, pull
from feddep.learning.prototypes import EmbeddingSpec, Prototypes
from feddep.learning.silo import Silo
from feddep.models.generator import GeneratorSpec
from feddep.models.weights import to_arrays
from feddep.phases import neighgen as neighgen_phase

METHOD = find_method("fedsage")
PHASES = METHOD.phases[:2]
COLUMNS, HIDDEN, SLOTS, BATCH, EPOCHS = 60, 8, 2, 10, 2


class Direct:
    """Clients that answer in this process; keeps what was said, and who knew what when."""

    def __init__(self, graphs, learning):
        self.silos = [Silo(i, g, learning, torch.device("cpu")) for i, g in enumerate(graphs)]
        self.nodes = [Client(silo, PHASES, silo.spec) for silo in self.silos]
        self.states, self.said, self.known = [{} for _ in self.silos], [], []

    def exchange(self, requests):
        replies = []
        for request in requests:
            node = self.nodes[request.client]
            reply, state = node.handle(request, self.states[request.client])
            self.states[request.client] = state
            self.said.append((request, reply))
            self.known.append(state)
            replies.append(reply)
        return replies

    def of(self, step, round=0):
        """Requests and replies of one step, in the clients' order."""
        wanted = ("neighgen", step, round)
        return [(q, a) for q, a in self.said if (q.phase, q.step, q.round) == wanted]


class Run:
    """A conversation from its start to its end."""

    def __init__(self, graphs, learning, epochs=EPOCHS):
        spec = GeneratorSpec(slots=SLOTS, keep=1.0, epochs=epochs, batch_size=BATCH)
        self.spec = replace(learning, embedding=EmbeddingSpec(depth=0), generator=spec)
        self.clients = Direct(graphs, self.spec)
        self.meter, self.after = Meter(self.clients), []
        run_phases(
            PHASES,
            self.spec,
            len(self.clients.silos),
            self.meter,
            Progress(),
            lambda phase, report, progress: self.after.append(list(self.clients.states)),
        )


@pytest.fixture(scope="module")
def run(small_shards, small_spec):
    return Run(small_shards, small_spec)


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


class TestMessages:
    def test_a_peer_gets_what_all_others_shared_and_nothing_of_its_own(self, run):
        shared = [group(reply.arrays, "neighgen") for _, reply in run.clients.of("share")]
        for request, _ in run.clients.of("compare"):
            others = {0, 1, 2} - {request.client}
            assert {name.split("/")[1] for name in request.arrays} == set(map(str, others))
            for other in others:
                assert same(group(request.arrays, f"neighgen/{other}"), shared[other])

    def test_a_peer_returns_the_pull_of_its_own_nodes_on_each_generator(self, run):
        for request, reply in run.clients.of("compare", 1):
            found = group(reply.arrays, "gradients")
            for other in {0, 1, 2} - {request.client}:
                sent = group(request.arrays, f"neighgen/{other}")
                features = run.clients.silos[request.client].graph.features
                assert same(group(found, str(other)), pull(sent, features))

    def test_a_client_gets_the_mean_of_the_others_gradients(self, run):
        found = [group(reply.arrays, "gradients") for _, reply in run.clients.of("compare")]
        for request, _ in run.clients.of("train"):
            one, two = (
                group(found[other], str(request.client))
                for other in range(3)
                if other != request.client
            )
            total = group(request.arrays, "gradients")
            assert total.keys() == set(HEAD)
            for name in HEAD:
                scale = np.abs(one[name]) + np.abs(two[name])
                assert_agree(total[name], (one[name] + two[name]) / 2, terms=3, scale=scale)

    def test_nothing_of_the_encoder_leaves_the_silo(self, run):
        allowed = {f"neighgen/{name}" for name in (*HEAD, "inputs", "kept")}
        allowed |= {f"gradients/{client}/{name}" for client in range(3) for name in HEAD}
        assert {name for _, reply in run.clients.said for name in reply.arrays} == allowed
        sent = {a.tobytes() for _, reply in run.clients.said for a in reply.arrays.values()}
        weights = {
            name: array.tobytes()
            for state in run.clients.known
            for name, array in group(state, "generator").items()
            if name.startswith(("encoder", "degree")) and array.any()
        }
        assert len(weights) >= 8
        assert not sent & set(weights.values())

    def test_bytes_by_hand(self, run):
        head = 4 * (HIDDEN * HIDDEN + HIDDEN + HIDDEN * SLOTS * COLUMNS + SLOTS * COLUMNS)
        shared = head + 4 * BATCH * HIDDEN + BATCH * SLOTS  # inputs, and a byte for each row
        assert run.meter.counts() == {
            "local_gnn": {"up_bytes": 0, "down_bytes": 0},
            "neighgen": {
                # Its own generator, and a gradient for each of two others.
                "up_bytes": EPOCHS * 3 * (shared + 2 * head),
                # Two others' generators, and the sum of the gradients for its own.
                "down_bytes": EPOCHS * 3 * (2 * shared + head),
            },
        }

    def test_losses_are_told_as_plain_numbers(self, run):
        for _, reply in run.clients.of("train") + run.clients.of("train and generate", 1):
            assert reply.metrics.keys() == {"generator_loss"}
            assert np.isfinite(reply.metrics["generator_loss"])


class TestMemory:
    def test_nodes_are_added_in_the_last_round_only(self, run):
        local, first, last = run.after
        assert not any("added/links" in state for state in local + first)
        for state, silo in zip(last, run.clients.silos, strict=True):
            links = state["added/links"]
            assert len(links) > 0
            assert links[:, 1].tolist() == list(range(len(links)))
            assert (links[:, 0] < silo.graph.nodes).all()

    def test_the_generator_goes_on_from_where_it_was(self, run):
        for client, (_, reply) in enumerate(run.clients.of("share", 1)):
            known = group(run.after[1][client], "generator")
            shared = group(reply.arrays, "neighgen")
            assert all(np.array_equal(shared[name], known[name]) for name in HEAD)

    def test_an_epoch_is_a_step_along_the_pulls_and_one_over_the_own_impaired_graph(self, run):
        clients, spec = run.clients, run.spec.generator
        for request, _ in clients.of("train"):
            silo = clients.silos[request.client]
            rows = silo.graph.features.toarray()
            training = GeneratorTraining(silo, Prototypes(rows, np.arange(len(rows))))
            generator, classifier = training.generator(), silo.classifier()
            model = NeighGen(training, generator, classifier)
            seeds = silo.seeds.child("neighgen", 0)
            model.train(seeds.child("local"), EPOCHS)
            descend(generator, group(request.arrays, "gradients"), spec)
            model.train(seeds, 1)
            found = run.after[1][request.client]
            assert same(group(found, "generator"), to_arrays(generator))
            assert same(group(found, "neighgen_classifier"), to_arrays(classifier))

    def test_new_nodes_of_a_sparse_graph_are_sparse(self, run):
        for state, silo in zip(run.after[-1], run.clients.silos, strict=True):
            added = group(state, "added")
            assert added.keys() == {"links", "indptr", "indices", "data"}
            own = silo.graph.features
            entries = round(own.nnz / own.shape[0])
            assert set(np.diff(added["indptr"]).tolist()) == {entries}

    def test_neither_dense_features_nor_the_classifier_are_kept_when_all_is_done(self, run):
        for state, silo in zip(run.after[-1], run.clients.silos, strict=True):
            assert not {"embeddings", "prototypes", "cluster"} & state.keys()
            assert not group(state, "neighgen_classifier")
            assert silo.prepared == {}


def test_pulls_reach_the_generator(small_shards, small_spec, run):
    """The same clients without each other train to other weights."""
    alone = Run([small_shards[0]], small_spec)
    with_others, without = (group(found.after[1][0], "generator")["rows"] for found in (run, alone))
    assert np.abs(with_others - without).max() > 1e-3 * np.abs(without).max()  # no rounding


def test_a_client_alone_generates_from_its_own_graph(small_shards, small_spec):
    alone = Run([small_shards[0]], small_spec)
    assert [request.arrays for request, _ in alone.clients.of("compare")] == [{}]
    assert len(alone.after[-1][0]["added/links"]) > 0


def test_without_epochs_nodes_are_added_all_the_same(small_shards: Shards, small_spec):
    found = Run(small_shards, small_spec, epochs=0)
    assert all("added/links" in state for state in found.after[-1])


@pytest.mark.parametrize(("room", "exchanges"), [(1, 3), (30_000, 2), (1 << 30, 1)])
def test_many_generators_are_compared_a_few_at_a_time(
    small_shards, small_spec, run, monkeypatch, room, exchanges
):
    """One takes about 3 · 4.9 kB of gradients; the outcome is the same, and so are the bytes."""
    monkeypatch.setattr(neighgen_phase, "_ROOM", room)
    found = Run(small_shards, small_spec)
    assert len(found.clients.of("compare")) == 3 * exchanges
    assert all(same(a, b) for a, b in zip(found.after[-1], run.after[-1], strict=True))
    assert found.meter.counts() == run.meter.counts()
