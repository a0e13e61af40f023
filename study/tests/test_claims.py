"""The rule by which a claim is decided."""

from dataclasses import replace

import pytest

from feddep_study.against_paper import Paper
from feddep_study.claims.evidence import Case, Evidence, Measure, NotThereError
from feddep_study.claims.rule import Claim, Finding, examine
from feddep_study.source import Source
from feddep_study.statistics.paired import Difference
from feddep_study.statistics.pooling import Pooled, pooled

EVIDENCE = Evidence("table1", {"preset": "paper"})
LEAD = Measure("feddep − fedavg", lambda case: case.accuracy("feddep") - case.accuracy("fedavg"))
CLAIM = Claim("4.2", "FedDEP is better", LEAD, [EVIDENCE])
ABOVE, BELOW, AROUND = Difference(0.02, 0.01), Difference(-0.02, 0.01), Difference(0.0, 0.01)


def found(overall, above=0, below=0, around=0, bare=()):
    """So many settings on each side, and some on another data set that have a mean alone."""
    sides = [ABOVE] * above + [BELOW] * below + [AROUND] * around
    cora = {("cora", str(i)): one for i, one in enumerate(sides)}
    pubmed = {("pubmed", str(i)): Difference(mean, None) for i, mean in enumerate(bare)}
    datasets = {"cora": overall}
    if bare:
        datasets["pubmed"] = Difference(sum(bare) / len(bare), None)
    used = dict.fromkeys(cora, 2) | dict.fromkeys(pubmed, 0)
    return Pooled(cora | pubmed, datasets, overall, ["cora"], used)


# One interval


@pytest.mark.parametrize(
    ("difference", "side"),
    [
        (Difference(0.02, 0.01), "for"),
        (Difference(-0.02, 0.01), "against"),
        (Difference(0.01, 0.02), "undecided"),
        (Difference(0.01, 0.01), "undecided"),  # it ends at 0
        (Difference(0.0, 0.0), "undecided"),
        (Difference(0.5, None), "undecided"),  # one seed
    ],
)
def test_an_interval_is_for_a_claim_only_as_a_whole(difference, side):
    assert CLAIM.side(difference) == side


@pytest.mark.parametrize(
    ("mean", "side"), [(0.0, "for"), (0.0095, "undecided"), (0.02, "against"), (-0.02, "against")]
)
def test_a_range_may_have_two_ends(mean, side):
    small = replace(CLAIM, above=-0.01, below=0.01)
    assert small.side(Difference(mean, 0.001)) == side
    assert small.claimed == "feddep − fedavg > −1 points and < +1 points"


def test_a_range_may_have_only_an_upper_end():
    less = replace(CLAIM, above=None, below=0.0, measure=replace(LEAD, unit="%"))
    assert (less.side(BELOW), less.side(ABOVE)) == ("for", "against")
    assert less.claimed == "feddep − fedavg < 0 %"


# All of them


@pytest.mark.parametrize(
    ("pool", "verdict"),
    [
        (found(ABOVE, above=3, around=9), "supported"),
        (found(ABOVE, above=2, below=2), "supported"),
        (found(ABOVE, above=1, below=2), "open"),
        (found(ABOVE, around=12), "supported"),
        (found(BELOW, below=3, around=9), "contradicted"),
        (found(BELOW, below=1, above=2), "open"),
        (found(AROUND, above=12), "open"),
        (found(Difference(0.5, None), around=12), "open"),
    ],
)
def test_the_pooled_interval_decides_and_single_settings_may_object(pool, verdict):
    assert CLAIM.verdict(pool).word == verdict


@pytest.mark.parametrize(
    ("pool", "verdict"),
    [
        (found(ABOVE, above=12), "supported"),
        (found(ABOVE, above=3, around=9), "open"),  # 9 means that are not above 0
        (found(ABOVE, above=11, below=1), "open"),
        (found(ABOVE, above=10, below=2), "contradicted"),
        (found(AROUND, below=2), "contradicted"),
        (found(BELOW, below=1), "contradicted"),
    ],
)
def test_a_claim_about_every_setting_fails_with_two_counterexamples(pool, verdict):
    assert replace(CLAIM, every=True).verdict(pool).word == verdict


@pytest.mark.parametrize(
    ("bare", "verdict"),
    [
        ((0.01, 0.02), "supported"),
        ((-0.01, 0.02), "supported"),
        ((-0.2, -0.2), "open (the mean of all settings is on the other side)"),
    ],
)
def test_settings_without_an_interval_object_by_their_mean(bare, verdict):
    assert str(CLAIM.verdict(found(ABOVE, above=6, bare=bare))) == verdict


@pytest.mark.parametrize(("below", "verdict"), [(0, "supported"), (1, "contradicted")])
def test_one_counterexample_is_enough_for_what_is_exact(below, verdict):
    exact = replace(CLAIM, every=True, measure=replace(LEAD, exact=True))
    assert exact.verdict(found(ABOVE, above=6, below=below)).word == verdict


def test_a_caveat_stands_beside_a_decision_only():
    def verdict(pool, **claim):
        claim = replace(CLAIM, **claim)
        return Finding(claim, EVIDENCE, pool, 6, True, None, caveat="of little worth").verdict

    assert str(verdict(found(ABOVE, above=6))) == "supported (of little worth)"
    assert str(verdict(found(BELOW, below=6))) == "contradicted (of little worth)"
    assert str(verdict(found(AROUND, around=6))) == "open"
    bare = verdict(found(ABOVE, above=6, bare=(0.01,)), every=True)
    assert bare.reason == "1 setting by the mean alone; of little worth"


def test_settings_without_an_interval_object_to_a_contradiction_too():
    pool = found(BELOW, below=6)
    assert CLAIM.verdict(pool).word == "contradicted"
    assert CLAIM.verdict(found(BELOW, below=6, bare=(-0.1,))).word == "contradicted"
    assert CLAIM.verdict(found(BELOW, below=6, bare=(0.1,))).word == "open"


@pytest.mark.parametrize(
    ("bare", "verdict"),
    [
        ((0.01, 0.02), "supported (2 settings by the mean alone)"),
        ((-0.01, 0.2), "open (1 setting outside by the mean)"),
        ((-0.2, -0.2), "open (2 settings outside by the mean)"),
    ],
)
def test_a_claim_about_every_setting_needs_the_means_of_those_without_interval(bare, verdict):
    everywhere = replace(CLAIM, every=True)
    assert str(everywhere.verdict(found(ABOVE, above=6, bare=bare))) == verdict


@pytest.mark.parametrize(
    ("pool", "verdict"),
    [
        # +2 on some settings and −2 on as many; the mean of ±0.5 lies in the band of ±1
        (found(Difference(0.0, 0.005), above=1, below=1, around=2), "contradicted"),
        (found(Difference(0.0, 0.005), around=4), "supported"),
        (found(Difference(0.0, 0.005), above=1, around=3), "open"),  # one mean outside
        (found(Difference(0.0, 0.02), above=3, below=3), "contradicted"),
        (found(Difference(0.0, 0.02), above=1), "open"),
        (found(Difference(0.0, 0.005), above=2, around=10), "open"),
    ],
)
def test_a_band_is_contradicted_by_effects_of_opposite_sign(pool, verdict):
    settings = {s: replace(d, margin=d.margin / 2) for s, d in pool.settings.items()}
    band = replace(CLAIM, above=-0.01, below=0.01)
    assert band.verdict(replace(pool, settings=settings)).word == verdict


# From runs


def cells(seeds=(0, 1), clients=(3, 5), **settings):
    return [
        {"dataset": "cora", "partition.clients": m, "method": name, "seed": seed, "preset": "paper"}
        | settings
        for m in clients
        for name in ("fedavg", "feddep")
        for seed in seeds
    ]


def record(score):
    return {"scores": {"global": {"test": score}}}


def source(declared, score, paper=None):
    scored = [(cell, score(cell)) for cell in declared]
    rows = [(cell, record(value)) for cell, value in scored if value is not None]
    return {"table1": Source("table1", declared, rows, paper or Paper({}))}


def better(cell):
    return (0.819, 0.821)[cell["seed"] % 2] if cell["method"] == "feddep" else 0.80


def test_runs_are_paired_by_setting_and_seed():
    # differences of 1.9 and 2.1: 12.706 · 0.1
    (finding,) = examine(CLAIM, source(cells(), lambda c: better(c) + 0.05 * c["seed"]))
    assert finding.numbers == (
        *("+2.00 [+0.73, +3.27]", "–", "–", "2 / 0 / 0"),
        "2 of 2, 2 decide",
    )
    assert str(finding.verdict) == "supported"


def test_runs_elsewhere_do_not_count():
    declared = cells() + cells(preset="tuned")
    (finding,) = examine(CLAIM, source(declared, lambda c: better(c) * (c["preset"] == "paper")))
    assert finding.verdict.word == "supported"


@pytest.mark.parametrize(
    ("score", "settings", "verdict"),
    [
        (
            lambda c: None if c["partition.clients"] == 5 else better(c),
            "1 of 2, 1 decide",
            "supported so far",
        ),
        (lambda c: None if c == cells()[-1] else better(c), "2 of 2, 0 decide", "open so far"),
        (lambda c: None if c["method"] == "feddep" else 0.5, "0 of 2", "not run yet"),
        (lambda c: None, "0 of 2", "not run yet"),
    ],
    ids=["a setting is missing", "a seed is missing", "a method is missing", "nothing"],
)
def test_while_runs_are_missing_the_verdict_says_so(score, settings, verdict):
    (finding,) = examine(CLAIM, source(cells(), score))
    assert (finding.numbers[-1], finding.verdict.word) == (settings, verdict)


def test_what_has_not_been_run_has_no_numbers():
    (finding,) = examine(CLAIM, source(cells(), lambda c: None))
    assert finding.numbers == ("–", "–", "–", "–", "0 of 2")


def test_one_seed_leaves_a_claim_open():
    (finding,) = examine(CLAIM, source(cells(seeds=(0,)), better))
    assert (finding.numbers[0], finding.verdict.word) == ("+1.90", "open")


def test_data_sets_with_one_seed_are_told_and_stand_in_the_paper_s_mean():
    printed = {name: {"fedavg": {"3": [0.8, 0.1]}} for name in ("cora", "pubmed")}
    printed["cora"]["feddep"] = {"3": [0.81, 0.1]}
    printed["pubmed"]["feddep"] = {"3": [0.77, 0.1]}
    declared = [*cells(clients=(3,)), *cells((0,), clients=(3,), dataset="pubmed")]
    runs = source(declared, lambda c: better(c) - 0.2 * (c == declared[-1]), Paper(printed))
    (finding,) = examine(CLAIM, runs)
    assert finding.numbers == (
        *("+2.00 [+0.73, +3.27]; of all −8.05", "−1.00", "–", "1 / 0 / 1"),
        "2 of 2, 1 decide",
    )
    assert finding.verdict.word == "open"


@pytest.mark.parametrize(("feddep", "held"), [(0.825, "yes"), (0.84, "no")])
def test_a_finding_tells_whether_the_interval_holds_the_paper_s_figure(feddep, held):
    printed = {"cora": {"fedavg": {"3": [0.8, 0.1]}, "feddep": {"3": [feddep, 0.1]}}}
    (finding,) = examine(CLAIM, source(cells(clients=(3,)), better, Paper(printed)))
    assert finding.numbers[:3] == ("+2.00 [+0.73, +3.27]", f"+{100 * (feddep - 0.8):.2f}", held)


@pytest.mark.parametrize(
    ("at_once", "verdict"),
    [
        ({}, "open (measured beside other runs)"),
        ({"fedavg": 1}, "open (measured beside other runs)"),
        ({"fedavg": 1, "feddep": 2}, "open (measured beside other runs)"),
        ({"fedavg": 1, "feddep": 1}, "supported"),
        ({"fedavg": 1, "feddep": 1, "local": 2}, "supported"),
    ],
    ids=["not told", "not told of all", "two at once", "alone", "others do not matter"],
)
def test_seconds_decide_only_if_they_were_measured_alone(at_once, verdict):
    declared = [*cells(), *({**cell, "method": "local"} for cell in cells()[:2])]
    (plain,) = source(declared, better).values()
    rows = [
        (cell, own | ({"at_once": at_once[m]} if (m := cell["method"]) in at_once else {}))
        for cell, own in plain.rows
    ]
    timed = replace(CLAIM, measure=replace(LEAD, clocked=("feddep", "fedavg")))
    (finding,) = examine(timed, {"table1": replace(plain, rows=rows)})
    assert str(finding.verdict) == verdict


def test_runs_of_another_sweep_stand_beside_in_the_same_cases():
    beside = Evidence("table1", {"preset": "paper", "method": "fedavg"})
    claim = replace(CLAIM, evidence=[Evidence("table2", beside=(beside,))])
    ours = [cell for cell in cells() if cell["method"] == "feddep"]
    theirs = [cell for cell in cells(seeds=(0, 1, 2)) if cell["method"] == "fedavg"]
    (plain,), (more,) = source(ours, better).values(), source(theirs, better).values()
    (finding,) = examine(claim, {"table2": plain, "table1": more})
    assert (finding.numbers[-1], finding.verdict.word) == ("2 of 2, 2 decide", "supported")
    assert str(finding.evidence) == "table2 with table1, paper, fedavg"
    (finding,) = examine(claim, {"table2": plain, "table1": replace(more, rows=more.rows[:2])})
    assert (finding.numbers[-1], finding.verdict.word) == ("1 of 2, 1 decide", "supported so far")
    assert list(examine(claim, {"table2": plain})) == []


def test_the_paper_s_mean_is_taken_from_its_tables_in_the_same_way():
    printed = {"cora": {"fedavg": {"3": [0.8, 0.1], "5": [0.7, 0.1]}}}
    printed["cora"]["feddep"] = {"3": [0.81, 0.1], "5": [0.73, 0.1]}
    (finding,) = examine(CLAIM, source(cells(), better, Paper(printed)))
    assert finding.printed == pytest.approx(0.02)
    some = source(cells(), lambda c: better(c) if c["partition.clients"] == 5 else None)
    (finding,) = examine(CLAIM, {"table1": replace(some["table1"], paper=Paper(printed))})
    assert finding.printed == pytest.approx(0.03)  # of the same settings
    by_clusters = cells(**{"embedding.clusters": 3})
    (finding,) = examine(CLAIM, source(by_clusters, better, Paper(printed)))
    assert finding.printed is None
    (finding,) = examine(CLAIM, source(cells(**{"training.rounds": 9}), better, Paper(printed)))
    assert finding.printed is None


def test_evidence_from_a_sweep_that_is_not_declared_is_passed_over():
    assert list(examine(CLAIM, {})) == []


def test_histories_stand_in_the_records_where_a_sweep_keeps_them():
    last = Measure("last", lambda case: case.record("feddep")["history"]["global_test"][-1])
    declared = [cell for cell in cells() if cell["method"] == "feddep"]
    rows = [(cell, record(0.5), {"global_test": [0.1, 0.3]}) for cell in declared]
    plain = [(cell, own) for cell, own, _ in rows]
    sources = {"table1": Source("table1", declared, plain, Paper({}), rows)}
    (finding,) = examine(replace(CLAIM, measure=last), sources)
    assert finding.found == pooled({("cora", m): {0: 0.3, 1: 0.3} for m in ("3", "5")})


def test_a_case_finds_a_run_by_method_and_settings():
    case = Case([({"method": "feddep", "embedding.depth": d}, record(d / 10)) for d in (0, 1)])
    assert case.accuracy("feddep", {"embedding.depth": 1}) == 0.1
    assert case.accuracy("feddep") == 0.0
    for wanted in (("fedavg", {}), ("feddep", {"embedding.depth": 2})):
        with pytest.raises(NotThereError):
            case.accuracy(*wanted)


def test_evidence_names_its_runs():
    assert (
        str(Evidence("hops", {"dataset": "cora", "partition.clients": 10})) == "hops, cora, M = 10"
    )
