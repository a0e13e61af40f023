"""A silo's consent: read strictly, and everything beyond it is refused by name."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from envelopes import CONSENT, agreement_on
from pydantic import ValidationError

from feddep.algorithms import METHODS, find_method
from feddep.algorithms.method import Method
from feddep.deployment.protocol.consent import Consent
from feddep.deployment.protocol.planned import planned_price
from feddep.errors import ConsentError, FeddepError, InputError
from feddep.federation.content import ByPeer, Exactly, Parts, Rows
from feddep.federation.messages import Reply
from feddep.federation.phase import Step
from feddep.learning.spec import LearningSpec
from feddep.phases.averaging import Averaging
from feddep.privacy.accountant import NOTHING, Guarantee
from feddep.privacy.meaning import largest_delta
from feddep.scenario.build import learning_spec_for, learning_spec_of
from feddep.scenario.spec import RunSpec

TEXT = """\
# what we agreed to in March
methods = ["fedavg", "feddep"]
messages = [
    "classifier",
    "prototypes",
]
rounds = 50
smallest_cluster = 5
highest_epsilon = 2.5
"""
HOLDS = Guarantee(2.5, 0.0, "holds")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "consent.toml"


@pytest.fixture
def consent(file: Path) -> Consent:
    return written(file, TEXT)


def written(file: Path, text: str) -> Consent:
    file.write_text(text)
    return Consent.read(file)


def spec_of(method: str, **settings: object) -> RunSpec:
    keys = {name.replace("__", "."): value for name, value in settings.items()}
    return RunSpec(method=method).with_settings(keys)


def run_of(spec: RunSpec, method: Method) -> tuple[RunSpec, Method, LearningSpec]:
    return spec, method, learning_spec_of(spec, 4, 2, method)


def check(consent: Consent, method: str, sound: Guarantee = HOLDS, **settings: object) -> None:
    consent.check_run(*run_of(spec_of(method, **settings), find_method(method)), sound)


class TestReading:
    def test_all_keys(self, file):
        read = written(file, TEXT + 'numbers = ["loss"]\nreleases = 3\n')
        assert read.methods == {"fedavg", "feddep"}
        assert read.messages == {"classifier", "prototypes"}
        assert (read.rounds, read.smallest_cluster, read.highest_epsilon) == (50, 5, 2.5)
        assert (read.numbers, read.releases, read.most_releases) == ({"loss"}, 3, 3)

    def test_what_may_be_left_out(self, consent):
        assert (consent.numbers, consent.releases, consent.most_releases) == (None, None, 51)
        assert consent.highest_delta is None

    def test_a_whole_number_is_an_epsilon_too(self, file):
        assert written(file, TEXT.replace("2.5", "3")).highest_epsilon == 3

    def test_epsilon_may_be_unbounded(self, file):
        assert written(file, TEXT.replace("2.5", '"unbounded"')).highest_epsilon == "unbounded"

    def test_it_cannot_be_changed(self, consent):
        with pytest.raises(ValidationError, match="frozen"):
            consent.rounds = 100

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("rounds = 50", "rounds = '50'", r"line 7: rounds: expected a whole .* \(got '50'\)"),
            ("rounds = 50", "rounds = 50.0", r"rounds: expected .* \(got 50.0\)"),
            ("rounds = 50", "rounds = true", r"rounds: expected .* \(got True\)"),
            ("rounds = 50", "rounds = 0", r"rounds: expected a whole number from 1 \(got 0\)"),
            ("rounds = 50\n", "", "rounds is missing; expected a whole number"),
            ("= 5\n", "= -1\n", "line 8: smallest_cluster: expected"),
            ("2.5", '"endless"', "line 9: highest_epsilon: expected a number from 0, or"),
            ("2.5", "inf", "highest_epsilon: expected"),
            ("2.5", "nan", "highest_epsilon: expected"),
            ("2.5", "-1", "highest_epsilon: expected"),
            ("2.5", "true", "highest_epsilon: expected"),
            ("2.5", "2.5\nhighest_delta = 1", "line 10: highest_delta: expected a number from 0"),
            ("2.5", "2.5\nhighest_delta = nan", "highest_delta: expected"),
            ('["fedavg", "feddep"]', '"fedavg"', "line 2: methods: expected a list of methods"),
            ('["fedavg", "feddep"]', "[3]", "methods: expected"),
            ('["fedavg", "feddep"]', '[""]', "methods: expected"),
            ("rounds", "round", r"rounds is missing.*line 7: unknown key 'round'; known: methods"),
            ("rounds = 50", "[training]\nrounds = 50", "unknown key 'training'"),
            ("rounds = 50", "rounds = ", "is not TOML"),
            ("rounds = 50", "rounds = 50\nrounds = 60", "is not TOML"),
        ],
    )
    def test_anything_else_is_refused_by_key_and_line(self, file, old, new, message):
        assert old in TEXT
        with pytest.raises(InputError, match=message) as caught:
            written(file, TEXT.replace(old, new, 1))
        assert str(file) in str(caught.value)

    def test_a_file_that_is_not_there_is_named(self, file):
        with pytest.raises(InputError, match=r"cannot read the consent file .*No such file"):
            Consent.read(file)

    def test_a_file_that_is_no_text_is_named(self, file):
        file.write_bytes(b"\xff\xfe")
        with pytest.raises(InputError, match=r"consent.toml is not TOML"):
            Consent.read(file)


class TestRun:
    @pytest.mark.parametrize("method", ["fedavg", "feddep"])
    def test_what_is_allowed_passes_and_no_round_more(self, consent, method):
        check(consent, method, training__rounds=50)
        with pytest.raises(ConsentError, match="training takes 51 rounds"):
            check(consent, method, training__rounds=51)

    def test_every_violation_is_named_with_its_line(self, file):
        consent = written(file, TEXT.replace('"prototypes",', "").replace(', "feddep"', ""))
        with pytest.raises(ConsentError) as caught:
            check(consent, "feddep", NOTHING, training__rounds=51, embedding__smallest=4)
        assert str(caught.value).splitlines() == [
            "the silo does not consent to the run:",
            "- methods: the method is feddep, allowed: fedavg (line 2 of consent.toml)",
            "- messages: prototypes would leave the silo, allowed: classifier "
            "(line 3 of consent.toml)",
            "- rounds: training takes 51 rounds, allowed: at most 50 (line 7 of consent.toml)",
            "- smallest_cluster: a prototype may stand for 4 nodes (embedding.smallest), "
            "allowed: at least 5 (line 8 of consent.toml)",
            "- highest_epsilon: one edge costs a sound ε of any size (it has no bound), "
            "allowed: at most 2.5 (line 9 of consent.toml)",
        ]

    def test_a_refusal_does_not_tell_where_the_silo_keeps_its_files(self, consent, file):
        with pytest.raises(ConsentError) as caught:
            check(consent, "fedsage")
        assert str(file.parent) not in str(caught.value)

    def test_it_is_an_error_of_the_project(self):
        assert issubclass(ConsentError, FeddepError)

    @pytest.mark.parametrize(
        ("sound", "passes"),
        [
            (Guarantee(0.0, 0.0, "holds"), True),
            (Guarantee(2.5, 0.0, "holds"), True),
            (Guarantee(2.6, 0.0, "holds"), False),
            (Guarantee(float("nan"), 0.0, "holds"), False),
            (Guarantee(1.0, 0.9, "none"), False),
            (Guarantee(None, 0.0, "none"), False),
        ],
    )
    def test_the_sound_price_is_held_against_the_highest(self, file, consent, sound, passes):
        if passes:
            check(consent, "fedavg", sound)
        else:
            with pytest.raises(ConsentError, match="highest_epsilon: one edge costs"):
                check(consent, "fedavg", sound)
        check(written(file, TEXT.replace("2.5", '"unbounded"')), "fedavg", sound)

    def test_clusters_matter_only_where_prototypes_leave(self, consent):
        check(consent, "fedavg", embedding__smallest=1)
        with pytest.raises(ConsentError, match="smallest_cluster"):
            check(consent, "feddep", embedding__smallest=4)

    def test_a_silo_smaller_than_a_cluster_releases_no_prototype(self, consent):
        spec, method = spec_of("feddep"), find_method("feddep")
        consent.check_run(*run_of(spec, method), HOLDS, nodes=5)
        with pytest.raises(ConsentError, match="only prototype would stand for its 4 nodes"):
            consent.check_run(*run_of(spec, method), HOLDS, nodes=4)
        consent.check_run(*run_of(spec_of("fedavg"), find_method("fedavg")), HOLDS, nodes=4)

    def test_numbers_are_the_methods_unless_the_file_lists_them(self, file, consent):
        check(consent, "fedavg")
        strict = written(file, TEXT + 'numbers = ["loss"]\n')
        with pytest.raises(ConsentError, match=r"numbers .*training_nodes.* allowed: loss \(line"):
            check(strict, "fedavg")

    def test_no_number_at_all_may_leave(self, file):
        with pytest.raises(ConsentError, match="allowed: none"):
            check(written(file, TEXT + "numbers = []\n"), "fedavg")

    def test_a_consent_made_in_code_names_the_key(self):
        made = Consent(
            methods=frozenset({"fedavg"}),
            messages=frozenset(),
            rounds=50,
            smallest_cluster=5,
            highest_epsilon="unbounded",
        )
        with pytest.raises(ConsentError, match=r"\(the key messages of the consent file\)"):
            check(made, "fedavg")


class TestForeignCode:
    ADDRESS = "some.module:METHOD"

    def test_it_is_refused_unless_named(self, consent):
        method = replace(METHODS["fedavg"], name=self.ADDRESS)
        with pytest.raises(ConsentError, match=f"the method is {self.ADDRESS}, allowed: fedavg"):
            consent.check_run(*run_of(RunSpec(method=self.ADDRESS), method), HOLDS)

    def test_it_cannot_hide_behind_an_allowed_name(self, consent):
        method = METHODS["fedavg"]
        with pytest.raises(ConsentError, match=self.ADDRESS):
            consent.check_run(*run_of(RunSpec(method=self.ADDRESS), method), HOLDS)
        with pytest.raises(ConsentError, match=self.ADDRESS):
            consent.check_run(*run_of(spec_of("fedavg"), replace(method, name=self.ADDRESS)), HOLDS)

    @pytest.mark.parametrize("listed", ["some.module:*", "some.module", "*"])
    def test_no_pattern_stands_for_it(self, file, listed):
        with pytest.raises(ConsentError):
            written(file, TEXT.replace('"feddep"', f'"{listed}"')).check_method(self.ADDRESS)

    def test_named_literally_it_passes_and_its_neighbour_does_not(self, file):
        consent = written(file, TEXT.replace('"feddep"', f'"{self.ADDRESS}"'))
        consent.check_method(self.ADDRESS)
        with pytest.raises(ConsentError, match=f"the method is {self.ADDRESS}_2"):
            consent.check_method(f"{self.ADDRESS}_2")
        method = replace(METHODS["fedavg"], name=self.ADDRESS)
        consent.check_run(*run_of(RunSpec(method=self.ADDRESS), method), HOLDS)

    def test_it_can_be_refused_before_it_is_imported(self, consent):
        with pytest.raises(ConsentError, match=r"line 2 of consent.toml"):
            consent.check_method("no.such.module:METHOD")


def reply(*names: str, **numbers: float) -> Reply:
    return Reply(0, {name: np.ones(2) for name in names}, numbers)


class TestReply:
    def test_what_is_allowed_passes(self, file, consent):
        both = reply("classifier/bias", "prototypes", loss=1.0)
        consent.check_reply("averaging", both, {})
        consent.check_reply("averaging", reply(), {})
        narrower = written(file, TEXT.replace('"prototypes",', ""))
        with pytest.raises(ConsentError, match="messages: prototypes would leave the silo"):
            narrower.check_reply("averaging", both, {})

    @pytest.mark.parametrize("name", ["features", "features/classifier", "classifiers/bias"])
    def test_a_group_that_is_not_listed_is_refused(self, consent, name):
        with pytest.raises(ConsentError, match=r"in averaging:\n- messages: .*\(line 3 of"):
            consent.check_reply("averaging", reply("classifier/bias", name), {})

    def test_a_number_that_is_not_listed_is_refused(self, file):
        consent = written(file, TEXT + 'numbers = ["loss"]\n')
        consent.check_reply("averaging", reply(loss=1.0), {})
        with pytest.raises(ConsentError, match="the numbers degree would leave"):
            consent.check_reply("averaging", reply(loss=1.0, degree=3.0), {})

    def test_a_group_leaves_only_so_often(self, file):
        consent = written(file, TEXT + "releases = 2\n")
        consent.check_reply("averaging", reply("classifier/bias"), {"classifier": 1})
        consent.check_reply("averaging", reply("classifier/bias"), {"prototypes": 2})
        with pytest.raises(ConsentError, match=r"has left 2 times .* at most 2 times \(line 10 of"):
            consent.check_reply("averaging", reply("classifier/bias"), {"classifier": 2})

    def test_one_more_than_rounds_unless_the_file_says_otherwise(self, consent):
        consent.check_reply("averaging", reply("classifier/bias"), {"classifier": 50})
        with pytest.raises(ConsentError, match=r"at most 51 times \(add the line 'releases = …'"):
            consent.check_reply("averaging", reply("classifier/bias"), {"classifier": 51})

    def test_scores_cannot_be_asked_for_without_end(self, consent):
        consent.check_reply("averaging", reply(loss=1.0), {"numbers/averaging": 50})
        consent.check_reply("averaging", reply(loss=1.0), {"numbers/local_gnn": 51})
        with pytest.raises(ConsentError, match="numbers/averaging has left"):
            consent.check_reply("averaging", reply(loss=1.0), {"numbers/averaging": 51})

    def test_everything_that_may_not_leave_is_named(self, consent):
        with pytest.raises(ConsentError, match=r"features, labels(.|\n)*- releases: classifier"):
            names = ("features", "labels/0", "classifier/bias")
            consent.check_reply("averaging", reply(*names), {"classifier": 51})


class TestDelta:
    RUN = run_of(spec_of("fedavg"), METHODS["fedavg"])

    def test_one_that_is_too_large_for_the_silo_is_named_with_what_to_set(self, consent):
        too_large = Guarantee(None, 1e-5, "none")
        with pytest.raises(ConsentError) as caught:
            consent.check_run(*self.RUN, too_large, nodes=542)
        assert (
            "one edge costs a sound ε of any size (δ is 1e-05, too large for 542 nodes; set "
            "privacy.delta to 6.8e-07 or less), allowed: at most 2.5" in str(caught.value)
        )

    def test_the_owner_may_be_stricter(self, file):
        strict = written(file, TEXT + "highest_delta = 1e-7\n")
        strict.check_run(*self.RUN, HOLDS, nodes=542)
        strict.check_run(*self.RUN, Guarantee(2.5, 1e-7, "holds"), nodes=542)
        with pytest.raises(ConsentError, match=r"highest_delta: .* δ of 2e-07, allowed: .* 1e-07"):
            strict.check_run(*self.RUN, Guarantee(2.5, 2e-7, "holds"), nodes=542)

    @pytest.mark.parametrize("delta", [1.0, float("nan")])
    def test_it_is_a_bound_of_its_own(self, file, delta):
        text = TEXT.replace("2.5", '"unbounded"') + "highest_delta = 1e-7\n"
        with pytest.raises(ConsentError, match="highest_delta"):
            written(file, text).check_run(*self.RUN, Guarantee(None, delta, "none"), nodes=542)


class TestPlannedPrice:
    def price(self, graph, method: str, **settings: object) -> Guarantee:
        spec, found = spec_of(method, **settings), find_method(method)
        learning: LearningSpec = learning_spec_for(spec, graph, found)
        return planned_price(spec, found, learning, graph)

    @pytest.mark.parametrize("method", ["fedavg", "feddep", "local"])
    def test_without_a_mechanism_before_everything_nothing_is_promised(self, small_graph, method):
        assert self.price(small_graph, method) == NOTHING

    @pytest.mark.parametrize("method", ["fedavg", "feddep"])
    def test_randomised_response_bounds_all_that_follows(self, small_graph, method):
        privacy = {"privacy__mechanism": "randomised-response", "privacy__epsilon": 2.0}
        assert self.price(small_graph, method, **privacy) == Guarantee(2.0, 0.0, "holds")

    def test_an_epsilon_beyond_meaning_is_none(self, small_graph):
        privacy = {"privacy__mechanism": "randomised-response", "privacy__epsilon": 21.0}
        assert self.price(small_graph, "fedavg", **privacy).epsilon is None

    def test_it_does_not_depend_on_the_edges(self, small_graph):
        """The server is told, and could find out about them by asking."""
        noised = {"privacy__mechanism": "dp-sgd", "privacy__occurrences": 1, "privacy__noise": 99.0}
        graphs = (small_graph, small_graph.with_edges([]))
        most = largest_delta(small_graph.nodes)
        for delta, verdict in ((1.01 * most, "none"), (0.99 * most, "holds")):
            one, other = (self.price(g, "fedavg", **noised, privacy__delta=delta) for g in graphs)
            assert one == other
            assert one.verdict == verdict

    def test_a_server_that_chooses_delta_gets_no_promise_for_it(self, small_graph):
        two = small_graph.subgraph([0, 1])
        noised = {"privacy__mechanism": "dp-sgd", "privacy__occurrences": 1, "privacy__noise": 99.0}
        for delta, verdict in ((0.9, "none"), (2e-5, "none"), (1e-5, "holds")):
            found = self.price(two, "fedavg", **noised, privacy__delta=delta)
            assert (found.delta, found.verdict) == (delta, verdict)

    def test_one_shot_samples_may_show_any_edge(self, small_graph):
        for graph in (small_graph, small_graph.with_edges([])):
            assert self.price(graph, "fedavg", privacy__mechanism="one-shot") == NOTHING

    def test_who_sends_nothing_pays_nothing(self, small_graph, small_spec):
        silent = replace(METHODS["fedavg"], phases=())
        found = planned_price(RunSpec(), silent, small_spec, small_graph)
        assert found == Guarantee(0.0, 0.0, "holds")


def test_cluster_means_count_wherever_they_stand_in_a_reply(consent):
    means = Rows(3, (2,), means_of=2)

    @dataclass(frozen=True)
    class Tells(Averaging):
        def steps(self, spec):
            told = {"prototypes": ByPeer(Parts({"means": means, "rest": Exactly((2,))}))}
            return {"tell": Step(reply=told)}

    method = replace(METHODS["fedavg"], phases=(Tells(),))
    with pytest.raises(ConsentError, match="a prototype may stand for 2 nodes"):
        consent.check_run(*run_of(spec_of("fedavg"), method), HOLDS)


def test_what_noised_updates_leave_bare_is_named(graph):
    strict = CONSENT.model_copy(update={"highest_epsilon": 4.0})
    noised = {"training.update_clip": 0.1, "training.update_noise": 60.0}
    for settings, named in ((noised, True), ({}, False)):
        asked = agreement_on(graph, **settings)
        sound = planned_price(asked.spec, asked.method, asked.learning, graph)
        with pytest.raises(ConsentError) as raised:
            strict.check_run(asked.spec, asked.method, asked.learning, sound)
        told = "update_noise covers the weights alone, and loss, test_correct, test_total" in str(
            raised.value
        )
        assert told is named
