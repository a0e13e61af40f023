"""Flower's program for one message, which runs the given app and no other.

Flower's own program unpacks and runs the app that the server sends, whatever that is. Here the app
that came is not even unpacked: what a silo runs is what its operator installed.
"""

from flwr.clientapp import ClientApp
from flwr.supernode.cli import flwr_clientapp
from flwr.supernode.runtime import run_clientapp

from feddep.errors import RuntimeFailureError

_REPLACED = ("install_from_fab", "get_project_dir", "get_load_client_app_fn")


def run_only(app: ClientApp) -> None:
    """Answers one message, which the command line names, with an app.

    Raises:
        RuntimeFailureError: this version of Flower starts apps in another way.
    """
    absent = [name for name in _REPLACED if not hasattr(run_clientapp, name)]
    if absent:
        raise RuntimeFailureError(
            f"this version of Flower starts apps in another way ({', '.join(absent)} is not "
            "there), so nothing is run; install the version that feddep asks for"
        )
    vars(run_clientapp).update(
        install_from_fab=lambda *_, **__: None,
        get_project_dir=lambda *_, **__: None,
        get_load_client_app_fn=lambda *_, **__: lambda *_: app,
    )
    flwr_clientapp()
