"""What runs a spec, by the name of its runtime."""

from collections.abc import Callable
from importlib import import_module

from feddep.errors import InputError, unknown
from feddep.runs import pipeline
from feddep.runs.result import Result

IN_PROCESS, FLOWER = "in-process", "flower-sim"


def runner_of(runtime: str, method: str) -> Callable[..., Result]:
    """What runs a method's specs in a runtime; refused before anything is claimed or loaded.

    Raises:
        InputError: there is no such runtime, it is not installed, or it cannot run the method.
    """
    if runtime == IN_PROCESS:
        return pipeline.run
    if runtime != FLOWER:
        raise unknown("runtime", runtime, [IN_PROCESS, FLOWER])
    try:
        from feddep.deployment.protocol.simulation import check_can_run, run_simulated

        check_can_run(method)
        import_module("ray")  # Flower itself would say so at length
    except ImportError as error:
        raise InputError(
            f"flower-sim needs Flower with Ray, which is not installed ({error}); "
            "pip install 'feddep[flower-sim]'"
        ) from None
    return run_simulated
