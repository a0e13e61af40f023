"""The commands that use a trained model: predict, export."""

from pathlib import Path
from typing import Annotated

import typer

from feddep.cli.console import note, say
from feddep.cli.options import check_file


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    for command in (predict, export):
        app.command(rich_help_panel="Use")(command)


def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or a silo's results.")],
    data: Annotated[Path, typer.Option(help="A silo's tables or graph folder, old or new.")],
    out: Annotated[Path, typer.Option(help="CSV or Parquet file, by its ending.")],
    silo: Annotated[
        str | None,
        typer.Option(help="Whose data they are, by name or number; default: found by the data."),
    ] = None,
) -> None:
    """Predict the class of every node, with the probability of each class.

    Tables are encoded, and missing neighbours generated, as the run did it for this silo.
    """
    from feddep.runs.data_to_predict import silo_names
    from feddep.runs.opening import open_run
    from feddep.runs.table_files import check_ending

    check_ending(out)
    check_file(out)
    result = open_run(run)
    found = result.predict_table(data, silo)
    found.write(out)
    names = silo_names(result.spec, int(result.record["clients"]))
    whose = "" if found.silo is None else f" as those of silo {names[found.silo]}"
    chosen = found.columns["class"].tolist()
    counts = ", ".join(f"{chosen.count(name)} of class {name}" for name in found.classes)
    say(f"{len(found)} nodes predicted{whose}: {counts}")
    if found.threshold is not None:
        wanted, least = found.threshold
        say(
            f"a node is called {found.classes[wanted]} from a probability of {least:.3g} on, the "
            "threshold that was best on validation nodes"
        )
    rare, first = found.highest(3)
    shown = ", ".join(f"{node} ({probability:.2f})" for node, probability in first)
    say(f"most probably of class {rare}: {shown}")
    note(f"stored in {out}")


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run, or a silo's results.")],
    out: Annotated[Path, typer.Option(help="File that ends in .onnx.")],
    silo: Annotated[
        str | None, typer.Option(help="Whose classifier, where each silo has its own.")
    ] = None,
) -> None:
    r"""Write the classifier as an ONNX file, for programs without feddep (needs `feddep\[onnx]`).

    It takes nodes with the features of their neighbours; missing neighbours are not generated.
    """
    from feddep.runs.opening import open_run

    check_file(out)
    open_run(run).export(out, silo)
    note(f"stored in {out}")
