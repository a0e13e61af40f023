"""The errors of the project. The command line prints them as one sentence, without a traceback."""

from collections.abc import Iterable


class FeddepError(Exception):
    """Base of all errors; each says what was expected, what was found, and what to do."""


class InputError(FeddepError):
    """Something the user gave (a name, a number, a file, a graph) cannot be used."""


class DataError(InputError):
    """A data file is missing, corrupt or not what its manifest says."""


class DivergedError(InputError):
    """Training diverged with the settings that the user gave: the loss is no longer a number."""


class DisclosureError(FeddepError):
    """A client was about to send something that its method does not declare."""


class ConsentError(FeddepError):
    """A silo was asked for something that its owner's consent file does not allow."""


class RuntimeFailureError(FeddepError):
    """A part of the run itself failed (a worker died, a message was not answered)."""


class InterruptedRunError(FeddepError):
    """The run was stopped on request; its folder can be resumed."""


def unknown(kind: str, got: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a table: it lists the names that are."""
    return InputError(f"unknown {kind} {got!r}; known: {', '.join(sorted(known))}")
