"""A model card beside the weights: what the model reads, how it was trained, what it is good for.

After Mitchell et al., Model Cards for Model Reporting (2019). JSON for programs, Markdown for
people; both hold the same.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from feddep.algorithms import find_method
from feddep.errors import DataError
from feddep.graph.schema import Schema
from feddep.reports.formatting import markdown_table
from feddep.runs.files import write_atomically
from feddep.runs.opening import open_run
from feddep.runs.result import Result

NAMES = ("model_card.md", "model_card.json")
_VALUE = "value.json"
_SHOWN = 40

INTENDED = (
    "Ranking nodes of the silos that trained it, or of silos with the same columns and the same "
    "kind of links, so that people look at the likeliest first.",
)
LIMITS = (
    "A probability is a rank, not a calibrated risk: it depends on how rare the class was in "
    "training.",
    "Not for decisions about a person that no person looks at.",
    "Scores hold for the test nodes that they were measured on. Other months, silos or customers "
    "may differ; measure again.",
    "It was not examined whether groups of people are treated differently.",
)


def write_card(folder: Path) -> Path:
    """Writes the card of a finished run, or of what a silo keeps of one, into its folder."""
    card = card_of(open_run(folder), _value_of(folder))
    text, plain = (folder / name for name in NAMES)
    write_atomically(plain, json.dumps(card, indent=1, ensure_ascii=False) + "\n")
    write_atomically(text, card_markdown(card))
    return text


def card_of(result: Result, value: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the card says, as plain data.

    Args:
        result: the run.
        value: what ``feddep value`` found, for scores by silo.
    """
    record, spec = result.record, result.spec
    model = result.models[0] if result.models else None
    schema = None if model is None else model.schema
    shape = f"{spec.model.layers} convolutions, {spec.model.hidden} hidden units"
    return {
        "model": {
            "kind": f"GraphSAGE, {shape}",
            "classifiers": len(result.models),
            "weights": 0 if model is None else sum(a.size for a in model.weights.values()),
            "reads": "features of a node and the mean over its neighbours, "
            f"{spec.model.layers} steps away",
        },
        "schema": None if schema is None else _schema(schema),
        "training": {
            "method": spec.method,
            "about": find_method(spec.method).summary,
            "data": record["dataset"],
            "silos": record["clients"],
            "rounds": record["rounds"],
            "round_of_the_model": record.get("best_round"),
            "chosen_by": (record.get("selection") or {}).get("metric"),
            "seed": spec.seed,
            "sizes": record.get("data"),
            "versions": record.get("versions"),
        },
        "scores": record["scores"],
        "scores_by_silo": None if value is None else _by_silo(value),
        "privacy": {
            "mechanism": record["privacy"].get("mechanism"),
            "statement": record["privacy"].get("statement"),
            "sound": record["privacy"].get("sound"),
        },
        "intended_use": list(INTENDED),
        "limits": list(LIMITS),
    }


def card_markdown(card: Mapping[str, Any]) -> str:
    """The card for people."""
    return "\n".join(_lines(card))


def _lines(card: Mapping[str, Any]) -> Iterator[str]:
    training, model, privacy = card["training"], card["model"], card["privacy"]
    yield f"# Model card: {training['method']} on {training['data']}\n"
    yield f"{model['kind']}; {model['weights']:,} weights. It reads {model['reads']}."
    if model["classifiers"] > 1:
        yield f"There are {model['classifiers']} classifiers, one for each silo."
    yield "\n## Intended use\n"
    yield from (f"- {text}" for text in card["intended_use"])
    yield "\n## Limits\n"
    yield from (f"- {text}" for text in card["limits"])
    yield "\n## Training\n"
    yield f"{training['about'].rstrip('.')}. {training['silos']} silos, seed {training['seed']}."
    if training["round_of_the_model"] is not None:
        by = (training["chosen_by"] or "accuracy").replace("_", " ")
        yield (
            f"The model is that of round {training['round_of_the_model']} of "
            f"{training['rounds']}, the best by {by} on validation nodes."
        )
    yield "\n## Scores\n"
    yield from _scores(card)
    yield "\n## Privacy\n"
    yield privacy["statement"] or _sound(privacy["sound"])
    yield "\n## Columns and classes\n"
    yield from _columns(card["schema"])
    yield ""


def _scores(card: Mapping[str, Any]) -> Iterator[str]:
    found = [
        (f"{where}, {name}".replace("_", " "), f"{number:.4f}")
        for where, scores in card["scores"].items()
        for name, number in (scores or {}).items()
        if isinstance(number, float)
    ]
    yield markdown_table(("score", "value"), found) if found else "None were measured."
    by_silo = card["scores_by_silo"]
    if by_silo is None:
        yield "\n`feddep value` adds the scores of each silo."
        return
    yield f"\nBy silo, {by_silo['metric']}:\n"
    rows = [
        (name, str(nodes), "–" if score is None else f"{score:.3f}")
        for name, nodes, score in by_silo["rows"]
    ]
    yield markdown_table(("silo", "test nodes", by_silo["metric"]), rows)


def _columns(schema: Mapping[str, Any] | None) -> Iterator[str]:
    if schema is None:
        yield "The data named neither; columns are known by their order."
        return
    names = [f"`{name}` ({kind})" for name, kind in schema["columns"]]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    yield f"{', '.join(names[:_SHOWN])}{more}.\n"
    yield f"Classes: {', '.join(schema['classes']) or 'not named'}. Digest `{schema['digest']}`."


def _sound(sound: Mapping[str, Any] | None) -> str:
    epsilon = (sound or {}).get("epsilon")
    if epsilon is None:
        return "No bound on what a link may reveal."
    return f"ε = {epsilon:.4g} at δ = {(sound or {}).get('delta', 0):g} for one link."


def _schema(schema: Schema) -> dict[str, Any]:
    return {
        "columns": [[column.name, column.kind] for column in schema.columns],
        "classes": list(schema.classes),
        "digest": schema.digest(),
    }


def _by_silo(value: Mapping[str, Any]) -> dict[str, Any]:
    way = next(way for way in value["ways"] if way["name"] == value["method"])
    rows = list(map(list, zip(value["silos"], value["test_nodes"], way["silos"], strict=True)))
    return {"metric": value["metric"], "rows": rows}


def _value_of(folder: Path) -> Mapping[str, Any] | None:
    file = folder / _VALUE
    if not file.exists():
        return None
    try:
        found = dict(json.loads(file.read_text(encoding="utf-8")))
        _by_silo(found)
        return found
    except (OSError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise DataError(f"cannot read {file}: {error}; make it again with feddep value") from None
