"""What collaboration bought, as a page and as Markdown: the answer first, then the figures."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from feddep.reports.formatting import size
from feddep.reports.intervals import intervals_svg
from feddep.reports.page import page, paragraph, table_html
from feddep.reports.table import Table
from feddep.runs.files import write_atomically
from feddep.value.measure import Interval, Measured, Value
from feddep.value.regime import RUN

TITLE = "What did collaboration buy?"
PAGE, TEXT = "value.html", "value.md"
_FEW = 5
_MANY = 0.25


def write_value(value: Value, folder: Path) -> list[Path]:
    """Writes the page and the text into a folder."""
    files = [folder / PAGE, folder / TEXT]
    for file, content in zip(files, (value_page(value), value_markdown(value)), strict=True):
        write_atomically(file, content)
    return files


def value_page(value: Value) -> str:
    """One file that works offline."""
    body = [paragraph(text) for text in answers(value)]
    body += ["<h2>Ways of learning</h2>", table_html(ways_table(value))]
    method = value.way(value.method)
    if method is not None and method.gain is not None and len(value.silos) > 1:
        body += [
            "<h2>Silo by silo</h2>",
            _figure(value, method),
            table_html(silos_table(value)),
        ]
    if value.beside is not None:
        body += [f"<h2>{_split_title(value.beside)}</h2>"]
        body += [paragraph(text) for text in answers(value.beside)]
        body += [table_html(ways_table(value.beside))]
    body += ["<h2>How this was measured</h2>", *(paragraph(text) for text in method_notes(value))]
    return page(TITLE, body)


def value_markdown(value: Value) -> str:
    """The same as text."""
    lines = [f"# {TITLE}", "", *(f"{text}\n" for text in answers(value))]
    lines += ["## Ways of learning", "", ways_table(value).markdown()]
    if len(value.silos) > 1:
        lines += ["## Silo by silo", "", silos_table(value).markdown()]
    if value.beside is not None:
        lines += [f"## {_split_title(value.beside)}", ""]
        lines += [f"{text}\n" for text in answers(value.beside)]
        lines += [ways_table(value.beside).markdown()]
    lines += ["## How this was measured", "", *(f"{text}\n" for text in method_notes(value))]
    return "\n".join(lines)


def answers(value: Value) -> Iterator[str]:
    """What a reader wants to know, in sentences that the intervals bear out."""
    alone, method = value.way(value.reference), value.way(value.method)
    if alone is None or alone.score is None or method is None or method.score is None:
        yield "No silo has test nodes on which this can be judged."
        return
    if method.gain is not None:
        yield _gained(value, alone, method, method.gain)
    fedavg = value.way("fedavg")
    if fedavg is not None and fedavg is not method and fedavg.score is not None and fedavg.gain:
        yield f"Plain FedAvg comes to {_number(fedavg.score)}: {_told(fedavg.gain)}."
    yield from _beside_trees(method)
    if len(value.silos) > 1 and method.gain is not None:
        yield _by_silo(value, method)
    yield _price(method)
    yield from _regime(value)


def ways_table(value: Value) -> Table:
    """Every way of learning: its score, what it gains, what it costs."""
    rare = value.positive is not None
    rows = []
    for way in value.ways:
        gain = "" if way.name == value.reference else "–"
        row = [way.name, _number(way.score), gain if way.gain is None else _interval(way.gain)]
        row.append("" if way.beyond_trees is None else _interval(way.beyond_trees))
        if rare:
            row.append("–" if way.hits is None else f"{way.hits[0]:.3g} of {way.hits[1]}")
        row += [size(way.up_bytes), _seconds(way.seconds), way.privacy]
        rows.append(row)
    headings = ["way", value.metric, f"above {value.reference} [95%]", "above trees [95%]"]
    headings += ["right alerts"] if rare else []
    headings += ["sent by silos", "seconds", "privacy"]
    notes = [f"*{way.name}*: {way.about.rstrip('.')}." for way in value.ways]
    notes.append("*Above trees*: beside the better of the trees that a silo can grow alone.")
    if rare:
        notes.append(
            "*Right alerts*: each silo looks at as many of its test nodes as there are nodes of "
            f"class {value.positive} among them, those with the highest scores first."
        )
    return Table(headings, rows, notes)


def silos_table(value: Value) -> Table:
    """Every silo's own score under each way."""
    headings = ["silo", "test nodes"]
    headings += [] if value.positive is None else [f"of class {value.positive}"]
    headings += [way.name for way in value.ways]
    rows = []
    for number, silo in enumerate(value.silos):
        row = [silo, str(value.test_nodes[number])]
        row += [] if value.positive is None else [str(value.positives[number])]
        rows.append([*row, *(_number(way.silos[number]) for way in value.ways)])
    return Table(headings, rows)


def method_notes(value: Value) -> Iterator[str]:
    """How to read the figures."""
    looked = "" if value.positive is None else f" of class {value.positive}"
    yield (
        f"Scores are the {value.metric}{looked} on each silo's own test nodes, in the mean over "
        "silos, of the round that was best on validation nodes. All ways have the same training, "
        "validation and test nodes, and the run's settings."
    )
    seeds = "one seed" if value.seeds == 1 else f"{value.seeds} seeds, which are resampled too"
    yield (
        "Intervals hold 95% of 2,000 resamples of the test nodes, the same for every way, so that "
        f"differences are paired; {seeds}. Chance in training is "
        + ("not in them." if value.seeds == 1 else "in them as far as the seeds show it.")
    )
    yield from value.notes


def _figure(value: Value, method: Measured) -> str:
    rows = [
        (name, gain.value, gain.low, gain.high)
        for name, gain in zip(value.silos, method.silo_gains, strict=True)
        if gain is not None
    ]
    if method.gain is not None:
        rows.append(("mean over silos", method.gain.value, method.gain.low, method.gain.high))
    label = f"{value.metric} of {method.name} above {value.reference}, with 95% intervals"
    return intervals_svg(rows, label)


def _gained(value: Value, alone: Measured, method: Measured, gain: Interval) -> str:
    scores = f"from {_number(alone.score)} to {_number(method.score)}"
    if gain.above:
        return (
            f"Training with the others ({method.name}) raised the {value.metric} {scores}: "
            f"{_told(gain)}. That is more than chance in the test nodes explains."
        )
    if gain.below:
        return (
            f"Training with the others ({method.name}) *lowered* the {value.metric} {scores}: "
            f"{_told(gain)}. On these data a silo does better alone."
        )
    return (
        f"Training with the others ({method.name}) changed the {value.metric} {scores}: "
        f"{_told(gain)}. The interval holds 0, so these test nodes do not show a gain or a loss."
    )


def _beside_trees(method: Measured) -> Iterator[str]:
    beyond = method.beyond_trees
    if beyond is None:
        return
    told = f"{method.name} is {_told(beyond)} beside the better of them"
    if beyond.above:
        yield f"Trees that a silo can grow alone do worse: {told}."
    elif beyond.below:
        yield f"*Trees that a silo can grow alone do better*, without any network: {told}."
    else:
        yield f"Trees that a silo can grow alone are not told apart from it: {told}."


def _by_silo(value: Value, method: Measured) -> str:
    pairs = list(zip(value.silos, method.silo_gains, strict=True))
    up = [name for name, gain in pairs if gain is not None and gain.above]
    down = [name for name, gain in pairs if gain is not None and gain.below]
    few = [
        name
        for name, count in zip(value.silos, value.positives, strict=True)
        if count is not None and count < _FEW
    ]
    parts = [f"of {len(pairs)} silos, {len(up)} gain by their own interval"]
    parts[0] += f" ({', '.join(up)})" if up else ""
    parts.append(f"{len(down)} lose" + (f" ({', '.join(down)})" if down else ""))
    text = " and ".join(parts)
    text = f"{text[0].upper()}{text[1:]}."
    if few:
        text += f" Fewer than {_FEW} test nodes of the class are too few to say: {', '.join(few)}."
    return text


def _price(method: Measured) -> str:
    spent = f"{size(method.up_bytes)} sent by all silos and " if method.up_bytes else ""
    took = "" if method.seconds is None else f"{method.seconds:.1f} seconds of training; "
    return f"The price: {spent}{took}privacy: {method.privacy}."


def _split_title(value: Value) -> str:
    return f"The same with nodes divided {value.split}"


def _regime(value: Value) -> Iterator[str]:
    found = value.regime
    if not found:
        return
    for counted in found["splits"]:
        yield _known_counterparties(value, counted)
    yield (
        "Where many have one, sharing labels over known links is worth trying; where few have, it "
        "misleads."
    )
    few = list(_silos_without(value, found["splits"][-1]))
    if few:
        yield (
            f"Fewer than {_MANY:.0%} of these test nodes have one, {_of_split(found['splits'][-1])}"
            f", in {', '.join(few)}."
        )
    if "links_out_of_the_silo" in found:
        yield f"The silos know {sum(found['links_out_of_the_silo']):,} links to other silos."


def _of_split(counted: Mapping[str, Any]) -> str:
    split = str(counted["split"])
    return f"under the split {split}" if split == RUN else f"divided {split}"


def _known_counterparties(value: Value, counted: Mapping[str, Any]) -> str:
    wanted = sum(counted["test_nodes_of_the_class"])
    inside = sum(counted["with_confirmed_neighbour_in_the_silo"])
    text = (
        f"Of {wanted} test nodes of class {value.positive}, {_of_split(counted)}, {inside} have a "
        "counterparty in their own silo that is known, from training, to be of that class"
    )
    if "with_confirmed_neighbour_anywhere" in counted:
        text += f"; {counted['with_confirmed_neighbour_anywhere']} have one in some silo"
    return f"{text}."


def _silos_without(value: Value, counted: Mapping[str, Any]) -> Iterator[str]:
    """The silos few of whose test nodes have a confirmed counterparty."""
    inside = counted["with_confirmed_neighbour_in_the_silo"]
    known = counted.get("with_confirmed_neighbour_anywhere_by_silo", inside)
    of = counted["test_nodes_of_the_class"]
    for name, some, wanted in zip(value.silos, known, of, strict=True):
        if wanted and some < _MANY * wanted:
            yield name


def _told(gain: Interval) -> str:
    return f"{_signed(gain.value)} ({_signed(gain.low)} to {_signed(gain.high)})"


def _interval(gain: Interval) -> str:
    return f"{_signed(gain.value)} [{_signed(gain.low)}, {_signed(gain.high)}]"


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
