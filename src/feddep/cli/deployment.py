"""The commands for a federation of several machines."""

from pathlib import Path
from typing import Annotated

import typer

from feddep.cli.console import note, out_console, print_json, print_pairs, say, table_of
from feddep.cli.options import AsJson
from feddep.errors import InputError, RuntimeFailureError

_PANEL = "Several machines"

deploy_app = typer.Typer(no_args_is_help=True)
disclosures_app = typer.Typer(no_args_is_help=True)

ServerFile = Annotated[Path, typer.Option("--config", help="The server's configuration file.")]
Hosts = Annotated[
    list[str],
    typer.Option("--host", help="Name or address that silos reach the server by; several times."),
]
Days = Annotated[int, typer.Option(help="Days for which the server's certificate is valid.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    for command in (server, silo, node, federate, doctor):
        app.command(rich_help_panel=_PANEL)(command)
    app.add_typer(
        deploy_app,
        name="deploy",
        help="Create keys, certificates and configuration for a server and its silos.",
        rich_help_panel=_PANEL,
    )
    for name in ("disclosures", "ledger"):  # the second is the old name
        app.add_typer(
            disclosures_app,
            name=name,
            help="Check and count a silo's disclosure log: the record of everything that left it.",
            rich_help_panel=_PANEL,
            hidden=name == "ledger",
        )


@deploy_app.command("init")
def deploy_init(
    folder: Annotated[
        Path, typer.Argument(help="A new folder: the kit, for whoever runs the federation.")
    ],
    host: Hosts,
    silo: Annotated[list[str], typer.Option("--silo", help="Name of a silo; once for each.")],
    port: Annotated[int, typer.Option(help="Port that silos connect to.")] = 8000,
    days: Days = 365,
    proxy: Annotated[
        bool, typer.Option(help="Listen on loopback only, behind a reverse proxy.")
    ] = True,
) -> None:
    """Create a certificate authority, keys and a ready-made folder for each machine."""
    from feddep.deployment.operations.kit import init

    kit = init(folder, hosts=host, silos=silo, port=port, days=days, proxy=proxy)
    say(f"server   {kit.server}")
    for name, own in kit.silos.items():
        say(f"silo     {own}  ({name})")
    say(f"address  {kit.address}, certificate valid until {kit.until:%Y-%m-%d}")
    say(f"compare at each silo the authority's fingerprint: {kit.fingerprint}")
    note(
        "Bring each folder to its machine over a secure channel, then delete it here; "
        "keep ca/ offline."
    )


@deploy_app.command("add")
def deploy_add(
    folder: Annotated[Path, typer.Argument(help="The kit that `feddep deploy init` made.")],
    name: Annotated[str, typer.Argument(help="Name of the new silo.")],
) -> None:
    """Add a silo to a kit; the server reads its key when it starts."""
    from feddep.deployment.operations.kit import add_silo

    kit = add_silo(folder, name)
    say(f"silo     {kit.silos[name]}")
    say(f"its key  {kit.server / 'silos' / f'{name}.pub'}")
    note("For methods over links every silo needs the kit's new link_keys.json.")


@deploy_app.command("renew")
def deploy_renew(
    folder: Annotated[Path, typer.Argument(help="The kit, with its ca/.")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", help="New name or address of the server; default: as before."),
    ] = None,
    days: Days = 365,
) -> None:
    """Renew the server's certificate; the silos need nothing new."""
    from feddep.deployment.operations.kit import renew

    done = renew(folder, days=days, hosts=host or ())
    say(f"{done.certificate}: valid until {done.until:%Y-%m-%d}")


@deploy_app.command("link-keys")
def deploy_link_keys(
    folder: Annotated[Path, typer.Argument(help="The kit, with its ca/.")],
    public: Annotated[
        list[str] | None,
        typer.Option(
            "--public",
            metavar="SILO=FILE",
            help="A silo's own public key (X25519, PEM); once for each that made its key itself.",
        ),
    ] = None,
) -> None:
    """Sign the keys with which silos seal messages for each other."""
    from feddep.deployment.operations.kit import sign_link_keys

    given = {}
    for pair in public or ():
        name, equals, file = pair.partition("=")
        if not equals or not name or not file:
            raise InputError(f"--public: expected SILO=FILE (got {pair!r})")
        given[name] = Path(file)
    say(f"signed   {sign_link_keys(folder, given)}")
    note("Every silo needs this file beside its silo.toml, and link_keys = in it; restart them.")


def server(
    config: Annotated[Path, typer.Argument(help="The server's configuration file.")] = Path(
        "server.toml"
    ),
) -> None:
    """Start the server; it runs until it is stopped."""
    from feddep.deployment.operations.config import ServerConfig
    from feddep.deployment.operations.programs import Server

    with Server(ServerConfig.read(config)) as started:
        note("the server is ready")
        code = started.running.wait()
    raise RuntimeFailureError(f"the server ended with exit code {code}")


def silo(
    config: Annotated[Path, typer.Argument(help="The silo's configuration file.")] = Path(
        "silo.toml"
    ),
    data: Annotated[
        Path | None, typer.Option(help="Graph folder; default: the one in the configuration.")
    ] = None,
) -> None:
    """Start a silo; it answers the server until it is stopped."""
    from feddep.deployment.operations.silo_programs import Silo, with_data

    with Silo(config if data is None else with_data(config, data)) as started:
        note("the silo is ready")
        code = started.wait()
    raise RuntimeFailureError(
        f"the silo ended with exit code {code}; its own message is above, and "
        f"`feddep doctor {config}` looks for the cause"
    )


def node(
    config: Annotated[Path, typer.Argument(help="The node's configuration file.")] = Path(
        "node.toml"
    ),
) -> None:
    """Start Flower's programs of a silo, as another user than `feddep silo`."""
    from feddep.deployment.operations.config import NodeConfig
    from feddep.deployment.operations.silo_programs import Node

    with Node.alone(NodeConfig.read(config)) as started:
        note("the node is ready")
        code = started.wait()
    raise RuntimeFailureError(
        f"the node ended with exit code {code}; its own message is above, and "
        f"`feddep doctor {config}` looks for the cause"
    )


def federate(
    spec: Annotated[Path, typer.Argument(help="What to run: a TOML file like a run's spec.toml.")],
    config: ServerFile = Path("server.toml"),
    out: Annotated[
        Path | None, typer.Option(help="Run folder; default: in the server's state folder.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a run that was stopped.")
    ] = False,
    quorum: Annotated[
        float, typer.Option(help="Share of the silos that must answer in every round.")
    ] = 1.0,
    grace: Annotated[
        float, typer.Option(help="Seconds to wait for the other silos once a quorum has answered.")
    ] = 600.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a quorum.")] = 3600.0,
    resend: Annotated[
        float, typer.Option(help="Seconds after which an unanswered message is sent again.")
    ] = 300.0,
    largest_norm: Annotated[
        float, typer.Option(help="Leave out a silo whose change of the weights has a larger norm.")
    ] = 1e6,
    crossings: Annotated[
        Path | None,
        typer.Option(
            help="File with the edges between silos, for a method that needs them.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
) -> None:
    """Train over the connected silos and store the run."""
    from feddep.deployment.operations.federated_run import run_federated
    from feddep.deployment.protocol.wait_policy import WaitPolicy
    from feddep.reports.comparison import run_summary

    record, path = run_federated(
        spec,
        config,
        out=out,
        resume=resume,
        wait_policy=WaitPolicy(quorum=quorum, grace=grace, wait=wait, resend=resend),
        largest_norm=largest_norm,
        crossings=crossings,
    )
    print_pairs(run_summary(record))
    for entry in record.get("federation", {}).get("left_out", []):
        note(
            f"{entry['silo']} was left out of {entry['phase']}, round {entry['round']}: "
            f"{entry['reason']}"
        )
    note(f"stored in {path}")


def doctor(
    config: Annotated[Path, typer.Argument(help="server.toml, silo.toml or node.toml.")],
) -> None:
    """Check everything that a server or a silo needs, and say how to fix what is wrong."""
    from feddep.deployment.operations.doctor import diagnose

    signs = {True: "ok", False: "FAULT", None: "not checked"}
    checks = diagnose(config)
    rows = []
    for check in checks:
        warned = check.ok is True and bool(check.remedy)
        rows.append((check.name, "warning" if warned else signs[check.ok], check.found))
    out_console.print(table_of(("check", "", "found"), rows))
    for check in checks:
        if check.remedy:
            say(f"{check.name}: {check.remedy}")
    faults = [check for check in checks if check.ok is False]
    if faults:
        raise InputError(f"{len(faults)} of {len(checks)} checks found a fault")


@disclosures_app.command("verify")
def disclosures_verify(
    file: Annotated[Path, typer.Argument(help="A silo's disclosures.jsonl.")],
    head: Annotated[
        str | None,
        typer.Option(help="NUMBER:HASH that an earlier check printed; it must be in the log."),
    ] = None,
) -> None:
    """Check that nothing in a disclosure log was changed, removed or inserted."""
    from feddep.deployment.protocol.disclosure_log import DisclosureLog, verify

    noted = None
    if head is not None:
        number, _, digest = head.partition(":")
        if not number.isdigit() or not digest:
            raise InputError(f"--head is NUMBER:HASH (got {head!r})")
        noted = (int(number), digest)
    found = verify(file, noted)
    last, digest = DisclosureLog(file).head()
    runs = f"{found.runs} run{'s' * (found.runs != 1)}"
    say(f"{found.lines} lines of {runs}, {found.bytes} bytes: unbroken")
    say(f"head {last}:{digest}")


@disclosures_app.command("budget")
def disclosures_budget(
    config: Annotated[Path, typer.Argument(help="The silo's configuration file.")] = Path(
        "silo.toml"
    ),
    as_json: AsJson = False,
) -> None:
    """Tell what is spent of the budget in consent.toml, by which runs, and what is left."""
    from feddep.deployment.operations import silo_account

    books = silo_account.open_books(config)
    if as_json:
        print_json(silo_account.plain(books))
        return
    for account in books.accounts():
        for sentence in silo_account.sentences(books, account):
            say(sentence)
        if account.releases:
            rows = silo_account.rows(account, books.delta(account))
            out_console.print(table_of(silo_account.HEADINGS, rows))
    say(f"head {books.head}")
