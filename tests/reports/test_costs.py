"""The cost table: bytes worked out by hand."""

import copy

import pytest

import feddep
from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.reports.costs import costs_json, costs_markdown, costs_of, methods_to_run
from feddep.reports.formatting import SEES_CROSS_EDGES

# 60 features and 3 classes, see small_graph.
M, R, D_X, H, D_Z, P, E_G, BATCH = 2, 2, 60, 4, 3, 5, 2, 10
FEDAVG_WEIGHTS = (D_X * H + H) + (2 * H * H + H) + (2 * H * 3 + 3)
FEDDEP_WEIGHTS = FEDAVG_WEIGHTS + D_Z * (H + H + 3)
SETTINGS = {
    "model.hidden": H,
    "embedding.width": D_Z,
    "embedding.epochs": 1,
    "embedding.clusters": 1,  # so no client can release fewer
    "generator.epochs": E_G,
    "generator.batch_size": BATCH,
}


@pytest.fixture(scope="module")
def records(small_graph):
    """A tiny run of each of several methods."""
    shards = feddep.partition(small_graph, clients=M, seed=0)
    names = ("fedavg", "fedsage", "feddep-wo-proto", "feddep", "fedgnn", "fedgraph")
    return {
        name: feddep.run(name, shards, rounds=R, settings=SETTINGS, workers=1).record
        for name in names
    }


@pytest.fixture(scope="module")
def costs(records):
    return {cost.method: cost for cost in costs_of(list(records.values()))}


def test_fedavg_sends_the_classifier_and_nothing_else(costs):
    cost, copies = costs["fedavg"], 4 * M * FEDAVG_WEIGHTS
    assert (cost.once_bytes, cost.epoch_bytes, cost.generator_epochs) == (0, 0, 0)
    assert cost.round_bytes == 2 * copies
    assert cost.up_bytes == R * copies
    assert cost.down_bytes == (R + 1) * copies
    assert (cost.extra_bytes, cost.times_reference) == (0, 1)


def test_feddep_sends_prototypes_once_and_a_wider_classifier(costs):
    cost, copies = costs["feddep"], 4 * M * FEDDEP_WEIGHTS
    up, down = 4 * M * D_Z, 4 * M * (M - 1) * D_Z
    assert cost.once_bytes == up + down
    assert (cost.epoch_bytes, cost.generator_epochs) == (0, 0)
    assert cost.round_bytes == 2 * copies
    assert cost.up_bytes == R * copies + up
    assert cost.down_bytes == (R + 1) * copies + down
    wider = 4 * M * (2 * R + 1) * (FEDDEP_WEIGHTS - FEDAVG_WEIGHTS)
    assert cost.extra_bytes == up + down + wider


def test_without_prototypes_rows_go_out_and_gradients_come_back(costs):
    cost, rows = costs["feddep-wo-proto"], 60 * P * D_Z
    number_of_pulls = 8 * M
    assert cost.epoch_bytes == 4 * 2 * M * rows + number_of_pulls
    assert (cost.once_bytes, cost.generator_epochs) == (0, E_G)


def test_fedsage_sends_the_generator_to_everyone_and_gets_gradients_back(costs):
    theta = H * H + H + (H + 1) * P * D_X
    batch = BATCH * (4 * H + P)  # encodings, and a byte for each row that counts
    assert costs["fedsage"].epoch_bytes == 2 * M**2 * 4 * theta + M**2 * batch


def test_the_page_has_a_line_for_each_run_and_says_how_to_read_it(records):
    lines = costs_markdown(list(records.values())).splitlines()
    assert lines[0] == "# Costs: synthetic, 2 clients, 2 rounds, seed 0"
    assert lines[2].startswith("| method | sent once |")
    assert sum(line.startswith("| fed") for line in lines) == len(records)
    assert any(line.startswith(f"| fedgnn{SEES_CROSS_EDGES} | ") for line in lines)
    assert "- Seconds are those of the clock, with however many workers there were." in lines


def test_what_goes_out_every_few_rounds_is_part_of_a_round(costs):
    assert costs["fedgraph"].once_bytes == 0
    assert costs["fedgraph"].round_bytes > costs["fedavg"].round_bytes
    assert costs["fedgnn"].round_bytes == costs["fedavg"].round_bytes
    assert costs["fedgnn"].extra_bytes == costs["fedgnn"].once_bytes > 0


def test_seconds_are_those_of_the_record(records, costs):
    for name, cost in costs.items():
        assert cost.seconds == records[name]["seconds"]["total"]
        assert cost.seconds_before + R * cost.seconds_round == pytest.approx(cost.seconds)
        ratio = cost.seconds / costs["fedavg"].seconds
        assert cost.times_reference == pytest.approx(ratio)
    assert costs["fedavg"].seconds_before == 0 < costs["feddep"].seconds_before


def test_without_fedavg_there_is_nothing_to_compare_with(records):
    (cost,) = costs_of([records["feddep"]])
    assert (cost.extra_bytes, cost.times_reference) == (None, None)
    assert "| feddep | 48 B | – |" in costs_markdown([records["feddep"]])


def test_the_same_numbers_come_as_plain_data(records, costs):
    rows = costs_json(list(records.values()))
    assert [row["method"] for row in rows] == list(records)
    assert rows[3]["once_bytes"] == costs["feddep"].once_bytes


def test_by_default_all_methods_that_send_anything_are_run_fedavg_first():
    names = methods_to_run()
    assert names[0] == "fedavg"
    assert set(names) == METHODS.keys() - {"local", "global"}
    assert methods_to_run(["feddep", "fedavg"]) == ["fedavg", "feddep"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("global", "global sends nothing"), ("local", "choose among fed"), ("fedx", "unknown method")],
)
def test_a_method_without_messages_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        methods_to_run(["feddep", name])


class TestRunsThatDoNotBelongTogether:
    @pytest.mark.parametrize(("key", "value"), [("clients", 5), ("dataset", "cora"), ("rounds", 9)])
    def test_another_scenario(self, records, key, value):
        other = copy.deepcopy(records["feddep"]) | {key: value}
        with pytest.raises(InputError, match=f"{key} .* of fedavg and {value} of feddep"):
            costs_of([records["fedavg"], other])

    def test_the_same_method_twice(self, records):
        with pytest.raises(InputError, match="two of fedavg"):
            costs_of([records["fedavg"], records["fedavg"]])

    def test_a_run_that_sent_nothing(self, records):
        silent = records["fedavg"] | {
            "method": "local",
            "traffic": {"up_bytes": 0, "down_bytes": 0, "phases": {}},
        }
        with pytest.raises(InputError, match="local sent nothing"):
            costs_of([records["fedavg"], silent])

    def test_a_run_from_before_sizes_were_recorded(self, records):
        old = {key: value for key, value in records["feddep"].items() if key != "data"}
        with pytest.raises(InputError, match="older version"):
            costs_of([old])
