"""The options that several commands share, and what they mean for a run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from feddep.errors import InputError

if TYPE_CHECKING:
    from feddep.scenario.spec import RunSpec

# Options that are keys of a spec, in every command that has them; :func:`given_settings` takes them
# out of a command's ``context.params``.
_FLAG_KEYS = {
    "method": "method",
    "dataset": "dataset",
    "silos": "silos",
    "clients": "partition.clients",
    "partition": "partition.kind",
    "links": "partition.links",
    "split": "split.kind",
    "rounds": "training.rounds",
    "seed": "seed",
    "preset": "preset",
    "mechanism": "privacy.mechanism",
    "epsilon": "privacy.epsilon",
}


PARTITIONS = ("louvain", "random", "label-skew")
LINKS = ("lost", "known")
SPLITS = ("stratified", "random", "quota")
MECHANISMS = (
    "nfdp",
    "one-shot",
    "randomised-response",
    "aggregation-perturbation",
    "dp-sgd",
    "none",
)
DEVICES = ("auto", "cpu", "cuda")


def completed(names: Iterable[str] | Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What the shell offers after an option; a function is called only when the shell asks."""

    def complete(incomplete: str) -> list[str]:
        known = names() if callable(names) else names
        return [name for name in known if name.startswith(incomplete)]

    return complete


def one_of(names: Sequence[str]) -> str:
    """The names in a sentence."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def method_names() -> Iterable[str]:
    """Every method, for the shell."""
    from feddep.algorithms import METHODS

    return METHODS


def dataset_names() -> Iterable[str]:
    """Every data set with a name, for the shell."""
    from feddep.graph.datasets import DATASETS

    return ["synthetic", *DATASETS]


_METHOD = typer.Option(
    help="A name in `feddep methods`, or module:ATTRIBUTE for a method of your own.",
    autocompletion=completed(method_names),
)
_DATASET = typer.Option(
    help="A name in `feddep data list`, or the path of a graph or shard folder.",
    autocompletion=completed(dataset_names),
)
Method = Annotated[str, _METHOD]
DatasetName = Annotated[str, _DATASET]
Dataset = Annotated[str | None, _DATASET]
Silos = Annotated[
    list[str] | None,
    typer.Option(
        help="Folders of silos that are never joined, each with its tables or its graph: "
        "--silos north south west.",
    ),
]
MoreSilos = Annotated[list[str] | None, typer.Argument(hidden=True)]
Clients = Annotated[int | None, typer.Option(help="Number of clients, M.")]
Partition = Annotated[
    str | None,
    typer.Option(
        help=f"How the graph is divided: {one_of(PARTITIONS)}.",
        autocompletion=completed(PARTITIONS),
    ),
]
Links = Annotated[
    str | None,
    typer.Option(
        help="Whether both ends know an edge between clients: lost (nobody does) or known.",
        autocompletion=completed(LINKS),
    ),
]
Split = Annotated[
    str | None,
    typer.Option(
        help=f"How training, validation and test nodes are drawn: {one_of(SPLITS)}.",
        autocompletion=completed(SPLITS),
    ),
]
Rounds = Annotated[int | None, typer.Option(help="Rounds of training.")]
Seed = Annotated[int | None, typer.Option(help="Fixes every random draw.")]
Preset = Annotated[
    str | None,
    typer.Option(
        help="Where settings come from that you do not give: tuned, paper, or the path of a choice "
        "that `feddep tune` wrote.",
        autocompletion=completed(("tuned", "paper")),
    ),
]
Mechanism = Annotated[
    str | None,
    typer.Option(
        "--mechanism",
        "--privacy",
        help=f"Privacy mechanism: {one_of(MECHANISMS)}.",
        autocompletion=completed(MECHANISMS),
    ),
]
Epsilon = Annotated[
    float | None, typer.Option(help="ε to calibrate randomised response or DP-SGD for.")
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="INTEGER", help="Runs at the same time; default: one for each core."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="INTEGER", help="Processes of a run; default: one for each core."),
]
Device = Annotated[
    str,
    typer.Option(help=f"{one_of(DEVICES)}.", autocompletion=completed(DEVICES)),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Any key of the spec, such as model.hidden=64; may be given several times."
    ),
]


def given_settings(settings: list[str] | None, **flags: Any) -> dict[str, Any]:
    """What the user set, by key; a flag wins over a --set of the same key.

    Args:
        settings: of --set.
        flags: options of a command; those that are no keys of a spec are left aside.
    """
    from feddep.scenario.spec import parse_settings

    given: dict[str, Any] = parse_settings(settings or [])
    more = flags.get("more_silos") or []
    if more and not flags.get("silos"):
        raise InputError(f"unexpected argument {more[0]!r}; folders of silos follow --silos")
    flags["silos"] = [*(flags.get("silos") or []), *more] or None
    for name, key in _FLAG_KEYS.items():
        if flags.get(name) is not None:
            given[key] = flags[name]
    return given


def spec_of(given: Mapping[str, Any]) -> "RunSpec":
    """The spec, with what the user left open."""
    from feddep.runs.execute import resolved

    return resolved(given)


def folder_for(purpose: str, spec: "RunSpec") -> Path:
    """Where to store what is made of runs like this one."""
    from feddep.runs.folder import default_folder

    folder = default_folder(spec)
    return folder.with_name(f"{purpose}-{folder.name}")


def check_new(folder: Path) -> None:
    """Finds out before any work whether a folder can be made."""
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise InputError(f"{folder} exists already; choose another --out or delete it")
    except OSError as error:
        raise _cannot_write(folder, error) from None
    check_writable(folder)


def check_file(file: Path) -> None:
    """Finds out before any work whether a file can be written."""
    if file.is_dir():
        raise InputError(f"{file} is a folder; --out is the name of a file")
    check_writable(file.parent)


def check_writable(folder: Path) -> None:
    """Finds out before any work whether files can be put into a folder, which need not exist."""
    target = folder.absolute()
    try:
        nearest = next(path for path in (target, *target.parents) if path.exists())
        with TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from None


def _cannot_write(folder: Path, error: OSError) -> InputError:
    return InputError(f"cannot write to {folder}: {error.strerror}; choose another --out")
