"""Messages carried by Flower: the only package that imports it.

The names below are all that the programs of a deployment need from Flower.
"""

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

__all__ = ["ClientApp", "ConfigRecord", "Context", "Grid", "Message", "RecordDict", "ServerApp"]
