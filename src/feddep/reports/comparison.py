"""Methods side by side: accuracy, bytes, seconds."""

from collections.abc import Sequence
from typing import Any

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
    return [
        ("test accuracy, whole graph", accuracy(scores["global"]["test"])),
        ("  at the last round", accuracy(scores["global"]["test_last"])),
        ("test accuracy, own silo", accuracy(scores["silo"]["test"])),
        ("validation accuracy, own silo", accuracy(scores["silo"]["val"])),
        ("best round", f"{record['best_round']} of {record['rounds']}"),
        *([("training diverged", record["diverged"])] if "diverged" in record else []),
        ("sent up / down", f"{size(traffic['up_bytes'])} / {size(traffic['down_bytes'])}"),
        ("seconds", f"{record['seconds']['total']:.1f}"),
        ("privacy", record["privacy"]["verdict"]),
    ]
