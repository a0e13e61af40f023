"""FedAvg from a warm start: FedAvg in everything but where F starts."""

import numpy as np
import pytest

from feddep.algorithms import fedavg, fedavg_warm, feddep
from feddep.errors import InputError
from feddep.federation.messages import Reply, Request, group
from feddep.graph.shard import Shards
from feddep.models.weights import Weights
from feddep.scenario.build import resolve
from feddep.scenario.spec import RunSpec
from small_runs import messages_of, pool_of


def test_it_cannot_be_switched_off():
    settings = {"method": "fedavg-warm", "embedding.warm_start": False}
    with pytest.raises(InputError, match=r"fedavg-warm has embedding.warm_start = True"):
        resolve(RunSpec().with_settings(settings), settings)


def test_nothing_else_differs_from_fedavg():
    assert fedavg_warm.METHOD.phases[1:] == fedavg.METHOD.phases
    own = {"name", "summary", "phases", "settings"}
    for name in fedavg.METHOD.__dataclass_fields__.keys() - own:
        assert getattr(fedavg_warm.METHOD, name) == getattr(fedavg.METHOD, name)


def test_f_starts_from_the_local_gnns_of_feddep(small_shards: Shards):
    assert fedavg_warm.METHOD.phases[0] == feddep.METHOD.phases[0]
    said = {
        method.name: messages_of(pool_of(method, small_shards), small_shards)
        for method in (fedavg.METHOD, fedavg_warm.METHOD)
    }
    cold, warm = (start_of(said[name]) for name in ("fedavg", "fedavg-warm"))
    differ = {name for name in cold if not np.array_equal(cold[name], warm[name])}
    sent = group(said["fedavg-warm"][0][1].arrays, "classifier")
    assert differ == sent.keys() > set()
    assert not any(name.startswith("convolutions.1.") for name in differ)


def start_of(messages: list[tuple[Request, Reply]]) -> Weights:
    """The classifier that the first round sends out."""
    asked = (request for request, _ in messages if request.phase == "averaging")
    return group(next(asked).arrays, "classifier")
