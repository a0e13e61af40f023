"""Rounds in which somebody is missing: every phase goes on with those who are there."""

from dataclasses import replace

import numpy as np
import pytest

from feddep.algorithms import METHODS, find_method
from feddep.errors import RuntimeFailureError
from feddep.federation.aggregation import AggregationSpec, aggregate, weighted_mean
from feddep.federation.messages import group
from feddep.federation.metering import Meter
from feddep.graph.graph import Part
from feddep.learning.mending import mean_of
from small_runs import carry_out, pool_of

STEPS = {
    "local": ["local_training/train"],
    "fedavg": ["averaging/train", "averaging/score"],
    "fedsage": [
        "local_gnn/train",
        "neighgen/share",
        "neighgen/compare",
        "neighgen/train",
        "neighgen/train and generate",
        "averaging/train",
    ],
    "fedgnn": ["neighbour_expansion/show", "neighbour_expansion/receive", "averaging/train"],
    "fedgraph": ["averaging/show", "averaging/receive", "averaging/train"],
    "fedgsl": ["local_gnn/train", "code_graph/show", "code_graph/receive", "averaging/train"],
    "feddep-wo-proto": [
        "local_gnn/train",
        "peer_search/generate",
        "peer_search/compare",
        "peer_search/train",
        "averaging/train",
    ],
    "feddep": [
        "local_gnn/train",
        "prototype_exchange/release",
        "prototype_exchange/receive",
        "generator_training/train",
        "averaging/train",
    ],
    "oracle": [
        "local_gnn/train",
        "true_neighbours/show",
        "true_neighbours/receive",
        "averaging/train",
    ],
    "feddep-linked": [
        "link_matching/claim",
        "link_matching/match",
        "averaging/answer",
        "averaging/hear",
        "averaging/train",
    ],
    "linked-features": [
        "link_matching/claim",
        "link_matching/match",
        "linked_neighbours/show",
        "linked_neighbours/receive",
        "averaging/train",
    ],
}
CASES = [(method, step) for method, steps in STEPS.items() for step in steps]

# What a client can do later, and comes to the same: nobody waits for its answer.
CAUGHT_UP = [
    ("fedsage", "local_gnn/train"),
    ("fedgsl", "local_gnn/train"),
    ("feddep-wo-proto", "local_gnn/train"),
    ("feddep", "local_gnn/train"),
    ("feddep", "generator_training/train"),
    ("oracle", "local_gnn/train"),
]


NEVER_AGAIN = {"generator.refresh": 100}
"""Neighbours are not refreshed later, so nobody who was away catches up."""


class Run:
    """A whole run in this process, in which some clients are away at one step of one round.

    Args:
        shards: the clients' data.
        method: by name.
        step: ``phase/step`` at which they are away; None is an undisturbed run.
        away: who.
        asleep: they are not even reached; else they do their part and the reply is lost.
        round: of the phase.
        settings: further keys of the spec.
    """

    def __init__(
        self, shards, method, step=None, *, away=(0,), asleep=True, round=0, settings=None
    ):
        self.pool = pool_of(find_method(method), shards, **(settings or {}))
        self.gap, self.asleep = (step, round, set(away)), asleep
        self.said, self.reports = [], []
        self.meter = Meter(self)
        self.end = carry_out(
            self.pool,
            shards,
            self.meter,
            lambda phase, report, progress: self.reports.append(report),
        )

    def exchange(self, requests):
        step, round, away = self.gap
        first = requests[0]
        gone = away if (f"{first.phase}/{first.step}", first.round) == (step, round) else set()
        asked = [r for r in requests if not (self.asleep and r.client in gone)]
        replies = [reply for reply in self.pool.handle(asked) if reply.client not in gone]
        self.said.append((first.phase, first.step, first.round, requests, replies))
        return replies

    def of(self, phase, step, round=0):
        """The requests of one exchange, and the replies that came."""
        (found,) = [said[3:] for said in self.said if said[:3] == (phase, step, round)]
        return found

    @property
    def weights(self):
        """The server's classifier, or all the clients' own."""
        server = group(self.end.state, "classifier")
        own = [group(state, "classifier") for state in self.pool.states.values()]
        return [server] if server else own


def round_of(step):
    """The first round in which there is such a step."""
    later = {
        "neighgen/train and generate": 1,
        "averaging/answer": 1,
        "averaging/hear": 1,
        "averaging/score": 2,
    }
    return later.get(step, 0)


def same(one, other):
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)
        for a, b in zip(one, other, strict=True)
    )


@pytest.fixture(scope="module")
def undisturbed(small_shards):
    """Runs by method in which everybody is there."""
    known = {}

    def run(method):
        if method not in known:
            known[method] = Run(small_shards, method)
        return known[method]

    return run


@pytest.fixture(scope="module")
def only_first_trains(small_shards):
    """The other clients have no training nodes."""
    graph, split = small_shards.graph, small_shards.graph.split.copy()
    split[(small_shards.owner > 0) & (split == Part.TRAIN)] = Part.NONE
    return replace(small_shards, graph=graph.with_split(split))


def test_the_cases_are_all_steps_of_all_phases(undisturbed):
    for method, steps in STEPS.items():
        said = {f"{phase}/{step}" for phase, step, *_ in undisturbed(method).said}
        assert set(steps) | {"averaging/score"} == said | {"averaging/score"}
    phases = {phase.name for method in METHODS.values() for phase in method.phases}
    assert phases == {step.partition("/")[0] for _, step in CASES}


@pytest.mark.parametrize("asleep", [True, False], ids=["not reached", "reply lost"])
@pytest.mark.parametrize(("method", "step"), CASES)
def test_the_run_ends_well(small_shards, undisturbed, method, step, asleep):
    round = round_of(step)
    found = Run(small_shards, method, step, asleep=asleep, round=round)
    requests, replies = found.of(*step.split("/"), round)
    assert [request.client for request in requests] == [0, 1, 2]
    assert [reply.client for reply in replies] == [1, 2]
    for weights in found.weights:
        assert weights
        assert all(np.isfinite(array).all() for array in weights.values())
    for report in filter(None, found.reports):
        assert all(np.isfinite(value) for value in report.metrics.values())
    whole = [said[:3] for said in undisturbed(method).said]
    assert [said[:3] for said in found.said] == whole  # as many steps, and everybody is asked
    assert all(len(said[3]) == 3 for said in found.said)


@pytest.mark.parametrize("method", STEPS)
def test_with_one_client_left_the_run_ends_well_too(small_shards, method):
    for step in STEPS[method]:
        found = Run(small_shards, method, step, away=(0, 2), asleep=False, round=round_of(step))
        for weights in found.weights:
            assert all(np.isfinite(array).all() for array in weights.values())


@pytest.mark.parametrize(("method", "step"), CAUGHT_UP)
def test_a_client_that_was_away_does_its_own_part_later(small_shards, undisturbed, method, step):
    found = Run(small_shards, method, step)
    assert same(found.weights, undisturbed(method).weights)


@pytest.mark.parametrize(("method", "step"), CASES)
def test_if_nobody_answers_the_run_ends_with_a_word(small_shards, method, step):
    with pytest.raises(RuntimeFailureError, match="none of 3 clients answered"):
        Run(small_shards, method, step, away=(0, 1, 2), round=round_of(step))


def test_bytes_up_are_those_that_came(small_shards, undisturbed):
    whole = undisturbed("fedavg").meter.counts()["averaging"]
    found = Run(small_shards, "fedavg", "averaging/train").meter.counts()["averaging"]
    size = sum(array.nbytes for array in undisturbed("fedavg").weights[0].values())
    assert whole["down_bytes"] == found["down_bytes"]
    assert whole["up_bytes"] - found["up_bytes"] == size


class TestAveraging:
    def test_the_mean_is_over_those_who_answered(self, small_shards):
        found = Run(small_shards, "fedavg", "averaging/train")
        _, replies = found.of("averaging", "train")
        nodes = [len(small_shards[c].members(Part.TRAIN)) for c in (1, 2)]
        mean = weighted_mean([group(reply.arrays, "classifier") for reply in replies], nodes)
        assert same([found.reports[1].classifier], [mean])

    def test_it_cannot_go_on_without_those_who_train(self, only_first_trains):
        Run(only_first_trains, "fedavg", "averaging/train", away=(1, 2))
        with pytest.raises(RuntimeFailureError, match="nothing to average; without an answer: 0"):
            Run(only_first_trains, "fedavg", "averaging/train", away=(0,))

    @pytest.mark.parametrize("rule", ["median", "trimmed-mean"])
    def test_the_rule_is_that_of_the_spec(self, small_shards, rule):
        spec = AggregationSpec(rule=rule, clip=0.1)
        keys = {"aggregation.rule": rule, "aggregation.clip": 0.1}
        found = Run(small_shards, "fedavg", settings=keys)
        requests, replies = found.of("averaging", "train")
        sent = group(requests[0].arrays, "classifier")
        arrays = [group(reply.arrays, "classifier") for reply in replies]
        expected = aggregate(arrays, [1, 1, 1], spec, sent)
        assert same([found.reports[1].classifier], [expected])
        assert not same([expected], [aggregate(arrays, [1, 1, 1], AggregationSpec())])


WARM = {"embedding.warm_start": True}


class TestWarmStart:
    def start(self, run):
        requests, _ = run.of("averaging", "train")
        return group(requests[0].arrays, "classifier")

    def test_it_is_averaged_over_those_who_answered(self, small_shards):
        found = Run(small_shards, "feddep", "local_gnn/train", settings=WARM)
        _, replies = found.of("local_gnn", "train")
        nodes = [reply.metrics["training_nodes"] for reply in replies]
        mean = weighted_mean([group(reply.arrays, "classifier") for reply in replies], nodes)
        start = self.start(found)
        assert mean
        assert all(np.array_equal(start[name], mean[name]) for name in mean)

    def test_it_follows_the_rule_of_the_spec(self, small_shards):
        keys = {**WARM, "aggregation.rule": "median"}
        found = Run(small_shards, "feddep", settings=keys)
        sent = [group(r.arrays, "classifier") for r in found.of("local_gnn", "train")[1]]
        middle = np.median([arrays["features"] for arrays in sent], axis=0)
        assert np.array_equal(self.start(found)["features"], middle.astype(np.float32))

    def test_without_anybody_who_trained_it_is_cold(self, only_first_trains, undisturbed):
        found = Run(only_first_trains, "feddep", "local_gnn/train", settings=WARM)
        assert same([self.start(found)], [self.start(undisturbed("feddep"))])


class TestWhatIsLeftOut:
    def test_prototypes_of_the_missing(self, small_shards):
        found = Run(small_shards, "feddep", "prototype_exchange/release")
        requests, _ = found.of("prototype_exchange", "receive")
        told = [set(request.arrays) for request in requests]
        assert told == [{"foreign/1", "foreign/2"}, {"foreign/2"}, {"foreign/1"}]

    def test_pulls_on_and_of_the_missing(self, small_shards):
        unseen = Run(small_shards, "feddep-wo-proto", "peer_search/generate")
        requests, _ = unseen.of("peer_search", "compare")
        told = [set(request.arrays) for request in requests]
        assert told == [{"generated/1", "generated/2"}, {"generated/2"}, {"generated/1"}]
        nothing, *rest = (request.arrays for request in unseen.of("peer_search", "train")[0])
        assert nothing == {}
        assert [int(arrays["pulls"]) for arrays in rest] == [2, 2]

        silent = Run(small_shards, "feddep-wo-proto", "peer_search/compare")
        trained = [request.arrays for request in silent.of("peer_search", "train")[0]]
        assert [int(arrays["pulls"]) for arrays in trained] == [2, 1, 1]
        _, replies = silent.of("peer_search", "compare")
        assert np.array_equal(trained[1]["gradients"], replies[1].arrays["gradients/1"])

    def test_gradients_on_and_of_the_missing(self, small_shards):
        unseen = Run(small_shards, "fedsage", "neighgen/share")
        requests, _ = unseen.of("neighgen", "compare")
        told = [{name.split("/")[1] for name in request.arrays} for request in requests]
        assert told == [{"1", "2"}, {"2"}, {"1"}]
        assert unseen.of("neighgen", "train")[0][0].arrays == {}

        silent = Run(small_shards, "fedsage", "neighgen/compare")
        _, replies = silent.of("neighgen", "compare")
        alone = group(group(replies[1].arrays, "gradients"), "1")
        found = group(silent.of("neighgen", "train")[0][1].arrays, "gradients")
        assert same([found], [alone])

    def test_codes_of_the_missing(self, small_shards):
        found = Run(small_shards, "fedgsl", "code_graph/show")
        requests, _ = found.of("code_graph", "receive")
        assert [set(request.arrays) for request in requests] == [set(), *[{"neighbours"}] * 2]
        assert len(requests[1].arrays["neighbours"]) == small_shards[1].nodes
        assert "missing_embeddings" not in found.pool.states[0]

    @pytest.mark.parametrize(
        ("method", "phase", "group_name"),
        [("oracle", "true_neighbours", "embeddings"), ("fedgraph", "averaging", "hidden")],
    )
    def test_neighbours_at_the_missing(self, small_shards, method, phase, group_name):
        found = Run(small_shards, method, f"{phase}/show", settings=NEVER_AGAIN)
        shown = {r.client: r.arrays[group_name] for r in found.of(phase, "show")[1]}
        asked = [request.arrays["nodes"] for request in found.of(phase, "show")[0]]
        crossings = small_shards.crossings()
        for client, request in enumerate(found.of(phase, "receive")[0]):
            rows = crossings[client][crossings[client][:, 1] != 0]
            assert request.arrays["nodes"].tolist() == rows[:, 0].tolist()
            for row, (_, other, node) in zip(request.arrays["neighbours"], rows, strict=True):
                assert np.array_equal(row, shown[other][asked[other].tolist().index(node)])
        state, own = found.pool.states[2], found.of(phase, "receive")[0][2].arrays
        silo = found.pool.clients[2].silo
        assert np.array_equal(
            state["missing_embeddings"], mean_of(own["nodes"], own["neighbours"], silo)
        )

    def test_new_nodes_at_the_missing(self, small_shards):
        found = Run(small_shards, "fedgnn", "neighbour_expansion/show")
        crossings = small_shards.crossings()
        for client, request in enumerate(found.of("neighbour_expansion", "receive")[0]):
            rows = crossings[client][crossings[client][:, 1] != 0]
            added = group(request.arrays, "added")
            assert added["links"][:, 0].tolist() == rows[:, 0].tolist()
            features = small_shards.graph.features
            ids = [small_shards[other].node_ids[node] for _, other, node in rows]
            places = [small_shards.graph.node_ids.tolist().index(i) for i in ids]
            for (_, new), place in zip(added["links"], places, strict=True):
                entries = slice(*added["indptr"][new : new + 2])
                expected = features[[place]]
                assert added["indices"][entries].tolist() == expected.indices.tolist()
                assert added["data"][entries].tolist() == expected.data.tolist()


class TestThoseWhoWereAway:
    @pytest.mark.parametrize(
        ("method", "step"),
        [("oracle", "true_neighbours/receive"), ("fedgraph", "averaging/receive")],
    )
    def test_know_no_neighbours_and_learn_with_none(self, small_shards, method, step):
        found = Run(small_shards, method, step, settings=NEVER_AGAIN)
        assert "missing_embeddings" not in found.pool.states[0]
        assert "missing_embeddings" in found.pool.states[1]
        last = [said for said in found.said if said[:2] == ("averaging", "train")][-1]
        assert [reply.client for reply in last[4]] == [0, 1, 2]
        assert not same(found.weights, Run(small_shards, method, settings=NEVER_AGAIN).weights)

    def test_have_no_new_nodes(self, small_shards):
        found = Run(small_shards, "fedgnn", "neighbour_expansion/receive")
        assert "added/links" not in found.pool.states[0]
        assert "added/links" in found.pool.states[1]
