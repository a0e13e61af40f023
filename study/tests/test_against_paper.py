"""Our scores beside the paper's, on a paper of three numbers."""

import pytest

from feddep.errors import DataError
from feddep_study.against_paper import Paper, beside_paper, reached

PAPER = Paper(
    {"cora": {"feddep": {"3": [0.8894, 0.016], "5": [0.8883, 0.011]}, "fedavg": {"5": [0.8, 0.02]}}}
)
FACTS = {"dataset": "cora", "clients": 5, "preset": "paper", "split": "quota"}


def run(score, method="feddep", seed=0, settings=None, **facts):
    record = FACTS | {"method": method, "scores": {"global": {"test": score}}} | facts
    return {"method": method, "seed": seed} | (settings or {}), record


def lines(*rows):
    return beside_paper(rows, PAPER).markdown().splitlines()[2:]


def test_a_line_has_ours_the_paper_s_the_difference_and_the_verdict():
    assert beside_paper([run(0.88), run(0.90, seed=1)], PAPER).markdown().splitlines() == [
        "| dataset | clients | method | preset | split | ours | paper | difference in points "
        "| at least paper − sd, by | seeds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        "| cora | 5 | feddep | paper | quota | 0.8900 ± 0.014 | 0.8883 ± 0.011 | +0.17 "
        "| yes, +1.27 | 2 |",
    ]


@pytest.mark.parametrize(
    ("score", "verdict"),
    [
        (0.8773, "yes, +0.00"),  # 0.8883 - 0.011
        (0.8772, "no, −0.01"),
        (0.87728, "yes, +0.00"),  # as four digits show it
        (0.87724, "no, −0.01"),
        (0.75, "no, −12.73"),
        (0.95, "yes, +7.27"),
    ],
)
def test_ours_counts_from_the_paper_s_mean_less_one_deviation(score, verdict):
    assert f"| {verdict} |" in lines(run(score))[0]


def test_what_the_paper_compares_is_never_pooled():
    rows = [
        run(0.8),
        run(0.8, clients=3),
        run(0.8, method="fedavg"),
        run(0.8, preset="tuned"),
        run(0.8, split="stratified"),
    ]
    found = [line.split(" | ") for line in lines(*rows)]
    assert [row[1:5] for row in found] == [
        ["5", "feddep", "paper", "quota"],
        ["3", "feddep", "paper", "quota"],
        ["5", "fedavg", "paper", "quota"],
        ["5", "feddep", "tuned", "quota"],
        ["5", "feddep", "paper", "stratified"],
    ]
    assert [row[6] for row in found][:3] == ["0.8883 ± 0.011", "0.8894 ± 0.016", "0.8000 ± 0.020"]


def test_another_setting_that_the_sweep_varies_has_its_own_column():
    rows = [run(0.8, settings={"training.rounds": rounds}) for rounds in (50, 200)]
    assert "| split | rounds | ours |" in beside_paper(rows, PAPER).markdown()
    assert [line.split(" | ")[5] for line in lines(*rows)] == ["50", "200"]


@pytest.mark.parametrize(
    "facts", [{"dataset": "synthetic"}, {"clients": 4}, {"method": "oracle"}], ids=str
)
def test_what_the_paper_does_not_have_is_a_dash(facts):
    assert "| 0.8000 | – | – | – | 1 |" in lines(run(0.8, **facts))[0]


def test_settings_that_reach_the_paper_less_one_deviation_are_counted_by_method():
    rows = [
        run(0.87),
        run(0.89, seed=1),  # with 5 clients 0.8800 on the mean, at least 0.8773
        run(0.87, clients=3),  # less than 0.8734, by 0.34 points
        run(0.79, method="fedavg"),
        run(0.79, preset="tuned"),
        run(0.85, preset="tuned", clients=3),
        run(0.8, dataset="synthetic"),
    ]
    assert reached(rows, PAPER).rows == [
        ("feddep", "paper", "quota", "1 of 2", "0.34"),
        ("fedavg", "paper", "quota", "1 of 1", "–"),
        ("feddep", "tuned", "quota", "0 of 2", "2.34 to 8.73"),
    ]


def test_without_runs_only_the_head_remains():
    assert lines() == []


@pytest.mark.parametrize("content", [None, "[accuracy", "[clusters]"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    file = tmp_path / "paper.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(DataError, match=r"paper's numbers from .*paper\.toml"):
        Paper.read(file)
