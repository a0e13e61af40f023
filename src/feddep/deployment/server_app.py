"""The server's program for Flower: ``feddep federate`` starts it beside the SuperLink."""

from pathlib import Path

from safetensors.numpy import load_file

from feddep.deployment.convener import Patience
from feddep.deployment.federate import federate
from feddep.errors import FeddepError
from feddep.experiments.folder import RunFolder
from feddep.experiments.records import write_atomically
from feddep.federation.messages import grouped
from feddep.runtime.flower import Context, Grid, ServerApp
from feddep.runtime.flower.post import FlowerPost
from feddep.scenario.spec import RunSpec

TROUBLE = "trouble.txt"
"""Why a run ended early, for whoever started it."""

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs what the run's folder asks for."""
    config = context.run_config
    path = Path(str(config["folder"]))
    patience = Patience(
        quorum=float(config["quorum"]),
        grace=float(config["grace"]),
        wait=float(config["wait"]),
        resend=float(config["resend"]),
    )
    crossings = str(config["crossings"])
    known = grouped("crossings", load_file(crossings)) if crossings else {}
    folder = RunFolder(path)
    try:
        federate(
            FlowerPost(grid),
            RunSpec.read(path / "spec.toml"),
            folder,
            patience=patience,
            largest_norm=float(config["largest-norm"]),
            known=known,
        )
    except FeddepError as error:
        write_atomically(path / TROUBLE, f"{type(error).__name__}\n{error}\n")
        raise
