"""The list of the paper's claims: complete, decidable, and in keeping with the paper's numbers."""

from pathlib import Path

import pytest

from feddep.experiments.sweep import Sweep
from feddep.reports.against_paper import Paper
from feddep.reports.claims import Case, examine
from feddep.reports.paper_claims import CLAIMS, SECTIONS, growth, later, lead, times
from feddep.reports.source import Source
from feddep.reports.verdicts import HEADINGS, NOTE, findings, summary, verdict_tables

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
PAPER = Paper.read(EXPERIMENTS / "paper.toml")
SWEEPS = ("table1", "quota", "hops", "table2", "privacy", "curves")
PHASES = ("averaging", "local_training", "neighgen", "generator_training", "prototype_exchange")


def record_of(cell):
    """A run in which the later a method's name stands in the alphabet, the better it is."""
    score = 0.5 + ord(cell["method"][-1]) / 1000
    sent = {"up_bytes": 10, "down_bytes": 10}
    return {
        "scores": {"global": {"test": score}},
        "traffic": {"up_bytes": 50, "down_bytes": 50, "phases": dict.fromkeys(PHASES, sent)},
        "seconds": {"total": 5.0, "phases": dict.fromkeys(PHASES, 1.0)},
    }


@pytest.fixture(scope="module")
def sweeps():
    return {name: Sweep.read(EXPERIMENTS / f"{name}.toml") for name in SWEEPS}


@pytest.fixture(scope="module")
def nothing_run(sweeps):
    return {name: Source(name, sweep.cells, [], PAPER) for name, sweep in sweeps.items()}


@pytest.fixture(scope="module")
def all_run(sweeps):
    history = {"global_test": [0.1, 0.5, 0.51, 0.52]}
    sources = {}
    for name, sweep in sweeps.items():
        rows = [(cell, record_of(cell)) for cell in sweep.cells]
        kept = [(*row, history) for row in rows] if sweep.history else []
        sources[name] = Source(name, sweep.cells, rows, PAPER, kept)
    return sources


def test_every_claim_is_decided_from_the_declared_runs_alone(all_run):
    for claim in CLAIMS:
        found = list(examine(claim, all_run))
        assert len(found) == len(claim.evidence)
        for finding in found:
            assert finding.complete, claim.text
            assert finding.verdict in ("supported", "contradicted", "open")


def test_without_runs_every_claim_says_so(nothing_run):
    found = findings(nothing_run)
    assert {one.verdict for own in found for one in own} == {"not run yet"}
    assert summary(found) == (f"Of {len(CLAIMS)} claims: {len(CLAIMS)} not run yet.")


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("FedDEP outperforms local models", 27.13),
        ("FedDEP exceeds FedSage", 1.27),
        ("DGen improves FedDEP", 2.49),
        ("Proto causes only a slight loss", -0.52),
        ("FedDEP exceeds FedGNN", 0.76),
        ("Under similar protection FedDEP exceeds DP-SGD (w/o NFDP)", 0.61),
        ("FedDEP w/o Proto outperforms FedGNN", 1.28),
        ("FedDEP w/o Proto outperforms DP-SGD (w/o NFDP)", 1.13),
    ],
)
def test_the_printed_means_are_those_of_section_4_2(nothing_run, text, points):
    (claim,) = [claim for claim in CLAIMS if claim.text == text]
    for finding in examine(claim, nothing_run):
        assert 100 * finding.printed == pytest.approx(points, abs=0.0051)


def test_claims_of_tables_1_and_2_have_the_paper_s_number_and_others_none(nothing_run):
    for claim in CLAIMS:
        first = next(iter(examine(claim, nothing_run)))
        in_tables = first.evidence.sweep in ("table1", "table2") and claim.measure.printed
        assert (first.printed is not None) == in_tables, claim.text


def test_every_claim_is_said_once_and_has_its_section():
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.section for claim in CLAIMS} == SECTIONS.keys()


def test_tables_number_the_claims_and_the_first_says_how_to_read_them(all_run):
    *tables, also = verdict_tables(findings(all_run))
    assert [table.title.split()[1].rstrip(",") for table in tables] == list(SECTIONS)
    assert [list(table.notes) for table in (*tables, also)] == [[NOTE], *([[]] * len(tables))]
    rows = [row for table in tables for row in table.rows]
    assert [row[0] for row in rows] == [f"{n}. {claim.text}" for n, claim in enumerate(CLAIMS, 1)]
    assert {len(row) for row in (*rows, *also.rows)} == {len(HEADINGS)}
    assert {row[0] for row in also.rows} < {row[0] for row in rows}
    assert len(rows) + len(also.rows) == sum(len(claim.evidence) for claim in CLAIMS)


def test_the_rule_stands_in_the_findings():
    text = (EXPERIMENTS.parent / "docs/findings.md").read_text()
    for word in ("Supported", "Contradicted", "Open"):
        assert f"- **{word}**: " in text


# Measures


def case(**scores):
    rows = []
    for name, score in scores.items():
        method, _, clients = name.partition("_")
        settings = {"method": method, "partition.clients": int(clients or 5)}
        rows.append((settings, {"scores": {"global": {"test": score}}}))
    return Case(rows)


def test_a_lead_is_a_difference():
    assert lead("feddep", "local").of(case(feddep=0.8, local=0.5)) == pytest.approx(0.3)


def test_a_gain_grows_with_the_number_of_clients():
    found = case(feddep_3=0.8, fedavg_3=0.79, feddep_10=0.7, fedavg_10=0.65)
    assert growth("feddep", "fedavg").of(found) == pytest.approx(0.04)


def test_times_are_ratios():
    rows = [({"method": m}, {"seconds": s}) for m, s in (("feddep", 3.0), ("fedavg", 2.0))]
    measure = times("seconds", "feddep", "fedavg", lambda record: record["seconds"])
    assert measure.of(Case(rows)) == pytest.approx(0.5)
    assert not measure.printed


def test_convergence_is_the_first_round_close_to_the_last_accuracy():
    curves = {"feddep": [0.1, 0.2, 0.94, 0.96, 1.0], "fedavg": [0.1, 0.96, 0.3, 0.9, 1.0]}
    rows = [({"method": m}, {"history": {"global_test": own}}) for m, own in curves.items()]
    assert later("feddep", "fedavg").of(Case(rows)) == pytest.approx(4 / 5 - 2 / 5)
