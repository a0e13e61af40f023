"""Panels and lines of the figures."""

import pytest

from feddep_study.against_paper import Paper
from feddep_study.figures.accuracy import difference_figure, far_below, told_far_below
from feddep_study.figures.privacy_plot import further_privacy, privacy_figure
from feddep_study.source import Source
from feddep_study.statistics.paired import METRICS, Difference, Paired

NOISE = {3: 4.2, 5: 2.1, 10: 0.4}


def run(method, score, *, dataset="msacademic", clients=5, told=("none", None), seed=0, **more):
    settings = {"dataset": dataset, "partition.clients": clients, "method": method, "seed": seed}
    settings |= {name.replace("__", "."): value for name, value in more.items()}
    mechanism, epsilon = told
    record = {"method": method, "dataset": dataset, "clients": clients, "seed": seed}
    record["scores"] = {"global": {"test": score}, "silo": {"test": score - 0.1}}
    record["privacy"] = {"mechanism": mechanism, "sound": {"epsilon": epsilon}}
    return settings, record


def panels(rows):
    (figure,) = privacy_figure(Source("privacy", [], rows, Paper({})))
    return {panel.title: panel for panel in figure.panels}


def drawn(panel):
    return [[(point.x, round(point.y, 4)) for point in one.points] for one in panel.series]


def noised(clients):
    """The paper's experiment: the noise of both noised methods is that of M."""
    yield run("feddep", 0.94, clients=clients, told=("nfdp", None))
    yield run("feddep-wo-proto", 0.95, clients=clients, told=("nfdp", None))
    yield run("fedgnn-update", 0.92, clients=clients, training__update_noise=NOISE[clients])
    for method in ("fedgnn", "feddep-wo-nfdp"):
        noise = {"privacy__noise": NOISE[clients]}
        yield run(method, 0.93, clients=clients, told=("dp-sgd", None), **noise)


def test_each_number_of_clients_is_one_panel_with_all_its_methods():
    found = panels([row for clients in NOISE for row in noised(clients)])
    assert list(found) == [f"M = {clients}, no bound" for clients in NOISE]
    for panel in found.values():
        assert {one.keys[0] for one in panel.series} == {
            *("feddep", "feddep-wo-proto", "fedgnn", "fedgnn-update", "feddep-wo-nfdp")
        }


def test_labels_tell_the_noise():
    (panel,) = panels(list(noised(3))).values()
    tips = {one.keys[0]: one.points[0].tip for one in panel.series}
    update = "fedgnn-update†, none, update noise 4.2, no bound: 0.9200 (1 seed)"
    assert tips["fedgnn-update"] == update
    assert tips["fedgnn"] == "fedgnn†, dp-sgd, noise 4.2, no bound: 0.9300 (1 seed)"
    assert tips["feddep-wo-nfdp"].startswith("feddep-wo-nfdp, dp-sgd, noise 4.2, no bound: ")
    assert tips["feddep"] == "feddep, nfdp, no bound: 0.9400 (1 seed)"


@pytest.mark.parametrize(
    ("name", "value"), [("privacy__keep_edge", 0.5), ("privacy__occurrences", 1)]
)
def test_a_further_setting_makes_a_line_of_its_own_in_the_same_panel(name, value):
    told = [("randomised-response", epsilon) for epsilon in (4.0, 8.0)]
    rows = [run("fedavg", 0.7 + one[1] / 100, told=one, privacy__epsilon=one[1]) for one in told]
    more = {name: value}
    rows += [
        run("fedavg", 0.6, told=one, seed=seed, privacy__epsilon=one[1], **more)
        for one in told
        for seed in (0, 1)
    ]
    panel, silo = panels(rows).values()
    assert drawn(panel) == [[(4.0, 0.74), (8.0, 0.78)], [(4.0, 0.6), (8.0, 0.6)]]
    assert silo.title.endswith("on the own silo")
    assert drawn(silo) == [[(4.0, 0.64), (8.0, 0.68)], [(4.0, 0.5), (8.0, 0.5)]]
    assert [one.style.hollow for one in panel.series] == [False, True]
    assert {one.keys for one in panel.series} == {("fedavg", "randomised-response")}


def test_seeds_whose_noise_was_sought_for_one_epsilon_are_one_point():
    rows = [
        run("fedavg", score, told=("dp-sgd", epsilon), seed=seed, privacy__epsilon=8.0)
        for seed, (score, epsilon) in enumerate([(0.2, 7.9991), (0.3, 8.0), (0.4, 7.9987)])
    ]
    panel, _ = panels(rows).values()
    ((point,),) = [one.points for one in panel.series]
    assert (point.x, round(point.y, 4)) == (8.0, 0.3)


def test_further_settings_of_a_mechanism_are_told_in_words():
    told = {"privacy.mechanism": "dp-sgd", "privacy.epsilon": 8.0, "privacy.keep_edge": 0.5}
    assert further_privacy({"method": "fedavg", **told}) == "keep edge 0.5"


# Methods far below


def test_what_lies_far_below_is_told_by_the_scores():
    names = ("fedavg", "fedsage", "feddep")
    high = [run(method, 0.9, seed=seed) for method in names for seed in (0, 1)]
    assert far_below(high) == []
    low = [run("local", 0.79), run("fedgnn-update", 0.2), run("fedgnn", 0.82)]
    assert far_below(high + low) == ["local", "fedgnn-update"]
    assert told_far_below(["local", "fedgnn-update"], "left out") == (
        "local and fedgnn-update† lie far below and are left out."
    )
    assert told_far_below(["local"], "left out") == "local lies far below and is left out."


def test_a_difference_is_far_below_only_by_both_metrics():
    def pair(method, *means):
        differences = {m: Difference(mean, 0.01) for m, mean in zip(METRICS, means, strict=True)}
        return Paired(("cora",), method, differences, 5)

    pairs = [pair("oracle", -0.45, 0.14), pair("local", -0.4, -0.2), pair("feddep", 0.0, 0.0)]
    figure = difference_figure("pairs", "t", {"cora": pairs}, "fedavg")
    assert {key.name for key in figure.legend if key.off} == {"local"}
    assert figure.caption.endswith("local lies far below and is switched off at first.")
