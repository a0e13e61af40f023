"""`feddep privacy`: (ε, δ) of a mechanism, and of a finished run."""

from pathlib import Path

import pytest

from calls import RUN, Feddep, record
from feddep.scenario.spec import RunSpec

RESPONSE = ["--epsilon", "2"]


@pytest.mark.parametrize("flag", ["--mechanism", "--privacy"])
@pytest.mark.parametrize("name", ["randomised-response", "randomized-response"])
def test_both_flags_and_both_spellings_are_one_mechanism(feddep: Feddep, flag: str, name: str):
    found = feddep("privacy", flag, name, *RESPONSE, "--json").json
    assert found["mechanism"] == "randomised-response"
    assert found["sound"] == {"epsilon": 2.0, "delta": 0.0, "verdict": "holds"}
    assert feddep(*RUN, flag, name, *RESPONSE, "--out", "run").code == 0
    assert record("run")["privacy"]["mechanism"] == "randomised-response"
    assert RunSpec.read(Path("run/spec.toml")).privacy.mechanism == "randomised-response"


def test_another_spelling_resumes_the_same_run(feddep: Feddep):
    setting = "privacy.mechanism=randomi{}ed-response"
    feddep(*RUN, "--set", setting.format("z"), *RESPONSE, "--out", "run")
    again = feddep(*RUN, "--set", setting.format("s"), *RESPONSE, "--out", "run", "--resume")
    assert again.code == 0


def test_a_table_and_a_statement(feddep: Feddep):
    outcome = feddep("privacy", "--mechanism", "randomised-response", *RESPONSE)
    assert outcome.code == 0
    assert "holds" in outcome.out
    assert "e^2" in outcome.out
    assert "simulation" not in outcome.out
    for row in ("per_step", "paper", "composed"):
        assert row not in outcome.out
    assert outcome.err == ""


def test_of_a_silo_s_size_and_a_method(feddep: Feddep):
    about = ["--mechanism", "randomised-response", "--epsilon", "4", "--method", "fedavg"]
    outcome = feddep("privacy", *about, "--nodes", "542", "--edges", "945")
    said = " ".join(outcome.out.split())
    assert "of 100 links that an observer could name, about 26 are real (guessing: 0.6)." in said
    assert "(classifier, numbers)" in said


def test_of_a_run_it_says_what_the_record_says(feddep: Feddep):
    feddep(*RUN, "--mechanism", "randomised-response", *RESPONSE, "--out", "run")
    assert feddep("privacy", "run", "--json").json == record("run")["privacy"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--mechanism", "laplace"], ["'laplace'", "randomised-response"]),
        (["--mechanism", "randomised-response"], ["needs ε", "--epsilon"]),
        (["--delta", "2"], ["delta", "(got 2.0)"]),
        (["--fanout", "0"], ["fanout", "(got 0)"]),
        (["--epsilon", "2"], ["privacy.epsilon", "nfdp", "aggregation-perturbation or dp-sgd"]),
        (["--mechanism", "dp-sgd", "--keep-edge", "0.5"], ["privacy.keep_edge", "dp-sgd does not"]),
        (["--mechanism", "one-shot", "--occurrences", "1"], ["privacy.occurrences", "one-shot"]),
        (["--method", "fedmagic"], ["fedmagic"]),
        (["--nodes", "10", "--edges", "46"], ["45 pairs", "(got 46)"]),
        (["nowhere"], ["nowhere"]),
    ],
)
def test_what_has_no_answer_is_an_error(feddep: Feddep, arguments: list[str], named: list[str]):
    outcome = feddep("privacy", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.count("\n") == 1
    for word in named:
        assert word in outcome.err
