"""The command line."""

from feddep.cli.main import main

__all__ = ["main"]
