"""The commands about a silo's own tables: check, import, schema."""

from pathlib import Path
from typing import Annotated, Any

import typer

from feddep.cli.console import note, print_json, say
from feddep.cli.options import AsJson, check_file, check_new
from feddep.errors import InputError

schema_app = typer.Typer(no_args_is_help=True)

_OPTIONS = (
    *("id", "label", "split", "case", "since", "split_by"),
    *("source", "target", "weight", "time"),
)

Out = Annotated[Path, typer.Option(help="New graph folder.")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="The agreed schema, of `feddep schema join`.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="Which column is what, such as id=customer or weight=amount; known: "
        f"{', '.join(_OPTIONS)}, source_silo, target_silo. May be given several times.",
    ),
]
EdgeFeatures = Annotated[
    bool | None,
    typer.Option(
        "--edge-features/--no-edge-features",
        help="Counts, sums and means of each node's edges, in and out, as features.",
    ),
]
Flows = Annotated[
    bool | None,
    typer.Option(
        "--flows/--no-flows",
        help="Keep direction and weight of edges, for models that read them (model.directions, "
        "model.weighted).",
    ),
]
SplitSeed = Annotated[int, typer.Option("--seed", help="Of the split, if the table has none.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    app.command(rich_help_panel="Data")(check)
    app.command("import", rich_help_panel="Data")(import_tables)
    app.add_typer(
        schema_app,
        name="schema",
        help="Agree with other silos on columns, categories and classes without showing data.",
        rich_help_panel="Data",
    )


def check(
    folders: Annotated[list[Path], typer.Argument(help="Folders of tables, or graph folders.")],
    schema: SchemaFile = None,
    column: Columns = None,
    edge_features: EdgeFeatures = None,
    flows: Flows = None,
    as_json: AsJson = False,
) -> None:
    """Say what is in a silo's tables and how it would be treated; nothing is written."""
    flags = _flags(column, edge_features=edge_features, flows=flows)
    found = {str(folder): _sentences(folder, schema, flags) for folder in folders}
    if as_json:
        print_json(found)
        return
    for folder, sentences in found.items():
        say(folder)
        for sentence in sentences:
            say(f"  {sentence}")


def import_tables(
    folder: Annotated[Path, typer.Argument(help="The folder with a silo's tables.")],
    out: Out,
    schema: SchemaFile = None,
    column: Columns = None,
    edge_features: EdgeFeatures = None,
    flows: Flows = None,
    seed: SplitSeed = 0,
) -> None:
    """Turn a silo's tables into a graph folder, for `feddep run` and `feddep silo`.

    Files and columns are found by their usual names, or by a file tables.toml beside them.
    """
    from feddep.tables.importing import import_folder
    from feddep.tables.report import sentences

    check_new(out)
    encoded = import_folder(
        folder, out, schema, seed=seed, **_flags(column, edge_features=edge_features, flows=flows)
    )
    for sentence in sentences(encoded):
        say(sentence)
    note(f"stored in {out}")


def _sentences(folder: Path, schema: Path | None, flags: dict[str, Any]) -> list[str]:
    from feddep.graph.folder import is_graph_folder, read_graph
    from feddep.tables.importing import encoded_folder
    from feddep.tables.report import graph_sentences, sentences

    if is_graph_folder(folder):
        return graph_sentences(read_graph(folder))
    return sentences(encoded_folder(folder, schema, **flags))


def _flags(columns: list[str] | None, **switches: bool | None) -> dict[str, Any]:
    flags: dict[str, Any] = {}
    for pair in columns or []:
        role, equals, name = pair.partition("=")
        if not equals or not role or not name:
            raise InputError(f"expected --column role=name, such as id=customer (got {pair!r})")
        flags[role.strip()] = name.strip()
    return flags | {name: value for name, value in switches.items() if value is not None}


@schema_app.command("make")
def schema_make(
    folder: Annotated[Path, typer.Argument(help="The folder with a silo's tables.")],
    out: Annotated[Path, typer.Option(help="New file.")] = Path("schema.json"),
    column: Columns = None,
    edge_features: EdgeFeatures = None,
) -> None:
    """Write what may be shown of a silo's tables: names, types, categories. No counts, no cells."""
    from feddep.tables.agreeing import make_schema, write_schema

    check_file(out)
    schema = make_schema(folder, **_flags(column, edge_features=edge_features))
    write_schema(schema, out)
    for entry in schema.columns:
        what = ", ".join(entry.categories) if entry.kind == "category" else entry.kind
        say(f"{entry.name}: {what}{' (log-scaled)' if entry.log else ''}")
    say(f"classes: {', '.join(schema.classes) or 'none'}")
    note(f"stored in {out}: look at it, delete what others must not see, and give it to them")


@schema_app.command("join")
def schema_join(
    files: Annotated[list[Path], typer.Argument(help="Schemas of all silos.")],
    out: Annotated[Path, typer.Option(help="New file.")] = Path("agreed.json"),
) -> None:
    """Join the silos' schemas to the one that all encode by; say where they differ."""
    from feddep.tables.agreeing import join_schemas, read_schema, write_schema

    check_file(out)
    joined, differences = join_schemas({str(file): read_schema(file) for file in files})
    for told in differences:
        say(told)
    write_schema(joined, out)
    note(f"stored in {out}; every silo imports with --schema {out}")


@schema_app.command("sums")
def schema_sums(
    folder: Annotated[Path, typer.Argument(help="The folder with a silo's tables.")],
    schema: Annotated[Path, typer.Option(help="The agreed schema.")],
    out: Annotated[Path, typer.Option(help="New file.")] = Path("sums.json"),
    epsilon: Annotated[
        float | None, typer.Option(help="Hide one node: ε of Gaussian noise on the sums.")
    ] = None,
    delta: Annotated[float, typer.Option(help="δ of the noise.")] = 1e-6,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            help="With noise, the range that a column's cells are cut to, such as age=0:120. For "
            "every column of numbers."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="The silo's configuration: its consent is asked, its log gets a line."),
    ] = None,
    column: Columns = None,
) -> None:
    """Write the sums of a silo's columns, from which all silos agree on scales."""
    from feddep.deployment.operations.scaling import Noise, tell_sums

    check_file(out)
    if epsilon is None and bound:
        raise InputError("--bound is for noise; give --epsilon too, or leave it out")
    bounds = dict(map(_bound, bound or []))
    noise = None if epsilon is None else Noise(epsilon=epsilon, delta=delta, bounds=bounds)
    found = tell_sums(folder, schema, out, noise=noise, config=config, flags=_flags(column))
    for name, (cells, total, squares) in zip(found.columns, found.table.tolist(), strict=True):
        say(f"{name}: {cells:g} cells, sum {total:g}, squares {squares:g}")
    if noise is None:
        note("these are exact: two such files with and without a node tell its cells")
    else:
        note(f"with noise: ε = {noise.epsilon:g}, δ = {noise.delta:g} for one node; each file anew")
    note(f"stored in {out}: give it to the others")


@schema_app.command("scale")
def schema_scale(
    schema: Annotated[Path, typer.Argument(help="The agreed schema.")],
    files: Annotated[list[Path], typer.Argument(help="Sums of all silos.")],
    out: Annotated[Path, typer.Option(help="New file.")] = Path("scaled.json"),
) -> None:
    """Put the silos' sums together: the schema with one scale for all."""
    from feddep.tables.agreeing import read_schema, write_schema
    from feddep.tables.scaling import Sums, with_scales

    check_file(out)
    scaled = with_scales(read_schema(schema), {str(file): Sums.read(file) for file in files})
    for entry in scaled.columns:
        if entry.mean is not None:
            say(f"{entry.name}: mean {entry.mean:g}, deviation {entry.deviation:g}")
    write_schema(scaled, out)
    note(f"stored in {out}; every silo imports with --schema {out}")


def _bound(text: str) -> tuple[str, tuple[float, float]]:
    name, equals, limits = text.rpartition("=")
    low, colon, high = limits.partition(":")
    try:
        if not (equals and colon):
            raise ValueError
        return name.strip(), (float(low), float(high))
    except ValueError:
        raise InputError(f"expected --bound name=lowest:highest (got {text!r})") from None
