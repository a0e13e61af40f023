"""Generated payments as folders of tables, one for each bank."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from feddep.errors import InputError
from feddep.graph.files import AnyPath, replacing
from feddep.graph.payments.columns import Column, feature_columns
from feddep.graph.payments.facts import bank_name, facts_of
from feddep.graph.payments.generate import Generated, generate_payments
from feddep.graph.payments.parts import PARTS, SPLITS
from feddep.graph.payments.spec import PaymentsSpec
from feddep.graph.payments.story import readme
from feddep.graph.payments.typologies import TYPOLOGIES

Format = Literal["csv", "parquet"]
FORMATS: tuple[Format, ...] = ("csv", "parquet")


def make_payments(
    folder: AnyPath, *, split: str = SPLITS[0], format: Format = "csv", **settings: Any
) -> dict[str, Any]:
    """Writes a folder of tables for each bank, ready for ``feddep run --silos``.

    Args:
        folder: a new folder; ``bank-0``, ``bank-1``, … in it are what the banks hold.
        split: the column of ``splits.csv`` that ``accounts`` carries: ``stratified_0`` to 2, or
            ``pattern_0`` to 2, where whole patterns are held out.
        format: of the banks' tables, ``csv`` or ``parquet``.
        **settings: fields of :class:`~feddep.graph.payments.spec.PaymentsSpec`, such as
            ``banks=3, accounts=2000``.

    Returns:
        What was made, as ``facts.json`` holds it.

    Raises:
        InputError: a setting is out of range, or the folder holds something already.
    """
    known = PaymentsSpec.__dataclass_fields__
    if unknown := sorted(settings.keys() - known):
        raise InputError(f"payments are made from {', '.join(known)} (got {', '.join(unknown)})")
    for name, value, choices in (("split", split, SPLITS), ("format", format, FORMATS)):
        if value not in choices:
            raise InputError(f"{name} must be one of {', '.join(choices)} (got {value!r})")
    spec = PaymentsSpec(**settings)
    with replacing(Path(folder), overwrite=False) as draft:
        made = generate_payments(spec)
        facts = {"settings": asdict(spec), "split": split} | facts_of(made)
        _fill(made, draft, split, format)
        (draft / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        (draft / "README.md").write_text(readme(facts, format), encoding="utf-8")
    return facts


def _fill(made: Generated, draft: Path, split: str, format: Format) -> None:
    people, payments = made.people, made.payments
    columns = feature_columns(people, payments)
    ids = np.arange(people.accounts)
    accounts = {"id": ids, **columns, "label": made.labels}
    accounts["split"] = np.array(PARTS)[made.splits[split]]
    names = np.array([bank_name(number) for number in range(made.spec.banks)])
    bank_of = {
        "source_bank": people.bank[payments.source],
        "target_bank": people.bank[payments.target],
    }
    for number, name in enumerate(names.tolist()):
        (draft / name).mkdir()
        own = np.flatnonzero(people.bank == number)
        _write(draft / name / "accounts", accounts, own, format)
        touches = np.flatnonzero(
            (bank_of["source_bank"] == number) | (bank_of["target_bank"] == number)
        )
        rows = {
            "source": payments.source,
            "target": payments.target,
            "amount": payments.cents / 100,
            "time": payments.day,
        }
        taken = {key: values[touches] for key, values in rows.items()}
        taken |= {key: names[values[touches]] for key, values in bank_of.items()}
        _write(draft / name / "transactions", taken, slice(None), format)
    parts = {key: np.array(PARTS)[values] for key, values in made.splits.items()}
    _write(draft / "splits", {"id": ids} | parts, slice(None), "csv")
    laundering = made.laundering
    truth = {
        "pattern": laundering.pattern,
        "type": np.array(list(TYPOLOGIES))[laundering.typology[laundering.pattern]],
        "id": laundering.account,
    }
    _write(draft / "patterns_truth", truth, slice(None), "csv")


def _write(stem: Path, columns: Mapping[str, Column], rows: Any, format: Format) -> None:
    """A table; a CSV file has the same bytes on every machine, a Parquet file the same values."""
    table = pa.table({name: _arrow(values[rows]) for name, values in columns.items()})
    path = stem.with_suffix(f".{format}")
    if format == "parquet":
        pyarrow.parquet.write_table(table, path)
        return
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as file:
        file.write((",".join(columns) + "\n").encode())
        pyarrow.csv.write_csv(table, file, options)


def _arrow(values: Column) -> pa.Array:
    missing = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    return pa.array(np.ma.getdata(values), mask=missing)
