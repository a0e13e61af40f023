from feddep.reports.summary import spread, summary_table


def run(method, seed, score, rounds=50):
    record = {
        "scores": {
            "global": {"test": score},
            "silo": {"test": score + 0.01, "val": score + 0.02},
        }
    }
    return {"method": method, "seed": seed, "training.rounds": rounds}, record


def test_seeds_are_pooled_and_constant_settings_left_out():
    rows = [run("local", 0, 0.4), run("local", 1, 0.6), run("fedavg", 0, 0.8)]
    assert summary_table(rows).splitlines() == [
        "| method | global test | silo test | silo val | seeds |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| local | 0.5000 ± 0.141 | 0.5100 ± 0.141 | 0.5200 ± 0.141 | 2 |",
        "| fedavg | 0.8000 | 0.8100 | 0.8200 | 1 |",
    ]


def test_a_setting_that_only_some_runs_have_is_a_dash_elsewhere():
    deep = {"method": "feddep", "seed": 0, "embedding.depth": 2}
    rows = [run("fedavg", 0, 0.4), (deep, run("feddep", 0, 0.6)[1])]
    found = [line.split(" | ")[:3] for line in summary_table(rows).splitlines()]
    assert found[0] == ["| method", "rounds", "depth"]
    assert found[2:] == [["| fedavg", "50", "–"], ["| feddep", "–", "2"]]


def test_without_runs_only_the_head_remains():
    assert len(summary_table([]).splitlines()) == 2


def test_data_without_validation_nodes_have_no_score_there():
    settings, record = run("fedavg", 0, 0.8)
    record["scores"]["silo"]["val"] = None
    assert summary_table([(settings, record)]).splitlines()[2] == "| 0.8000 | 0.8100 | – | 1 |"


def test_spread_is_the_sample_standard_deviation():
    assert spread([0.1, 0.2, 0.3]) == "0.2000 ± 0.100"
