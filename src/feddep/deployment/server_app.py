"""The server's program for Flower: ``feddep federate`` starts it beside the SuperLink."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load_file

from feddep.deployment.convener import Patience
from feddep.deployment.federate import federate
from feddep.errors import FeddepError, InputError
from feddep.experiments.folder import RunFolder
from feddep.experiments.records import write_atomically
from feddep.federation.messages import State, grouped
from feddep.runtime.flower import Context, Grid, ServerApp
from feddep.runtime.flower.post import FlowerPost
from feddep.scenario.spec import RunSpec

TROUBLE = "trouble.txt"
"""The file that says why a run ended early, for whoever started it."""

NUMBER = "flower-run.txt"
"""The file with Flower's number of the run, for whoever wants to stop it."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs what the run's folder asks for."""
    config = context.run_config
    path = Path(str(config["folder"]))
    write_atomically(path / NUMBER, f"{context.run_id}\n")
    try:
        federate(
            FlowerPost(grid),
            RunSpec.read(path / "spec.toml"),
            RunFolder(path),
            patience=_patience(config),
            largest_norm=float(config["largest-norm"]),
            known=_crossings(str(config["crossings"])),
        )
    except FeddepError as error:
        write_atomically(path / TROUBLE, f"{type(error).__name__}\n{error}\n")
        raise
    finally:
        (path / NUMBER).unlink(missing_ok=True)


def _patience(config: Mapping[str, Any]) -> Patience:
    return Patience(
        quorum=float(config["quorum"]),
        grace=float(config["grace"]),
        wait=float(config["wait"]),
        resend=float(config["resend"]),
    )


def _crossings(file: str) -> State:
    """The edges between silos, where the server knows them."""
    try:
        return grouped("crossings", load_file(file)) if file else {}
    except (OSError, SafetensorError) as error:
        raise InputError(f"cannot read the crossings {file}: {error}") from None
