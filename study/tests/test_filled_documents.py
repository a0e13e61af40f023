import json

import pytest

from feddep.errors import InputError
from feddep_study.documents import KINDS, OVERVIEWS, documents, fill_documents, filled, places
from feddep_study.source import Library
from made_up_records import fill

TEXT = "before\n<!-- tiny:begin -->\nold\n<!-- tiny:end -->\nafter\n"


@pytest.fixture
def study(tmp_path):
    study = tmp_path / "study"
    for folder in (study / "results", study / "declarations", study / "tables", tmp_path / "docs"):
        folder.mkdir(parents=True)
    (study / "declarations/tiny.toml").write_text('[grid]\nmethod = ["local", "fedavg"]\n')
    scores = {"global": {"test": 0.5}, "silo": {"test": 0.6, "val": 0.7}}
    record = {"method": "local", "dataset": "cora", "clients": 5, "seed": 0}
    record |= {"preset": "tuned", "split": "quota", "scores": scores}
    sound = {"epsilon": None, "delta": 1.0, "verdict": "none"}
    record["privacy"] = {"mechanism": "nfdp", "sound": sound}
    row = {"settings": {"method": "local"}, "record": record}
    (study / "results/tiny.jsonl").write_text(json.dumps(row) + "\n")
    printed = "[accuracy.cora]\nlocal = { 5 = [0.4486, 0.108] }\n"
    (study / "paper.toml").write_text(printed)
    (tmp_path / "README.md").write_text(TEXT)
    return study


def test_a_place_is_filled_and_the_rest_untouched(study):
    text = filled(TEXT, Library(study))
    assert text.startswith("before\n<!-- tiny:begin -->\n| ")
    assert "0.5000" in text
    assert "old" not in text
    assert text.endswith("<!-- tiny:end -->\nafter\n")


def of_kind(kind):
    return TEXT.replace("tiny:", f"tiny {kind}:")


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("means", "| global test | silo test | silo val | seeds |"),
        ("pairs", "| difference in points |"),
        ("paper", "| cora | 5 | local | tuned | quota | 0.5000 | 0.4486 ± 0.108 | +5.14 |"),
        ("privacy", "| cora | 5 | local | nfdp | – | – | unbounded | 1 | none | 0.5000 |"),
        ("main", "| method |"),
    ],
)
def test_a_place_may_name_a_kind_of_table(study, kind, part):
    text = filled(of_kind(kind), Library(study))
    assert text.startswith(f"before\n<!-- tiny {kind}:begin -->\n| ")
    assert part in text
    assert text.endswith(f"<!-- tiny {kind}:end -->\nafter\n")


@pytest.mark.parametrize(
    ("kind", "title"),
    [("tables", "Means over the seeds"), ("grids", "synthetic, preset tuned, stratified split")],
)
def test_a_place_may_hold_several_tables_with_titles(study, kind, title):
    text = filled(of_kind(kind), Library(study))
    assert text.startswith(f"before\n<!-- tiny {kind}:begin -->\n**{title}**\n\n| ")


def test_several_tables_stand_under_their_titles(study):
    text = filled(of_kind("ranks"), Library(study))
    assert text.startswith("before\n<!-- tiny ranks:begin -->\n**Ranks, preset tuned, ")
    assert "** \n" not in text
    assert "\n\n| method | mean rank | settings |\n" in text


def of_all(kind):
    return TEXT.replace("tiny:", f"all {kind}:")


@pytest.mark.parametrize("kind", OVERVIEWS)
def test_a_place_may_look_at_all_sweeps(study, kind):
    text = filled(of_all(kind), Library(study))
    assert "old" not in text
    assert filled(text, Library(study)) == text


def test_the_claims_are_counted_and_tabled(study):
    (study / "declarations/tiny.toml").rename(study / "declarations/table1.toml")
    (study / "results/tiny.jsonl").rename(study / "results/table1.jsonl")
    text = filled(of_all("claims"), Library(study))
    assert "<!-- all claims:begin -->\nOf " in text
    assert "**Section 4.2, overall performances**\n\n| claim | verdict |" in text


def test_without_a_kind_a_place_holds_the_means(study):
    named = filled(of_kind("means"), Library(study))
    assert filled(TEXT, Library(study)) == named.replace("tiny means:", "tiny:")


def test_places_of_several_kinds_are_found_and_filled_each_by_itself(study):
    text = TEXT + of_kind("paper") + of_kind("pairs")
    assert places(text) == [("tiny", "means"), ("tiny", "paper"), ("tiny", "pairs")]
    found = filled(text, Library(study))
    assert "old" not in found
    assert found.count("after\n") == 3


def test_an_unknown_kind_is_refused_with_the_known_ones(study):
    with pytest.raises(InputError, match=r"tiny: expected means, .*linked \(got medians\)"):
        filled(of_kind("medians"), Library(study))
    with pytest.raises(InputError, match=r"all: expected claims, .*leads_short \(got means\)"):
        filled(of_all("means"), Library(study))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_run_yet_is_said(study, kind):
    assert "\n\n1 of 2 runs are not run yet.\n" in filled(of_kind(kind), Library(study))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", [None, ""], ids=["no file", "an empty file"])
def test_a_sweep_without_any_record_has_no_table(study, kind, content):
    (study / "results/tiny.jsonl").unlink()
    if content is not None:
        (study / "results/tiny.jsonl").write_text(content)
    text = filled(of_kind(kind), Library(study))
    assert text == of_kind(kind).replace("old", "2 of 2 runs are not run yet.")


@pytest.mark.parametrize("kind", KINDS)
def test_filling_twice_changes_nothing(study, kind):
    once = filled(of_kind(kind), Library(study))
    assert filled(once, Library(study)) == once


def test_an_unknown_sweep_is_refused(study):
    with pytest.raises(InputError, match="nowhere"):
        filled(TEXT.replace("tiny", "nowhere"), Library(study))


def test_readme_findings_docs_and_tables_are_filled(study):
    for file in ("../docs/more.md", "tables/theme.md", "findings.md"):
        (study / file).write_text(TEXT)
    fill_documents(study)
    names = [path.name for path in documents(study)]
    assert names == ["README.md", "findings.md", "more.md", "theme.md"]
    assert all("0.5000" in path.read_text() for path in documents(study))


def test_the_figures_are_drawn_that_there_are_runs_for(study):
    drawn = study.parent / "docs/figures"
    drawn.mkdir()
    (drawn / "linked.svg").write_text("of runs that no longer count")
    for name, method in (("table1", "fedavg"), ("links", "linked-oracle")):
        (study / f"declarations/{name}.toml").write_text(
            f'[grid]\ndataset = ["cora"]\npreset = ["paper"]\nmethod = ["{method}"]\nseed = [0]\n'
        )
    fill(study, "table1")
    fill_documents(study)
    assert [file.name for file in drawn.iterdir()] == ["accuracy.svg"]
