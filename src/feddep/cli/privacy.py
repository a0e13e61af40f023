"""The commands about privacy: what a mechanism or a run promises, and what an attacker finds."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from feddep.cli.console import counted, note, out_console, print_json, say, table_of
from feddep.cli.options import (
    AsJson,
    Clients,
    Dataset,
    Epsilon,
    Links,
    Mechanism,
    Method,
    Partition,
    Preset,
    Rounds,
    Seed,
    Settings,
    Split,
    check_writable,
    folder_for,
    given_settings,
    spec_of,
)
from feddep.errors import InputError


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    for command in (privacy, statement, audit):
        app.command(rich_help_panel="Privacy")(command)


def privacy(
    context: typer.Context,
    run_folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of a finished run; the options are then ignored."),
    ] = None,
    mechanism: Mechanism = "nfdp",
    method: Method = "feddep",
    fanout: Annotated[int, typer.Option(help="Neighbours drawn from a list, d.")] = 5,
    min_degree: Annotated[int, typer.Option(help="Length of the list, D.")] = 10,
    hops: Annotated[int, typer.Option(help="Depth of the embeddings, L.")] = 2,
    epochs: Annotated[int, typer.Option(help="Epochs of the local GNN, N.")] = 50,
    rounds: Annotated[int, typer.Option(help="Averaging rounds.")] = 50,
    keep: Annotated[float, typer.Option(help="Rate of the Bernoulli sampler, r.")] = 1.0,
    delta_prime: Annotated[float, typer.Option(help="δ' of the paper's composition.")] = 1e-5,
    nodes: Annotated[int, typer.Option(help="Nodes of the silo's graph.")] = 2708,
    edges: Annotated[int, typer.Option(help="Edges of the silo's graph.")] = 5278,
    epsilon: Annotated[
        float, typer.Option(help="ε that a mechanism's noise is calibrated for; 0: none.")
    ] = 0.0,
    noise: Annotated[float, typer.Option(help="Noise multiplier σ of DP-SGD.")] = 2.0,
    batch: Annotated[float, typer.Option(help="Share of the examples in a DP-SGD batch.")] = 0.1,
    delta: Annotated[float, typer.Option(help="δ at which noise is priced.")] = 1e-5,
    keep_edge: Annotated[
        float,
        typer.Option(help="Probability that randomised response keeps an edge; 0: fixed by ε."),
    ] = 0.0,
    occurrences: Annotated[
        int,
        typer.Option(help="Neighbour lists that a node may occur in with DP-SGD; 0: no limit."),
    ] = 0,
    summed_hops: Annotated[
        int, typer.Option(help="Hops that aggregation perturbation sums over, K.")
    ] = 1,
    max_degree: Annotated[
        int,
        typer.Option(help="Edges of one node that aggregation perturbation hides; 0: one edge."),
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Compute (ε, δ) of a mechanism or of a finished run.

    Three ways to account for one edge: as the paper prints it, composed as the theorem that it
    cites says, and sound for everything that leaves a silo. A verdict says which of them hold; the
    first two are given where the paper's sampling is used. Then follows in words what that means
    for a silo of so many nodes and edges.
    """
    from feddep.reports.privacy import Question, answer, of_run, price_rows

    if run_folder is not None:
        found = of_run(run_folder)
    else:
        found = answer(
            Question(**{field.name: context.params[field.name] for field in fields(Question)})
        )
    if as_json:
        print_json(found)
        return
    out_console.print(table_of(("", "ε", "δ", "verdict"), price_rows(found)))
    out_console.print(found["statement"])


def statement(
    source: Annotated[
        Path, typer.Argument(help="Folder of a finished run, or a silo's silo.toml.")
    ],
    run: Annotated[
        str | None,
        typer.Option(help="Name of a run in the silo's log; default: the last that it agreed to."),
    ] = None,
    audit: Annotated[
        Path | None, typer.Option(help="An audit.json of `feddep audit` to be attached.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; default: that of the run or of silo.toml.")
    ] = None,
) -> None:
    """Write a privacy statement that can be filed, as Markdown and HTML.

    It says what is promised, for which unit and relation, against whom, by which mechanisms and
    versions, what left, what is spent and left over all runs of a silo, and what it rests on.
    """
    from feddep.deployment.operations.silo_account import open_books
    from feddep.reports.filed_audit import audit_section
    from feddep.reports.filed_run import statement_of_run
    from feddep.reports.filed_silo import statement_of_silo

    attached = audit_section(audit)
    if source.is_file():
        filing, folder = statement_of_silo(open_books(source), run, attached), source.parent
    elif run is not None:
        raise InputError("--run names a run in a silo's log; give the silo's silo.toml")
    else:
        filing, folder = statement_of_run(source, attached), source
    check_writable(out or folder)
    for file in filing.write(out or folder):
        say(file)


def audit(
    context: typer.Context,
    method: Method = "feddep",
    dataset: Dataset = None,
    clients: Clients = None,
    partition: Partition = None,
    split: Split = None,
    rounds: Rounds = 10,
    seed: Seed = None,
    preset: Preset = None,
    mechanism: Mechanism = None,
    epsilon: Epsilon = None,
    canaries: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="INTEGER", help="Edges to plant by coin; default: all there is room for."
        ),
    ] = None,
    share: Annotated[
        float,
        typer.Option(help="Share of the canaries to guess about, the surest ones."),
    ] = 1.0,
    runs: Annotated[
        int, typer.Option(min=1, metavar="INTEGER", help="Runs to pool, with seeds from --seed on.")
    ] = 1,
    plant_leak: Annotated[
        bool,
        typer.Option("--plant-leak", help="Also release raw neighbour sums: it must be found."),
    ] = False,
    crafted: Annotated[
        str | None,
        typer.Option(help="The server makes its classifiers up: large, cancelling or overflowing."),
    ] = None,
    secrets: Annotated[
        str,
        typer.Option(
            help="What coins decide: edges inside silos, or the classes of nodes that linked silos "
            "tell each other of."
        ),
    ] = "edges",
    links: Links = None,
    out: Annotated[Path | None, typer.Option(help="Folder; default: under runs/.")] = None,
    as_json: AsJson = False,
    settings: Settings = None,
) -> None:
    """Attack a run with what its server sees: a lower bound on ε, beside the ε that is claimed.

    Some pairs of nodes become edges by a fair coin before anything else happens. Attackers who know
    all but the coins and the mechanism's noise guess them from the messages. Each attack's bound
    holds with 95% confidence by itself; fix --share and the attack that you will report before you
    look. A low bound is no proof of privacy: a cleverer attacker may find more.

    To see that it finds what is there and refutes nothing that holds (half a minute each):

    feddep audit --method fedavg --dataset cora --plant-leak

    feddep audit --method fedavg --dataset cora --mechanism randomised-response --epsilon 1 --runs 5

    feddep audit --method fedavg --dataset cora --mechanism randomised-response --epsilon 4 --runs 5
    """
    from feddep.audit.audit import PICTURE
    from feddep.audit.audit import audit as carry_out_audit
    from feddep.audit.findings import HEADINGS, rows, sentences
    from feddep.audit.trial import Plan

    spec = spec_of(given_settings(**context.params))
    folder = out or folder_for("audit", spec)
    check_writable(folder)
    plan = Plan(canaries=canaries, share=share, leak=plant_leak, crafted=crafted, secrets=secrets)
    with counted(runs) as tell:
        found = carry_out_audit(spec, plan, runs=runs, folder=folder, tell=tell)
    if as_json:
        print_json(found)
        return
    out_console.print(table_of(HEADINGS, rows(found)))
    for line in sentences(found):
        say(line)
    note(f"picture: {folder / PICTURE}")
