"""Every federated method over TLS, two rounds: weights and bytes as in process."""

import pytest
from safetensors.numpy import save_file

from cluster import Cluster
from feddep.algorithms import METHODS
from test_live_federation import assert_same, in_process

# `local` keeps its weights at the silos; tests/deployment compares its scores and bytes.
OTHERS = [name for name in METHODS if name not in ("global", "oracle", "local", "feddep")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("methods"), silos=2)
    cluster.prepare()
    for number in range(2):
        consent = cluster.silo(number) / "consent.toml"
        text = consent.read_text().replace(
            '"feddep", "fedavg"', ", ".join(f'"{m}"' for m in OTHERS)
        )
        groups = sorted({name for method in OTHERS for name in METHODS[method].discloses})
        listed = ", ".join(f'"{name}"' for name in groups)
        consent.write_text(text.replace('"classifier", "prototypes"', listed))
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.mark.parametrize("method", OTHERS)
def test_as_in_process(cluster, method):
    spec = cluster.spec(method, rounds=2)
    options = []
    if METHODS[method].sees_cross_edges:
        options = ["--crossings", str(crossings(cluster))]
    said = cluster.finish(cluster.federate(spec, method, *options))
    assert (cluster.folder / method / "record.json").exists(), said
    assert_same(cluster.folder / method, in_process(cluster, spec))


def crossings(cluster: Cluster):
    from feddep.scenario.build import build, resolve
    from feddep.scenario.spec import RunSpec

    file = cluster.folder / "crossings.safetensors"
    if not file.exists():
        given = {"partition.clients": cluster.silos}
        shards = build(resolve(RunSpec().with_settings(given), given))
        save_file({str(i): rows for i, rows in enumerate(shards.crossings())}, file)
    return file
