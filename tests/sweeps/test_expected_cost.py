"""How long a run may take: as long as those most like it."""

import pytest

from feddep.sweeps.expected_cost import expected_seconds


def run(seconds, **settings):
    times = {"total": seconds, "loading": 0.0, "setup": 0.0, "measuring": 0.0}
    return {key.replace("__", "."): v for key, v in settings.items()}, {"seconds": times}


KNOWN = [
    run(10.0, method="fedavg", dataset="cora", partition__clients=3),
    run(30.0, method="fedavg", dataset="cora", partition__clients=5),
    run(80.0, method="fedavg", dataset="cora", partition__clients=5, training__rounds=200),
    run(60.0, method="feddep", dataset="pubmed"),
]


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({"method": "fedavg", "dataset": "cora", "partition.clients": 5}, 30.0),
        ({"method": "fedavg", "dataset": "cora", "partition.clients": 10}, 20.0),
        ({"method": "fedavg", "dataset": "cora", "training.rounds": 200}, 80.0),
        ({"method": "fedavg", "dataset": "cora", "training.rounds": 7}, 40.0),
        ({"method": "oracle", "dataset": "pubmed"}, 60.0),
        ({"method": "feddep", "dataset": "cora"}, 40.0),
        ({"method": "feddep", "dataset": "new"}, 60.0),
        ({"method": "new", "dataset": "new"}, 45.0),
    ],
)
def test_runs_that_share_most_tell(settings, seconds):
    assert expected_seconds([settings], KNOWN) == [seconds]


def test_without_any_run_nothing_is_known():
    assert expected_seconds([{"method": "fedavg"}], []) == [0.0]
