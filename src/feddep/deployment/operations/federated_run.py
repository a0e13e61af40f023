"""A run over connected silos as the server's operator asks for it: resolve, claim, run, open."""

from pathlib import Path

from feddep.deployment.operations import programs
from feddep.deployment.operations.config import ServerConfig, host_and_port
from feddep.deployment.protocol.federate import RUN_NAME
from feddep.deployment.protocol.wait_policy import WaitPolicy
from feddep.errors import RuntimeFailureError
from feddep.runs.execute import resolved
from feddep.runs.files import Record
from feddep.runs.folder import RunFolder, as_stored, default_folder
from feddep.scenario.spec import read_settings


def run_federated(
    spec: Path,
    config: Path,
    *,
    out: Path | None,
    resume: bool,
    wait_policy: WaitPolicy,
    largest_norm: float,
    crossings: Path | None,
) -> tuple[Record, Path]:
    """Runs a spec over the silos that are connected to a server.

    Args:
        spec: file with the settings of the run.
        config: the server's configuration file.
        out: the run's folder; None chooses one in the server's state folder.
        resume: continue the run in the folder; one that is finished is read instead.
        wait_policy: how long the server waits for which silos.
        largest_norm: the norm beyond which a reply is left out.
        crossings: file with the edges between silos, for methods that need them.

    Returns:
        The record, and the folder that it is stored in.

    Raises:
        InputError: the spec, the configuration or the folder cannot be used.
        RuntimeFailureError: the server does not answer.
        InterruptedRunError: the run ended early, or the user stopped it; it can be resumed.
    """
    server = ServerConfig.read(config)
    given = read_settings(spec)
    asked = resolved(given)
    path = out or server.state / default_folder(asked)
    if resume:
        asked = as_stored(asked, path, given)
    if not programs.answers(server):
        raise RuntimeFailureError(
            f"the server does not answer at {host_and_port(server.host, server.port)}; start it "
            f"with `feddep server {config}`"
        )
    with RunFolder.claim(path, asked, resume=resume) as folder:
        if not resume:  # for the silos it is another run than the one that stood here
            (path / RUN_NAME).unlink(missing_ok=True)
        record = folder.finished() or programs.run_on_silos(
            server, path, wait_policy, largest_norm, crossings
        )
    return record, path
