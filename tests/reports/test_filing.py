"""A statement that can be filed: everything that it has to say, in both forms."""

import json
import re
from typing import ClassVar

import pytest

import feddep
from feddep.errors import DataError
from feddep.privacy.accountant import Guarantee
from feddep.privacy.events import NoisedSums, ToldToSilos
from feddep.reports.filed_audit import audit_section
from feddep.reports.filed_run import (
    guarantee,
    hidden_edges,
    mechanisms,
    promise,
    statement_of_run,
    told_to_silos,
)
from feddep.reports.filing import Filing, Section
from feddep.reports.table import Table

NO_AUDIT = audit_section(None)
HEADINGS = [
    "What is promised",
    "How it is achieved",
    "How it is implemented",
    "Against whom",
    "What left",
    "Spent and left",
    "What is not covered",
    "Audit",
    "What this rests on",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, small_graph):
    target = tmp_path_factory.mktemp("run") / "run"
    shards = feddep.partition(small_graph, clients=2, seed=0)
    mechanism = {"privacy.mechanism": "randomised-response", "privacy.epsilon": 1.5}
    feddep.run("fedavg", shards, rounds=1, workers=1, settings=mechanism).save(target)
    return target


def test_a_run_s_page_has_all_sections_in_their_order(folder):
    filing = statement_of_run(folder, NO_AUDIT)
    assert [section.title for section in filing.sections] == HEADINGS
    assert filing.summary.startswith("One edge inside one silo is protected with ε = 1.5 and δ = 0")
    assert "simulation" in filing.summary


def test_both_forms_say_the_same(folder):
    filing = statement_of_run(folder, NO_AUDIT)
    shown = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", filing.html(), flags=re.S)
    words = re.sub(r"<[^>]+>", " ", shown)
    for told in (
        "one undirected edge between two nodes",
        "two graphs are neighbours if one has exactly one edge more",
        "of 100 links that an observer could name",
        "every pair flipped once, ε = 1.5",
        "dp_accounting",
        "No audit is attached",
        "averaging",
        "SHA-256",
    ):
        assert told in words, told
        assert told in filing.markdown(), told


def test_it_loads_nothing(folder):
    assert not re.search(r"(src|href)=\"(?!#)", statement_of_run(folder, NO_AUDIT).html())


def test_what_is_promised_nowhere_is_said_first(tmp_path, small_graph):
    shards = feddep.partition(small_graph, clients=2, seed=0)
    feddep.run("fedavg", shards, rounds=1, workers=1).save(tmp_path / "run")
    filing = statement_of_run(tmp_path / "run", NO_AUDIT)
    assert filing.summary == "No privacy guarantee is given for single edges."
    assert "unbounded" in filing.markdown()


def test_several_edges_of_a_node_are_a_unit_of_their_own():
    sums = NoisedSums(noise=4.0, hops=2, edges=3, delta=1e-7)
    sound = Guarantee(2.0, 1e-7, "holds")
    assert hidden_edges([sums]) == 3
    (told, _) = guarantee(sound, "", 3).body
    assert promise(sound, 3).startswith("Up to 3 edges of one node, all together, inside one silo")
    assert promise(sound, 1).startswith("One edge inside one silo is protected")
    assert dict(told.rows)["unit of protection"].startswith("up to 3 undirected edges of one node")
    assert "differ in at most 3 edges" in dict(told.rows)["neighbouring relation"]
    assert mechanisms([sums, sums]).rows == [
        (
            "aggregation perturbation",
            "sums of rows of norm 1: σ = 4, 2 hops",
            "one Gaussian mechanism",
        )
    ]


def test_what_other_silos_are_told_is_named_once():
    told = ToldToSilos("links", "the mean of a node's scores", epsilon=2.0, noise_from="secret")
    plain = ToldToSilos("links", "labels")
    assert told_to_silos([told, told, plain]) == (
        "Linked silos are told the mean of a node's scores, with noise of ε = 2 for each node. "
        "Linked silos are told labels, without noise."
    )
    assert told_to_silos([]) == ""


def test_texts_are_escaped(tmp_path):
    filing = Filing("a <b>", "c & d", [Section("e", ["<i>", Table(("f|g", "h"), [("1", "2|3")])])])
    assert "<b>" not in filing.html()
    assert "&lt;i&gt;" in filing.html()
    assert "| f\\|g | h |\n| --- | --- |\n| 1 | 2\\|3 |" in filing.markdown()
    assert [file.suffix for file in filing.write(tmp_path / "new")] == [".md", ".html"]


class TestAudit:
    FOUND: ClassVar = {
        "title": "fedavg on cora",
        "claim": {"epsilon": 1.0},
        "provable": 5.0,
        "prototypes": None,
        "attacks": {
            "loss": {
                "right": 60,
                "guesses": 100,
                "bound": 0.1,
                "p_claim": 0.5,
                "auc": 0.6,
                "true_positives_at_1_percent": 0.01,
            }
        },
    }

    def test_it_is_attached(self, tmp_path):
        (tmp_path / "audit.json").write_text(json.dumps(self.FOUND))
        told, table = audit_section(tmp_path / "audit.json").body
        assert "does not contradict the claim ε ≤ 1" in told
        assert table.rows[0][:3] == ("loss", "60/100", "0.10")

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"attacks": 3}', "\xff"])
    def test_what_is_none_is_refused(self, tmp_path, text):
        (tmp_path / "audit.json").write_text(text, encoding="latin-1")
        with pytest.raises(DataError, match=r"is not an audit\.json"):
            audit_section(tmp_path / "audit.json")

    def test_nor_is_one_that_is_not_there(self, tmp_path):
        with pytest.raises(DataError, match="cannot read the audit"):
            audit_section(tmp_path / "audit.json")
