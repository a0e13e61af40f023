"""What is refused when it crosses, and what is wrong with it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from declared import (
    ASKED,
    CHAT,
    COMPARE,
    EXPECTED,
    HONEST,
    PULL,
    RELEASE,
    SHARE,
    SHARED,
    SHOW,
    SPARSE,
    TRAIN,
    TRAINED,
    WEIGHTS,
    added,
    but,
    floats,
)

from feddep.federation.content import Seen, Weights
from feddep.federation.inspection import (
    InspectionError,
    inspect_reply,
    inspect_request,
    inspect_result,
    without_long_gradients,
)
from feddep.federation.messages import Reply, Request

HUGE = pytest.param(10**5000, id="huge")  # Python refuses to write it out


@pytest.mark.parametrize(("reply", "request_"), HONEST)
def test_honest_replies_pass_and_no_number_more(reply, request_):
    inspect_reply(reply, request_, EXPECTED)
    more = replace(reply, metrics={**reply.metrics, "degree": 1})
    refused(more, request_, "the number 'degree' is not declared")


def refused(reply, request, match, expected=EXPECTED):
    with pytest.raises(InspectionError, match=match) as caught:
        inspect_reply(reply, request, expected)
    text = str(caught.value)
    assert text.startswith(f"client 2, phase '{request.phase}', step '{request.step}': ")
    assert len(text) < 300


class TestWhoAndWhat:
    @pytest.mark.parametrize("client", [1, -1, True, 2.0, "2", None, HUGE])
    def test_another_client_s_number(self, client):
        refused(Reply(client, WEIGHTS, TRAINED), TRAIN, "signed by client")

    def test_a_phase_that_is_not_part_of_the_run(self):
        refused(Reply(2), Request(2, "gossip", "x", 0), "not part of the run")

    @pytest.mark.parametrize("name", ["labels", "labels/1", "classifiers/bias", "", "/"])
    def test_an_array_that_is_not_declared(self, name):
        refused(Reply(2, {**WEIGHTS, name: floats(1)}, TRAINED), TRAIN, "is not declared")

    @pytest.mark.parametrize("name", ["degree", "generator_loss", 3, ("loss",)])
    def test_a_number_that_is_not_declared(self, name):
        refused(Reply(2, WEIGHTS, {**TRAINED, name: 1}), TRAIN, "is not declared")

    def test_an_array_without_a_name(self):
        refused(Reply(2, {3: floats(1)}), CHAT, "named 3")

    @pytest.mark.parametrize("value", [None, [1.0], 3.0, "text", b"bytes"])
    def test_what_is_no_array(self, value):
        refused(Reply(2, {"prototypes": value}), RELEASE, "is no array")

    def test_no_mapping_at_all(self):
        refused(Reply(2, [floats(1)]), CHAT, "named arrays")
        refused(Reply(2, {}, [1.0]), CHAT, "named numbers")


class TestContent:
    @pytest.mark.parametrize(
        "dtype", [object, "S3", "U3", "M8[s]", np.complex64, np.float16, np.longdouble, ">f4"]
    )
    def test_types_that_may_not_travel(self, dtype):
        array = np.zeros((1, 3), dtype)
        refused(Reply(2, {"prototypes": array}), RELEASE, "may not travel")

    def test_a_structured_type_may_not_travel(self):
        array = np.zeros(3, [("a", np.float32)])
        refused(Reply(2, {"prototypes": array}), RELEASE, "may not travel")

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_a_single_number_that_is_not_finite(self, value):
        array = floats(4, 3)
        array[3, 2] = value
        refused(Reply(2, {"prototypes": array}), RELEASE, "prototypes' .* not finite")

    def test_too_many_bytes(self):
        refused(Reply(2, {"prototypes": floats(251)}), RELEASE, "1004 bytes where 1000 are")


class TestWeights:
    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"classifier__own": None}, "classifier/own is missing"),
            ({"classifier__own": floats(3, 2)}, r"shape \(3, 2\) where \(2, 3\) belongs"),
            ({"classifier__own": floats(6)}, r"shape \(6,\)"),
            ({"classifier__own": floats()}, r"shape \(\)"),
            ({"classifier__extra": floats(1)}, "'classifier/extra' is not a part"),
            ({"classifier": floats(1)}, "'classifier' is not a part"),
            ({"classifier__bias": np.zeros(3)}, "float64 where float32 belongs"),
            ({"classifier__bias": np.zeros(3, np.int8)}, "int8 where float32 belongs"),
            ({"classifier__bias": None, "classifier__own": None}, "classifier is missing"),
        ],
    )
    def test_a_classifier_is_complete_and_fits(self, changes, match):
        refused(Reply(2, but(WEIGHTS, **changes), TRAINED), TRAIN, match)

    def test_a_phase_may_have_parts_of_its_own(self):
        local = Request(2, "local_gnn", "train", 0)
        numbers = {"training_nodes": 1}
        refused(Reply(2, WEIGHTS, numbers), local, "classifier/own' is not a part")
        inspect_reply(Reply(2, {}, numbers), local, EXPECTED)

    def test_where_a_step_does_not_need_all_a_part_may_come(self):
        some = {"classifier/bias": floats(3)}
        inspect_reply(Reply(2, some), CHAT, EXPECTED)
        refused(Reply(2, some, TRAINED), TRAIN, "classifier/own is missing")

    def test_the_norm_is_that_of_the_change(self):
        sent = replace(TRAIN, arrays={name: 1000 * a for name, a in WEIGHTS.items()})
        near = {name: 1003 * a for name, a in WEIGHTS.items()}  # 9 numbers that differ by 3
        far = {name: 1004 * a for name, a in WEIGHTS.items()}
        inspect_reply(Reply(2, near, TRAINED), sent, EXPECTED)
        refused(Reply(2, far, TRAINED), sent, "classifier is 12 away .* where 10 is allowed")
        inspect_reply(Reply(2, far, TRAINED), sent, replace(EXPECTED, largest_norm=None))

    def test_a_norm_that_overflows_is_too_large(self):
        seen = Seen(largest_norm=10.0)  # single precision cannot: its squares fit in double
        wild = {"w/bias": np.full(3, 1e308)}
        assert list(Weights({"bias": (3,)}).problems("w", wild, seen))[-1].startswith("w is inf")


class TestRows:
    @pytest.mark.parametrize("shape", [(5, 3), (4, 2), (0, 3), (3,), (), (1, 4, 3)])
    def test_so_many_prototypes_of_such_a_width(self, shape):
        refused(Reply(2, {"prototypes": floats(*shape)}), RELEASE, r"\(1 to 4, 3\) belongs")

    @pytest.mark.parametrize("dtype", [np.float64, np.int64, bool])
    def test_of_single_precision(self, dtype):
        refused(Reply(2, {"prototypes": np.ones((2, 3), dtype)}), RELEASE, "where float32")

    def test_a_part_does_not_stand_for_the_whole(self):
        refused(Reply(2, {"prototypes/1": floats(2, 3)}), RELEASE, "is not a part of prototypes")

    def test_a_row_that_is_too_long(self):
        array = floats(4, 3)
        array[2] = 6
        refused(Reply(2, {"prototypes": array}), RELEASE, "row of norm 10.4 where 10 is allowed")

    def test_one_for_each_node_that_was_asked_for(self):
        show = Request(2, "true_neighbours", "show", 0, {"nodes": np.arange(3)})
        inspect_reply(Reply(2, {"embeddings": floats(3, 3)}), show, EXPECTED)
        refused(Reply(2, {"embeddings": floats(2, 3)}), show, r"\(3, 3\) belongs")
        refused(Reply(2, {"embeddings": floats()}), show, r"\(3, 3\) belongs")

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"neighgen__kept": None}, "neighgen/kept is missing"),
            ({"neighgen__kept": floats(5, 4)}, "float32 where bool belongs"),
            ({"neighgen__inputs": floats(7, 2)}, r"\(1 to 6, 2\) belongs"),
            ({"neighgen__inputs": floats(0, 2)}, r"\(1 to 6, 2\) belongs"),
            ({"neighgen__kept": np.ones((4, 4), bool)}, "inputs, neighgen/kept differ in their"),
        ],
    )
    def test_a_group_may_have_weights_and_rows(self, changes, match):
        refused(Reply(2, but(SHARED, **changes)), SHARE, match)


class TestGradients:
    @pytest.mark.parametrize(
        ("request_", "arrays", "match"),
        [
            (COMPARE, {"gradients/1": floats(2, 4, 2)}, "where those of what was sent belong"),
            (COMPARE, {"gradients/1": np.ones((2, 4, 3))}, "where those of what was sent belong"),
            (COMPARE, {"gradients/2": floats(2, 4, 3)}, "answers nothing that was sent"),
            (COMPARE, {"gradients": floats(2, 4, 3)}, "answers nothing that was sent"),
            (PULL, {"gradients/2/hidden": floats(2, 2)}, "answers nothing that was sent"),
            (PULL, {"gradients/1/rows": floats(2, 2)}, "answers nothing that was sent"),
            (PULL, {"gradients/1/inputs": floats(5, 2)}, "is no gradient of a weight"),
        ],
    )
    def test_they_answer_what_was_sent(self, request_, arrays, match):
        refused(Reply(2, arrays), request_, match)

    def test_those_that_are_too_long_are_taken_out_and_nobody_is_blamed(self):
        """A third party can make them so, by what it sends to be compared with."""
        request = replace(COMPARE, arrays=COMPARE.arrays | {"generated/0": floats(2, 4, 3)})
        short = {"gradients/0": floats(2, 4, 3)}
        long = Reply(2, short | {"gradients/1": floats(2, 4, 3, value=9)})
        inspect_reply(long, request, EXPECTED)
        assert without_long_gradients(long, request, EXPECTED).arrays.keys() == short.keys()
        for largest in (16.0, None):
            wide = replace(EXPECTED, largest_norm=largest)
            assert without_long_gradients(long, request, wide) is long

    def test_unlike_what_a_step_needs_they_may_be_left_out(self):
        inspect_reply(Reply(2), COMPARE, EXPECTED)
        refused(Reply(2), RELEASE, "prototypes is missing")


class TestTables:
    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"features__data": None}, "neither a dense nor a sparse"),
            ({"features__more": floats(1)}, "neither a dense nor a sparse"),
            ({"features__indptr": np.array([1, 2, 3])}, "is no table"),
            ({"features__indptr": np.array([0, 3, 2])}, "is no table"),
            ({"features__indptr": np.array([0, 2, 4])}, "is no table"),
            ({"features__indptr": np.array([], int)}, "is no table"),
            ({"features__indptr": np.array(0)}, "is no table"),
            ({"features__indptr": np.array([[0, 2, 3]])}, "is no table"),
            ({"features__indptr": floats(3, value=0)}, "is no table"),
            ({"features__indices": np.array([0, 5, 1])}, "is no table"),
            ({"features__indices": np.array([0, -1, 1])}, "is no table"),
            ({"features__indices": floats(3)}, "is no table"),
            ({"features__data": floats(2)}, "is no table"),
            ({"features__data": np.ones(3)}, "is no table"),
            ({"features__indptr": np.array([0, 2, 3, 3])}, "3 nodes, but 2 were asked for"),
            ({"features__data": floats(3, value=11)}, "norm 11"),
        ],
    )
    def test_a_sparse_one_must_be_one(self, changes, match):
        refused(Reply(2, but(SPARSE, **changes)), SHOW, match)

    @pytest.mark.parametrize("rows", [floats(2, 4), floats(2), floats(), np.ones((2, 5))])
    def test_a_dense_one_has_the_columns_of_the_run(self, rows):
        refused(Reply(2, {"features/rows": rows}), SHOW, "no table of float32 with 5 columns")

    def test_it_has_as_many_nodes_as_were_asked_for(self):
        refused(Reply(2, {"features/rows": floats(3, 5)}), SHOW, "3 nodes, but 2 were asked for")
        refused(Reply(2, {"features/rows": floats(10, 5)}), SHOW, "10 nodes, but 2 were asked for")

    def test_an_array_is_none(self):
        refused(Reply(2, {"features": floats(2, 5)}), SHOW, "neither a dense nor a sparse")


class TestNumbers:
    @pytest.mark.parametrize("value", [None, "1", True, 1j, np.float32(1), [1], np.ones(1)])
    def test_they_are_plain(self, value):
        refused(Reply(2, WEIGHTS, but(TRAINED) | {"loss": value}), TRAIN, "loss is no number")

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400, 1e200])
    def test_they_are_finite(self, value):
        refused(Reply(2, WEIGHTS, but(TRAINED, loss=value)), TRAIN, "loss is .* not finite")

    def test_without_training_nodes_there_may_be_no_loss(self):
        nothing = {"loss": float("nan"), "training_nodes": 0}
        inspect_reply(Reply(2, WEIGHTS, TRAINED | nothing), TRAIN, EXPECTED)
        inspect_reply(Reply(2, WEIGHTS, TRAINED | nothing | {"loss": 0.0}), TRAIN, EXPECTED)
        endless = TRAINED | nothing | {"loss": float("inf")}
        refused(Reply(2, WEIGHTS, endless), TRAIN, "loss is inf")

    @pytest.mark.parametrize("value", [-1, 0.5, 2**60, -0.5])
    @pytest.mark.parametrize("name", ["training_nodes", "val_total", "test_correct"])
    def test_counts_are_whole_and_not_negative(self, name, value):
        refused(Reply(2, WEIGHTS, but(TRAINED, **{name: value})), TRAIN, f"{name} is .* no count")

    @pytest.mark.parametrize("name", ["training_nodes", "val_total", "test_total"])
    def test_a_client_counts_no_more_nodes_than_it_has(self, name):
        inspect_reply(Reply(2, WEIGHTS, but(TRAINED, **{name: 7})), TRAIN, EXPECTED)
        more = Reply(2, WEIGHTS, but(TRAINED, **{name: 8.0}))
        refused(more, TRAIN, f"{name} is 8.0, but the client has 7 nodes")
        inspect_reply(more, TRAIN, replace(EXPECTED, nodes=None))
        most = Reply(2, WEIGHTS, but(TRAINED, **{name: 10.0}))
        refused(most, TRAIN, "has 9 nodes", replace(EXPECTED, nodes=None))

    def test_no_more_are_correct_than_there_are(self):
        numbers = but(TRAINED, val_correct=3)
        refused(Reply(2, WEIGHTS, numbers), TRAIN, "3 of 2 val are correct")

    @pytest.mark.parametrize("name", TRAINED)
    def test_none_is_missing_that_is_needed(self, name):
        refused(Reply(2, WEIGHTS, but(TRAINED, **{name: None})), TRAIN, f"{name} is missing")


def own(size):
    weights = np.zeros((2, 3), np.float32)
    weights[1, 2] = size
    return but(WEIGHTS, classifier__own=weights)


class TestRequests:
    @pytest.mark.parametrize("asked", ASKED)
    def test_honest_ones_pass_and_not_in_a_round_that_is_none(self, asked):
        inspect_request(asked, EXPECTED)
        with pytest.raises(InspectionError, match="round is -1"):
            inspect_request(replace(asked, round=-1), EXPECTED)

    @pytest.mark.parametrize(
        ("asked", "changes", "match"),
        [
            (TRAIN, {"phase": "gossip"}, "not part of the run"),
            (TRAIN, {"phase": ["averaging"]}, "not part of the run"),
            (TRAIN, {"step": 3}, "declares no such step"),
            (TRAIN, {"client": -1}, "client is -1"),
            (TRAIN, {"client": "2"}, "client is '2'"),
            (TRAIN, {"round": 0.5}, "round is 0.5"),
            (TRAIN, {"round": -1}, "round is -1"),
            (TRAIN, {"arrays": {}}, "classifier is missing"),
            (TRAIN, {"arrays": None}, "expected named arrays"),
            (TRAIN, {"arrays": but(WEIGHTS, classifier__own=None)}, "classifier/own is missing"),
            (TRAIN, {"arrays": but(WEIGHTS, classifier__own=floats(3))}, "where .2, 3. belongs"),
            (TRAIN, {"arrays": but(WEIGHTS, classifier__own=np.ones((2, 3)))}, "float32 belongs"),
            (TRAIN, {"arrays": but(WEIGHTS, x=np.array([None]))}, "may not travel"),
            (TRAIN, {"arrays": but(WEIGHTS, x=floats(1, value=np.nan))}, "not finite"),
            (TRAIN, {"arrays": but(WEIGHTS, x=floats(999))}, "bytes where 1000"),
            (SHOW, {"arrays": {}}, "nodes is missing"),
            (SHOW, {"arrays": {"nodes": np.array([7])}}, "nodes does not list"),
            (SHOW, {"arrays": {"nodes": np.array([-1])}}, "nodes does not list"),
            (SHOW, {"arrays": {"nodes": np.array([2, 1, 2])}}, "nodes lists a node twice"),
            (SHOW, {"arrays": {"nodes": np.array([[1]])}}, "nodes does not list"),
            (SHOW, {"arrays": {"nodes": floats(1)}}, "nodes does not list"),
            (ASKED[5], {"arrays": {"foreign/0": floats(5, 3)}}, "foreign/0' has the shape"),
            (ASKED[6], {"arrays": {}}, "added is missing"),
            (ASKED[6], {"arrays": added(added__links=np.array([[7, 0]]))}, "links does not lead"),
            (ASKED[6], {"arrays": added(added__links=np.array([[0, 2]]))}, "links does not lead"),
            (ASKED[6], {"arrays": added(added__links=np.array([0, 1]))}, "links does not lead"),
            (ASKED[6], {"arrays": added(added__data=None)}, "neither a dense nor a sparse"),
            (
                ASKED[7],
                {"arrays": {"nodes": np.array([6, 6]), "neighbours": floats(1, 3)}},
                r"\(2, 3\) belongs",
            ),
            (ASKED[8], {"arrays": {"neighbours": floats(6, 3)}}, r"\(7, 3\) belongs"),
        ],
    )
    def test_others_are_refused(self, asked, changes, match):
        with pytest.raises(InspectionError, match=match) as caught:
            inspect_request(replace(asked, **changes), EXPECTED)
        assert str(caught.value).startswith("the server's request to client ")

    def test_weights_no_training_would_make_are_refused_with_the_numbers(self):
        """The bound depends on nothing that the client has, so a refusal tells nothing."""
        for size, sign in itertools.product((1.0, 1e6), (1, -1)):
            inspect_request(replace(TRAIN, arrays=own(sign * size)), EXPECTED)
        for size in (1.1e6, -1.1e6, 3e38):
            with pytest.raises(InspectionError, match="diverged") as caught:
                inspect_request(replace(TRAIN, arrays=own(size)), EXPECTED)
            assert f"classifier/own holds a weight of size {abs(size):.3g} where 1e+06 is" in str(
                caught.value
            )

    def test_a_server_that_knows_no_number_of_nodes_is_not_held_to_it(self):
        far = replace(SHOW, arrays={"nodes": np.array([10**6])})
        inspect_request(far, replace(EXPECTED, nodes=None))
        with pytest.raises(InspectionError, match="nodes does not list nodes of this client"):
            inspect_request(far, EXPECTED)


def test_what_the_server_gives_away_at_the_end_is_looked_at_too():
    allowed = {"classifier": Weights({"bias": (3,), "own": (2, 3)}, optional=True)}
    inspect_result(WEIGHTS, allowed, EXPECTED)
    inspect_result({}, allowed, EXPECTED)
    for arrays, match in [
        ({"labels": floats(1)}, "'labels' is not declared"),
        (but(WEIGHTS, classifier__own=None), "classifier/own is missing"),
        (but(WEIGHTS, classifier__own=floats(2, 3, value=np.inf)), "not finite"),
    ]:
        with pytest.raises(InspectionError, match=f"the server's result: .*{match}"):
            inspect_result(arrays, allowed, EXPECTED)
