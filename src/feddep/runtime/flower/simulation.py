"""Many simulated silos on one machine or on a cluster, through Flower's simulation on Ray."""

import logging
import os
from collections.abc import Callable
from typing import Any

from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from feddep.errors import RuntimeFailureError

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Keeps Flower and Ray from contacting the outside."""


def simulate(
    main: Callable[[Grid], None], client_app: ClientApp, silos: int, cores: int, address: str | None
) -> None:
    """Calls ``main`` with a grid of simulated silos.

    Args:
        main: the server's part.
        client_app: the app of every silo.
        silos: number of silos.
        cores: number of cores of this machine to use; a working silo takes one.
        address: address of a running Ray cluster; None starts Ray on this machine.

    Raises:
        RuntimeFailureError: the simulation itself failed; an error in ``main`` is raised as it is.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    for name in ("flwr", "ray"):
        logging.getLogger(name).addFilter(lambda entry: entry.levelno >= logging.ERROR)
    errors: list[BaseException] = []
    done: list[bool] = []
    server_app = ServerApp()

    @server_app.main()
    def _main(grid: Grid, _: object) -> None:
        try:
            main(grid)
            done.append(True)
        except BaseException as error:
            errors.append(error)  # Flower would print it and exit

    # Without "local", Ray would join whatever cluster somebody has started on this machine.
    here = {
        "address": "local",
        "num_cpus": cores,
        "include_dashboard": False,
        "log_to_driver": False,
    }
    started: Any = {"address": address} if address else here
    try:
        run_simulation(
            server_app,
            client_app,
            silos,
            backend_config={
                "init_args": started,
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    except Exception as error:
        errors.append(RuntimeFailureError(f"Flower's simulation failed: {error}"))
    if errors:
        raise errors[0]
    if not done:
        raise RuntimeFailureError("Flower's simulation ended before the run did")
