"""Methods side by side: accuracy, bytes, seconds."""

from collections.abc import Sequence
from typing import Any

from feddep.graph.silos import Silos
from feddep.reports.formatting import accuracy, footnotes, markdown_table, marked, size
from feddep.runs.files import Record

HEADINGS = ("method", "test (global)", "test (silo)", "bytes up", "bytes down", "seconds")


def comparison_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """One row of texts for each record, under :data:`HEADINGS`."""
    return [
        (
            marked(record["method"]),
            accuracy(record["scores"]["global"]["test"]),
            accuracy(record["scores"]["silo"]["test"]),
            size(record["traffic"]["up_bytes"]),
            size(record["traffic"]["down_bytes"]),
            f"{record['seconds']['total']:.1f}",
        )
        for record in records
    ]


def comparison_markdown(records: Sequence[Record]) -> str:
    """A page about several runs of one scenario."""
    first = records[0]
    lines = [
        f"# {first['dataset']}, {first['clients']} clients, {_rounds(records)} rounds, "
        f"seed {first['seed']}",
        "",
        f"Partition `{first['partition']}`, split `{first['split']}`, preset `{first['preset']}`. "
        "Test scores are taken at the round with the best validation score. *Global* queries the "
        "test nodes on the whole graph; *silo* each client's own test nodes on its own subgraph.",
        "",
        markdown_table(HEADINGS, comparison_rows(records)),
        *footnotes(record["method"] for record in records),
    ]
    return "\n".join(lines)


def _rounds(records: Sequence[Record]) -> str:
    """The numbers of rounds; a tuned preset may give every method its own."""
    return " or ".join(map(str, sorted({record["rounds"] for record in records})))


def run_summary(record: Record) -> list[tuple[str, str]]:
    """The summary of one run, as names and texts."""
    scores: dict[str, Any] = record["scores"]
    traffic: dict[str, Any] = record["traffic"]
    whole = [
        ("test accuracy, whole graph", accuracy(scores["global"]["test"])),
        ("  at the last round", accuracy(scores["global"]["test_last"])),
    ]
    return [
        *([] if scores["global"]["test"] is None and record["dataset"] == Silos.name else whole),
        ("test accuracy, own silo", accuracy(scores["silo"]["test"])),
        ("validation accuracy, own silo", accuracy(scores["silo"]["val"])),
        *_fitting(record),
        ("best round", _chosen(record)),
        *([("training diverged", record["diverged"])] if "diverged" in record else []),
        ("sent up / down", f"{size(traffic['up_bytes'])} / {size(traffic['down_bytes'])}"),
        ("seconds", f"{record['seconds']['total']:.1f}"),
        ("privacy", record["privacy"]["verdict"]),
    ]


def _chosen(record: Record) -> str:
    by = record.get("selection", {}).get("metric", "accuracy").replace("_", " ")
    told = f"{record['best_round']} of {record['rounds']}"
    return told if by == "accuracy" else f"{told}, by {by} on validation"


def _fitting(record: Record) -> list[tuple[str, str]]:
    """Scores of two classes, and a word about a classifier that is worth nothing."""
    measures = record.get("measures") or {}
    test = measures.get("pooled", {}).get("test", {})
    names = {"average_precision": "average precision", "roc_auc": "ROC-AUC"}
    rows = [(f"  {text}", accuracy(test[name])) for name, text in names.items() if name in test]
    at = measures.get("threshold") or {}
    if "test_f1" in at:
        shares = " / ".join(accuracy(at.get(f"test_{name}")) for name in ("precision", "recall"))
        rows.append(
            ("  precision / recall", f"{shares} from a probability of {at['value']:.3g} on")
        )
    majority = measures.get("majority")
    if majority and not majority["beaten"]:
        name = majority["metric"].replace("_", " ")
        told = f"no better than calling every node the same ({name} {accuracy(majority['value'])})"
        rows.append(("worth", told))
    return rows
