"""The part of the command line for federations of several machines: parses and prints."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from feddep.errors import InputError, RuntimeFailureError

deploy_app = typer.Typer(no_args_is_help=True, help="Keys, certificates, configuration.")
ledger_app = typer.Typer(no_args_is_help=True, help="What left a silo.")

out_console = Console(highlight=False, markup=False, emoji=False)
err_console = Console(stderr=True, highlight=False, markup=False, emoji=False)

ServerFile = Annotated[Path, typer.Option("--config", help="The server's configuration file.")]
Hosts = Annotated[list[str], typer.Option("--host", help="Name or address of the server.")]
Days = Annotated[int, typer.Option(help="How long the server's certificate is valid.")]


def add_to(app: typer.Typer) -> None:
    """Adds the commands of this part."""
    app.add_typer(deploy_app, name="deploy")
    app.add_typer(ledger_app, name="ledger")
    for command in (server, silo, federate, doctor):
        app.command()(command)


@deploy_app.command("init")
def deploy_init(
    folder: Annotated[Path, typer.Argument(help="A new folder, for whoever runs the federation.")],
    host: Hosts,
    silo: Annotated[list[str], typer.Option("--silo", help="Name of a silo; several times.")],
    port: Annotated[int, typer.Option(help="Where the silos connect to.")] = 8000,
    days: Days = 365,
    proxy: Annotated[
        bool, typer.Option(help="The server listens on loopback, behind a reverse proxy.")
    ] = True,
) -> None:
    """Create an authority, certificates, keys and a ready folder for each party."""
    from feddep.deployment.operations.kit import init

    kit = init(folder, hosts=host, silos=silo, port=port, days=days, proxy=proxy)
    out_console.print(f"server   {kit.server}", soft_wrap=True)
    for name, own in kit.silos.items():
        out_console.print(f"silo     {own}  ({name})", soft_wrap=True)
    out_console.print(f"address  {kit.address}, certificate valid until {kit.until:%Y-%m-%d}")
    out_console.print(
        f"compare at each silo the authority's fingerprint: {kit.fingerprint}", soft_wrap=True
    )
    err_console.print(
        "Carry each folder to its machine by a safe way and delete it here; keep ca/ offline.",
        soft_wrap=True,
    )


@deploy_app.command("add")
def deploy_add(
    folder: Annotated[Path, typer.Argument(help="The kit.")],
    name: Annotated[str, typer.Argument(help="Name of the new silo.")],
) -> None:
    """Add a silo to a kit; the server reads its key when it starts."""
    from feddep.deployment.operations.kit import add_silo

    kit = add_silo(folder, name)
    out_console.print(f"silo     {kit.silos[name]}", soft_wrap=True)
    out_console.print(f"its key  {kit.server / 'silos' / f'{name}.pub'}", soft_wrap=True)


@deploy_app.command("renew")
def deploy_renew(
    folder: Annotated[Path, typer.Argument(help="The kit, with its authority.")],
    host: Annotated[
        list[str] | None, typer.Option("--host", help="Other names for the server.")
    ] = None,
    days: Days = 365,
) -> None:
    """Renew the server's certificate; silos need nothing new."""
    from feddep.deployment.operations.kit import renew

    done = renew(folder, days=days, hosts=host or ())
    out_console.print(f"{done.certificate}: valid until {done.until:%Y-%m-%d}", soft_wrap=True)


def server(
    config: Annotated[Path, typer.Argument(help="The server's configuration file.")] = Path(
        "server.toml"
    ),
) -> None:
    """Start the server; it runs until it is stopped."""
    from feddep.deployment.operations.config import ServerConfig
    from feddep.deployment.operations.programs import Server

    with Server(ServerConfig.read(config)) as started:
        err_console.print("the server is ready")
        code = started.running.wait()
    raise RuntimeFailureError(f"the server ended with exit code {code}")


def silo(
    config: Annotated[Path, typer.Argument(help="The silo's configuration file.")] = Path(
        "silo.toml"
    ),
    data: Annotated[Path | None, typer.Option(help="Graph folder, instead of the file's.")] = None,
) -> None:
    """Start a silo; it answers the server until it is stopped."""
    from feddep.deployment.operations.programs import Silo, with_data

    with Silo(config if data is None else with_data(config, data)) as started:
        err_console.print("the silo is ready")
        code = started.wait()
    raise RuntimeFailureError(
        f"the silo ended with exit code {code}; its own message stands above, and `feddep doctor` "
        "looks for causes"
    )


def federate(
    spec: Annotated[Path, typer.Argument(help="What to run, as in a run's spec.toml.")],
    config: ServerFile = Path("server.toml"),
    out: Annotated[Path | None, typer.Option(help="Run folder; default: in the state.")] = None,
    resume: Annotated[bool, typer.Option(help="Continue a run that was stopped.")] = False,
    quorum: Annotated[float, typer.Option(help="Share of the silos that a round needs.")] = 1.0,
    grace: Annotated[float, typer.Option(help="Seconds to wait for silos beyond it.")] = 600.0,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a quorum.")] = 3600.0,
    resend: Annotated[float, typer.Option(help="Seconds until an envelope is sent again.")] = 300.0,
    largest_norm: Annotated[
        float, typer.Option(help="A silo's change of the weights beyond it is left out.")
    ] = 1e6,
    crossings: Annotated[
        Path | None,
        typer.Option(
            help="Edges between silos, for a method that needs them.", exists=True, dir_okay=False
        ),
    ] = None,
) -> None:
    """Run a spec over the connected silos and store the record."""
    from feddep.deployment.operations.config import ServerConfig, host_and_port
    from feddep.deployment.operations.programs import answers, run_on_silos
    from feddep.deployment.protocol.federate import RUN_NAME
    from feddep.deployment.protocol.wait_policy import WaitPolicy
    from feddep.reports.comparison import run_summary
    from feddep.runs.folder import RunFolder, as_stored, default_folder
    from feddep.scenario.build import resolve
    from feddep.scenario.spec import RunSpec, read_settings

    wait_policy = WaitPolicy(quorum=quorum, grace=grace, wait=wait, resend=resend)
    server = ServerConfig.read(config)
    given = read_settings(spec)
    asked = resolve(RunSpec().with_settings(given), given)
    path = out or server.state / default_folder(asked)
    if resume:
        asked = as_stored(asked, path, given)
    if not answers(server):
        raise RuntimeFailureError(
            f"the server does not answer at {host_and_port(server.host, server.port)}; start it "
            f"with `feddep server {config}`"
        )
    with RunFolder.claim(path, asked, resume=resume) as folder:
        if not resume:  # for the silos it is another run than the one that stood here
            (path / RUN_NAME).unlink(missing_ok=True)
        record = folder.finished() or run_on_silos(
            server, path, wait_policy, largest_norm, crossings
        )
    table = Table.grid(padding=(0, 2))
    for name, text in run_summary(record):
        table.add_row(name, text)
    out_console.print(table)
    for entry in record.get("federation", {}).get("left_out", []):
        err_console.print(
            f"{entry['silo']} was left out of {entry['phase']}, round {entry['round']}: "
            f"{entry['reason']}",
            soft_wrap=True,
        )
    err_console.print(f"stored in {path}", soft_wrap=True)


def doctor(
    config: Annotated[Path, typer.Argument(help="server.toml or silo.toml.")],
) -> None:
    """Check everything that a server or a silo needs, and say how to mend what is wrong."""
    from feddep.deployment.operations.doctor import diagnose

    signs = {True: "ok", False: "FAULT", None: "not checked"}
    checks = diagnose(config)
    table = Table("check", "", "found")
    for check in checks:
        warned = check.ok is True and bool(check.remedy)
        table.add_row(check.name, "warning" if warned else signs[check.ok], check.found)
    out_console.print(table)
    for check in checks:
        if check.remedy:
            out_console.print(f"{check.name}: {check.remedy}", soft_wrap=True)
    faults = [check for check in checks if check.ok is False]
    if faults:
        raise InputError(f"{len(faults)} of {len(checks)} checks found a fault")


@ledger_app.command("verify")
def ledger_verify(
    file: Annotated[Path, typer.Argument(help="A silo's disclosures.jsonl.")],
    head: Annotated[
        str | None, typer.Option(help="NUMBER:HASH that was noted earlier and must be in it.")
    ] = None,
) -> None:
    """Check that nothing in a ledger was changed, removed or added in between."""
    from feddep.deployment.protocol.disclosure_log import DisclosureLog, verify

    noted = None
    if head is not None:
        number, _, digest = head.partition(":")
        if not number.isdigit() or not digest:
            raise InputError(f"--head is NUMBER:HASH (got {head!r})")
        noted = (int(number), digest)
    found = verify(file, noted)
    last, digest = DisclosureLog(file).head()
    out_console.print(f"{found.lines} lines of {found.runs} runs, {found.bytes} bytes: unbroken")
    out_console.print(f"head {last}:{digest}", soft_wrap=True)
