"""Linked silos as real processes: keys from the kit, sealed messages, a silo that forgets."""

import json
from dataclasses import replace

import pytest
from cluster import Cluster
from run_comparison import assert_same, record_of, wait_for_rounds

from feddep.graph.folder import write_graph
from feddep.runs.folder import RunFolder
from feddep.runs.pipeline import run
from feddep.scenario.build import build, resolve
from feddep.scenario.spec import RunSpec, read_settings

NAMES = ("bank-0", "bank-1")
CONSENT = """
links = "labels"
links_epsilon = "unbounded"  # without a secret there is no noise
"""


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    """Two banks that name each other in their tables, a spec, and the same data in memory."""
    cluster = Cluster(tmp_path_factory.mktemp("linked"), silos=2)
    cluster.prepare("--dataset", "synthetic", "--partition", "random")
    spec = cluster.spec("feddep-linked", rounds=4)
    spec.write_text(spec.read_text().replace("clients = 2", 'clients = 2\nkind = "random"'))
    given = read_settings(spec)
    asked = resolve(RunSpec().with_settings(given), given)
    shards = replace(build(asked), names=NAMES).with_known_links()
    for number, graph in enumerate(shards):
        write_graph(graph, cluster.silo(number) / "data", overwrite=True)
        listed = '"feddep-linked", "fedavg"'
        cluster.change(number, '"feddep", "fedavg"', listed, "consent.toml")
        groups = '"classifier", "tags", "answers"'
        cluster.change(number, '"classifier", "prototypes"', groups, "consent.toml")
        consent = cluster.silo(number) / "consent.toml"
        consent.write_text(consent.read_text() + CONSENT)
    cluster.start()
    yield cluster, spec, asked, shards
    cluster.stop()


def test_a_run_in_which_a_silo_forgets_gives_what_it_gives_in_process(linked):
    cluster, spec, asked, shards = linked
    program = cluster.federate(spec, "linked")
    wait_for_rounds(cluster.folder / "linked", 1, program)
    cluster.running[1].kill()
    for folder in (cluster.silo(1) / "state" / "runs").iterdir():
        for file in folder.iterdir():
            file.unlink()
    cluster.start_silos({1: ()})
    said = cluster.finish(program)
    assert (cluster.folder / "linked" / "record.json").exists(), said
    here = RunFolder.claim(cluster.folder / "here", asked, resume=False)
    run(asked, shards, workers=1, folder=here)
    assert_same(cluster.folder / "linked", cluster.folder / "here")
    assert record_of(cluster.folder / "linked")["privacy"]["silos"][0]["links"] is None
    log = (cluster.silo(0) / "state" / "disclosures.jsonl").read_text().splitlines()
    sealed = [line for line in map(json.loads, log) if "answers/1" in line.get("names", {})]
    assert len(sealed) == 1
