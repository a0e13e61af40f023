"""The table of what was tried, in ``docs/deployment.md``, from ``record.json``."""

from pathlib import Path

from hostile import inputs, kills
from hostile.faults import KINDS, SEEDS
from hostile.record import Record, Tally

DOCUMENT = Path(__file__).parents[2] / "docs" / "deployment.md"
BEGIN, END = "<!-- make campaign-record -->\n", "<!-- end -->\n"


def rows(record: Record) -> list[str]:
    """Lines of Markdown; what was not tried to its end says how far it is."""
    stored = record.read()
    tried = stored.get("inputs", {})
    whole = sum(subject.cases for subject in inputs.SUBJECTS.values())
    own = [tried.get(name, Tally()) for name in inputs.SUBJECTS]
    faults = [stored.get("faults", {}).get(method, Tally()) for method in SEEDS]
    killed = [stored.get("kills", {}).get(method, Tally()) for method in kills.RUNS]
    times = _sum(killed, kills.KILLS)
    return [
        "| tried | how many | failing | how they ended |",
        "|---|---:|---:|---|",
        _row("fuzzed inputs: files, tables, settings, keys, checkpoints, logs, messages, envelopes",
             own, whole, f"{_sum(own, 'refused'):,} refused in one line, "
             f"{_sum(own, 'taken'):,} still valid"),
        _row("seeds of lost, repeated and late messages, killed parties, full and damaged disks",
             faults, sum(SEEDS.values()), f"{_sum(faults, KINDS[0]):,} with the undisturbed "
             f"result, {_sum(faults, KINDS[1]):,} with the reason why not"),
        _row("runs of real processes that were killed (`kill -9`) at random moments, and resumed",
             killed, sum(kills.RUNS.values()), f"{_sum(killed, kills.SAME):,} with the "
             f"undisturbed result, after {times:,} kills"),
    ]  # fmt: skip


def _row(what: str, tallies: list[Tally], whole: int, ended: str) -> str:
    tried = sum(tally.tried for tally in tallies)
    failing = sum(len(tally.failing) for tally in tallies)
    number = f"{tried:,}" if tried >= whole else f"{tried:,} of {whole:,}"
    return f"| {what} | {number} | {failing} | {ended} |"


def _sum(tallies: list[Tally], end: str) -> int:
    return sum(tally.found.get(end, 0) for tally in tallies)


def written(text: str, record: Record) -> str:
    """The document with the table of today."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n".join(rows(record)) + "\n" + END + rest.split(END)[1]


def main() -> None:
    """Writes the table."""
    DOCUMENT.write_text(written(DOCUMENT.read_text(), Record()))


if __name__ == "__main__":
    main()
