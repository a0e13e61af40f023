"""What really crosses the network, counted by a proxy."""

from cluster import Cluster, CountingProxy
from run_comparison import record_of


def test_bytes_on_the_wire(tmp_path):
    cluster = Cluster(tmp_path, silos=2)
    cluster.prepare()
    proxy = CountingProxy(cluster.port)
    for number in range(2):
        cluster.change(number, f"localhost:{cluster.port}", f"localhost:{proxy.port}")
    try:
        cluster.start()
        spec = cluster.spec("fedavg", rounds=2, hidden=2048)
        said = cluster.finish(cluster.federate(spec, "wire"))
    finally:
        cluster.stop()
        proxy.close()
    assert (tmp_path / "wire" / "record.json").exists(), said
    model = (tmp_path / "wire" / "model.safetensors").stat().st_size
    assert model > 1_000_000
    traffic = record_of(tmp_path / "wire")["traffic"]
    metered = traffic["up_bytes"] + traffic["down_bytes"] + 2 * model  # each silo gets the result
    print(f"model {model}, metered {metered}, on the wire {proxy.bytes}")
    assert proxy.bytes <= 1.05 * metered
