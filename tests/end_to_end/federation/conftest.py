"""One federation for each file of tests: files may run at the same time."""

import pytest
from cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("federation"), silos=3)
    cluster.prepare()
    cluster.start()
    yield cluster
    cluster.stop()
