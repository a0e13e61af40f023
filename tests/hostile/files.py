"""What reads files that somebody else may have written, and honest files for each to be changed."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

import feddep
from feddep.errors import ConsentError, FeddepError
from feddep.graph.graph import Graph
from feddep.graph.shard import Shards
from graph.small_graphs import kite
from hostile.mutations import altered_file, altered_place

REFUSED, TAKEN = "refused", "taken"

Read = Callable[[Path], object]


class AlteredButTakenError(AssertionError):
    """What must be noticed was not."""


class OfFiles:
    """Changes one of some honest files, or two, and reads them.

    Args:
        folder: with the honest files; empty folders are not kept.
        read: what is tried. It may raise our own errors, in one line, and nothing else.
        manifests: files with a SHA-256 of other files, which are put right after most changes:
            otherwise nothing but hashes would be tried.
        sealed: whatever was altered must be refused.
        waits: the user names the file, and a pipe is waited for.
    """

    def __init__(
        self,
        folder: Path,
        read: Read,
        *,
        manifests: Sequence[str] = (),
        sealed: bool = False,
        waits: bool = False,
    ) -> None:
        self.folder, self.read, self.manifests, self.sealed = folder, read, manifests, sealed
        self.waits = waits
        found = sorted(file for file in folder.rglob("*") if file.is_file())
        self.honest = {str(file.relative_to(folder)): file.read_bytes() for file in found}
        self.read(self.folder)  # or it would prove nothing

    def __call__(self, draws: random.Random) -> str:
        names = draws.sample(sorted(self.honest), min(len(self.honest), draws.choice((1, 1, 1, 2))))
        try:
            altered = [self._alter(draws, name) for name in names]
            return self._outcome(any(altered))
        finally:
            self._restore({*names, *self.manifests})

    def _alter(self, draws: random.Random, name: str) -> bool:
        if draws.random() < 0.03:
            altered_place(draws, self.folder / name, pipes=not self.waits)
            return False  # a lost file is its owner's to notice
        content = altered_file(draws, name, self.honest[name])
        (self.folder / name).write_bytes(content)
        if name not in self.manifests and draws.random() < 0.9:
            self._put_right()
        return content != self.honest[name]

    def _outcome(self, altered: bool) -> str:
        try:
            self.read(self.folder)
        except FeddepError as error:
            return said(error)
        if self.sealed and altered:
            raise AlteredButTakenError("it was altered, and taken all the same")
        return TAKEN

    def _put_right(self) -> None:
        for manifest in self.manifests:
            file = self.folder / manifest
            if file.is_symlink() or not file.is_file():
                continue
            values = json.loads(self.honest[manifest])
            for name in values["files"]:
                part = file.parent / name
                if part.is_file() and not part.is_symlink():
                    values["files"][name] = hashlib.sha256(part.read_bytes()).hexdigest()
            file.write_text(json.dumps(values))

    def _restore(self, names: set[str]) -> None:
        for name in names:
            file = self.folder / name
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            elif file.is_symlink() or not file.is_file():
                file.unlink(missing_ok=True)
            file.write_bytes(self.honest[name])


def said(error: FeddepError) -> str:
    """A refusal; it has to be one line."""
    text = str(error)
    if not text or ("\n" in text and not isinstance(error, ConsentError)):  # which has a list
        raise AssertionError(f"expected one line, got {text[:200]!r}")
    return REFUSED


class EitherFiles:
    """Several sets of files for one reader, of which each case takes one."""

    def __init__(self, *sets: OfFiles) -> None:
        self.sets = sets

    def __call__(self, draws: random.Random) -> str:
        return draws.choice(self.sets)(draws)


# Graphs


def graphs(folder: Path) -> EitherFiles:
    """Graph folders: sparse, dense, named ids, links out of the silo, a schema."""
    from feddep.graph.folder import read_graph

    named = kite(node_ids=["a", "b", "c", "d", "e"], features=np.eye(5, 2, dtype=np.float32))
    kinds = {"sparse": kite(), "dense": named, "linked": small_shards()[0], "table": of_tables()}
    for name, graph in kinds.items():
        feddep.write_graph(graph, folder / name)
    return EitherFiles(
        *(OfFiles(folder / name, read_graph, manifests=["manifest.json"]) for name in kinds)
    )


def shards(folder: Path) -> OfFiles:
    """Shard collections."""
    from feddep.graph.shard import read_shards, shard_settings, write_shards

    def read(path: Path) -> None:
        shard_settings(path)
        read_shards(path)

    write_shards(Shards(kite(), np.array([0, 1, 0, 1, 0]), "random", 3), folder / "shards")
    inner = [f"client-{number:03d}/manifest.json" for number in range(2)]
    return OfFiles(folder / "shards", read, manifests=[*inner, "manifest.json"])


def features(folder: Path) -> EitherFiles:
    """Features alone, as of another program."""
    import scipy.sparse as sp

    from feddep.graph.folder import read_features

    for name in ("sparse", "dense"):
        (folder / name).mkdir(parents=True)
    sp.save_npz(folder / "sparse/features.npz", sp.csr_array(np.eye(6, 4, dtype=np.float32)))
    np.save(folder / "dense/features.npy", np.eye(6, 4))
    return EitherFiles(
        OfFiles(folder / "sparse", lambda path: read_features(path / "features.npz")),
        OfFiles(folder / "dense", lambda path: read_features(path / "features.npy")),
    )


# Tables


def tables(folder: Path) -> EitherFiles:
    """A silo's own tables, as CSV and as Parquet, with their settings."""
    import pyarrow.csv
    import pyarrow.parquet

    from feddep.tables.encoder import fit
    from feddep.tables.files import open_tables
    from tables.banks import write_bank

    settings = 'categories = ["code"]\nedge_features = true\nlog = ["balance"]\nsilo = "north"\n'
    text = write_bank(folder / "text", settings=settings)
    columns = folder / "columns"
    columns.mkdir()
    for name in ("accounts", "transactions"):
        table = pyarrow.csv.read_csv(text / f"{name}.csv")
        pyarrow.parquet.write_table(table, columns / f"{name}.parquet")

    def read(path: Path) -> None:
        fit(open_tables(path))

    return EitherFiles(OfFiles(text, read), OfFiles(columns, read))


def schemas(folder: Path) -> EitherFiles:
    """Schemas that silos agree on, and encoders."""
    from feddep.tables.agreeing import make_schema, read_schema, write_schema
    from feddep.tables.encoder import Encoder, fit
    from feddep.tables.files import open_tables
    from tables.banks import write_bank

    bank = write_bank(folder / "bank")
    for name in ("agreed", "own"):
        (folder / name).mkdir()
    write_schema(make_schema(bank), folder / "agreed" / "schema.json")
    fit(open_tables(bank)).encoder.write(folder / "own")
    return EitherFiles(
        OfFiles(folder / "agreed", lambda path: read_schema(path / "schema.json")),
        OfFiles(folder / "own", Encoder.read),
    )


def of_tables() -> Graph:
    """A graph that says what its columns mean."""
    from feddep.tables.encoder import fit
    from feddep.tables.files import frames

    nodes = {"id": [1, 2, 3, 4], "age": [3.0, 4.0, 5.0, 9.0], "kind": ["a", "b", "a", "b"],
             "label": ["x", "y", "x", "y"]}  # fmt: skip
    return fit(frames(nodes, {"source": [1, 2, 3], "target": [2, 3, 4]})).graph


# Settings


def settings(folder: Path) -> EitherFiles:
    """Specs, presets and declarations of sweeps, each up to what is made of it."""
    from feddep.scenario.presets import read_choice
    from feddep.scenario.spec import RunSpec
    from feddep.sweeps.sweep import Sweep

    spec = RunSpec(method="feddep").to_toml()
    return EitherFiles(
        one_file(folder / "spec.toml", spec, RunSpec.read, waits=True),
        one_file(folder / "choice.toml", CHOICE, read_choice, waits=True),
        one_file(folder / "sweep.toml", SWEEP, Sweep.read, waits=True),
    )


def machines(folder: Path) -> OfFiles:
    """A whole kit: configurations, certificates, keys and the list of link keys."""
    from feddep.deployment.operations import certificates as certs
    from feddep.deployment.operations.config import read_config
    from feddep.deployment.operations.kit import init, read_kit
    from feddep.deployment.operations.link_keys import own_keyring
    from feddep.deployment.operations.reconcile import known_keys

    def read(kit: Path) -> None:
        read_kit(kit)
        read_config(kit / "server" / "server.toml")
        read_config(kit / "silos/bank-a/node.toml")
        known_keys(kit / "server" / "silos")
        certs.loaded(kit / "ca" / "ca.key", certs.load_key_pem)
        certs.loaded(kit / "silos/bank-a/bank-a.key", certs.load_private_openssh)
        own_keyring(read_config(kit / "silos/bank-a/silo.toml"))

    init(folder / "kit", hosts=["localhost"], port=8000, silos=["bank-a"])
    return OfFiles(folder / "kit", read)


def consents(folder: Path) -> OfFiles:
    """A silo's consent, with every key."""
    from feddep.deployment.protocol.consent import Consent

    return one_file(folder / "consent.toml", CONSENT, Consent.read)


CHOICE = """\
method = "feddep"
dataset = "cora"
[settings]
"training.learning_rate" = 0.01
"model.hidden" = 16
"""
SWEEP = """\
history = true
[fixed]
dataset = "cora"
"partition.clients" = 3
[grid]
method = ["fedavg", "feddep"]
seed = [0, 1, 2]
[quick]
seed = [0]
"""
CONSENT = """\
methods = ["fedavg", "feddep"]
messages = ["classifier", "prototypes"]
rounds = 100
smallest_cluster = 10
highest_epsilon = 4.0
highest_delta = 1e-7
numbers = ["loss"]
releases = 101
budget_epsilon = 8.0
budget_delta = 1e-6
budget_graph = "2026"
budget_since = 3
all_runs = 9
all_seconds = 3600
all_releases = 1000
share_of_nodes = 0.5
links = "labels"
links_epsilon = 4.0
links_budget = 8.0
"""


def one_file(file: Path, text: str, read: Read, **options: bool) -> OfFiles:
    """A reader of a single file, in a folder of its own."""
    own = file.parent / file.stem
    own.mkdir(parents=True)
    (own / file.name).write_text(text)
    return OfFiles(own, lambda path: read(path / file.name), **options)


def small_shards() -> Shards:
    """Three clients who know their links to each other."""
    graph = feddep.load(
        "synthetic", nodes=60, classes=3, communities_per_class=2, feature_count=30,
        topic_words=10, dialect_words=4, topic_share=0.6,
    )  # fmt: skip
    return feddep.partition(graph, clients=3, links="known", seed=0)
