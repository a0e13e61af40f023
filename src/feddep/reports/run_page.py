"""The page about a single run: what came out, what is promised, what was sent, how it went."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from feddep.errors import DataError
from feddep.reports.charts import Axis, Figure, Key, Panel, Point, Series
from feddep.reports.comparison import run_summary
from feddep.reports.formatting import footnotes, marked, size
from feddep.reports.page import figure_html, page, paragraph, table_html
from feddep.reports.palette import Style, style_of
from feddep.reports.privacy import price_rows
from feddep.reports.table import Table
from feddep.runs.files import Record, read_record, write_atomically
from feddep.runs.records import thin_history
from feddep.sweeps.sweep import History

NAME = "report.html"
_PRICES = {
    "paper": "as printed in the paper",
    "composed": "composed as the paper cites it",
    "sound": "sound: one edge, all that left",
}
_SCORES = {
    "global_test": "test, whole graph",
    "silo_test": "test, own silo",
    "silo_val": "validation, own silo",
}


def write_run_page(folder: Path, file: Path | None = None) -> Path:
    """Writes the page of a finished run, by default into its folder."""
    record = read_record(folder)
    if "silo" in record:  # earlier versions could save one as a run
        raise DataError(
            f"{folder} holds what a silo has of a run, and there is no page about that; the run's "
            "record is with the server"
        )
    text = run_page(record, _read_history(folder))
    target = file or folder / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, text)
    return target


def run_page(record: Record, history: History) -> str:
    """The page from a record and a thin history."""
    title = (
        f"{marked(record['method'])} on {record['dataset']}, {record['clients']} clients, "
        f"seed {record['seed']}"
    )
    names = ("partition", "split", "preset")
    facts = "Of this run: " + ", ".join(f"{name} `{record[name]}`" for name in names) + "."
    body = [
        paragraph(facts),
        *(paragraph(note, "note") for note in footnotes([record["method"]])),
        "<h2>Outcome</h2>",
        table_html(summary_table(record)),
        "<h2>Privacy</h2>",
        paragraph(record["privacy"]["statement"]),
        table_html(price_table(record["privacy"])),
        "<h2>Traffic and time</h2>",
        table_html(traffic_table(record)),
    ]
    if history["round"]:
        body += ["<h2>Training</h2>", figure_html(history_figure(record, history))]
    return page(title, body)


def summary_table(record: Record) -> Table:
    """What ``feddep run`` prints."""
    return Table(("", "value"), [(name.strip(), text) for name, text in run_summary(record)])


def price_table(privacy: Mapping[str, Any]) -> Table:
    """The three prices; a record from an older version has none."""
    found = {name: texts for name, *texts in price_rows(privacy)}
    nothing = ("not priced", "–", "–")
    rows = [(text, *found.get(name, nothing)) for name, text in _PRICES.items()]
    notes = [privacy["relation"]] if "relation" in privacy else []
    return Table(("price", "ε", "δ", "promise"), rows, notes)


def traffic_table(record: Record) -> Table:
    """Bytes and seconds of each phase, and in all."""
    seconds = record["seconds"]
    rows = [
        (name, size(sent["up_bytes"]), size(sent["down_bytes"]), _time(seconds["phases"].get(name)))
        for name, sent in record["traffic"]["phases"].items()
    ]
    up, down = (size(record["traffic"][key]) for key in ("up_bytes", "down_bytes"))
    rows.append(("in all", up, down, _time(seconds["total"])))
    return Table(("phase", "sent by clients", "sent to clients", "seconds"), rows)


def history_figure(record: Record, history: History) -> Figure:
    """Scores, loss and seconds by round; the best round is marked."""
    own = replace(style_of(record["method"]), dash="")
    styles = {
        "global_test": own,
        "silo_test": replace(own, dash="2 3"),
        "silo_val": Style("#555555", "circle", "6 3"),
    }
    scores = [_line(history, name, (name,), styles[name]) for name in _SCORES]
    others = ("loss", "training loss (cross-entropy)"), ("seconds", "seconds so far")
    panels = [Panel("accuracy", Axis("round"), Axis("accuracy"), scores)]
    panels += [
        Panel(name, Axis("round"), Axis(label), [_line(history, name, (name,), own)])
        for name, label in others
    ]
    keys = [Key(name, text, styles[name], "scores") for name, text in _SCORES.items()]
    caption = f"The outcome is that of round {record['best_round']}, the best by validation."
    return Figure("history", "By round", panels, keys, caption)


def _line(history: History, name: str, keys: tuple[str, ...], style: Style) -> Series:
    text = _SCORES.get(name, name)
    rounds = zip(history["round"], history[name], strict=True)
    marks = [
        Point(number, value, f"round {number:g}, {text}: {value:.4g}")
        for number, value in rounds
        if number is not None and value is not None
    ]
    return Series(keys, marks, style, marks=len(marks) < 3)


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.2f}"


def _read_history(folder: Path) -> History:
    file = folder / "history.jsonl"
    try:
        lines = file.read_text().splitlines() if file.exists() else []
        return thin_history([json.loads(line) for line in lines])
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"cannot read the history {file}: {error}") from None
