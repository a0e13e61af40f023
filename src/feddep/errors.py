"""The errors of the project. The command line prints them as one sentence, without a traceback."""

from collections.abc import Iterable


class FeddepError(Exception):
    """Base of all errors; each says what was expected, what was found, and what to do.

    A message may quote files and peers that nobody vouches for. So it is one line, of letters that
    can be printed and steer no terminal, and not without end.

    Attributes:
        has_lines: errors of this class are written in several lines.
    """

    has_lines = False
    _most = 4000

    def __str__(self) -> str:
        text = super().__str__()
        if not text.isprintable():
            lines = text.split("\n") if self.has_lines else [text]
            text = "\n".join(map(_printable, lines))
        if len(text) > self._most:  # what is quoted stands in the middle, what to do at the end
            text = f"{text[: self._most * 3 // 4]}…{text[-self._most // 4 :]}"
        return text


class InputError(FeddepError):
    """Something the user gave (a name, a number, a file, a graph) cannot be used."""


class DataError(InputError):
    """A data file is missing, corrupt or not what its manifest says."""


class DivergedError(InputError):
    """Training diverged with the settings that the user gave: the loss is no longer a number."""


class DisclosureError(FeddepError):
    """A client was about to send something that its method does not declare."""


class DownloadError(DataError):
    """No source had the files of a data set; it names them all."""

    has_lines = True


class ConsentError(FeddepError):
    """A silo was asked for something that its owner's consent file does not allow."""

    has_lines = True


class RuntimeFailureError(FeddepError):
    """A part of the run itself failed (a worker died, a message was not answered)."""

    has_lines = True  # a silo's refusal quotes every line of its consent that forbids something


class InterruptedRunError(FeddepError):
    """The run was stopped on request; its folder can be resumed."""


def _printable(text: str) -> str:
    """The text with all that cannot be printed spelt out, such as the end of a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def unknown(kind: str, got: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a table: it lists the names that are."""
    return InputError(f"unknown {kind} {got!r}; known: {', '.join(sorted(known))}")
