"""What a mechanism brings beyond training without edges, with numbers worked out by hand."""

from feddep_study.statistics.without_edges import beyond_no_edges


def run(seed, silo, method="fedavg", **privacy):
    settings = {f"privacy.{name}": value for name, value in privacy.items()}
    record = {
        "method": method,
        "dataset": "cora",
        "seed": seed,
        "scores": {"silo": {"test": silo}},
    }
    return settings, record


NO_EDGES = {"mechanism": "randomised-response", "keep_edge": 1e-6, "epsilon": 0.01}
SUMS = {"mechanism": "aggregation-perturbation", "epsilon": 4.0}


def test_the_better_of_two_classifiers_without_edges_is_the_yardstick():
    rows = [
        *(run(seed, 0.3, **NO_EDGES) for seed in range(3)),
        *(run(seed, 0.7 + seed / 100, "local", **NO_EDGES) for seed in range(3)),
        *(run(seed, 0.8 + seed / 50, **SUMS) for seed in range(3)),
        *(run(seed, 0.2, **SUMS, max_degree=10) for seed in range(3)),
        run(0, 0.9, mechanism="none"),
    ]
    alone, local, sums, ten, none = (line for line in beyond_no_edges(rows).rows)
    assert alone[1:5] == ("fedavg", "without edges", "all edges", "0")
    assert local[6] == "–", "it is the yardstick"
    # differences 10, 11, 12 points: s = 1, 4.303 / √3 = 2.484
    assert sums[2:] == (
        "aggregation-perturbation", "one edge", "4", "0.8200 ± 0.020",
        "+11.00 [+8.52, +13.48]", "3",
    )  # fmt: skip
    assert ten[3] == "10 edges of a node"
    assert ten[6].startswith("−51.00")
    assert none[2:5] == ("none", "nothing", "–")
    assert none[6] == "+20.00", "one pair has no interval"
