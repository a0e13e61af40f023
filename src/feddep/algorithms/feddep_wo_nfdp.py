"""FedDEP without noise-free sampling: DP-SGD on the local GNN instead.

The noise multiplier is the paper's, 2, unless the run sets another (``privacy.noise``). DP-SGD
replaces both stages of NFDP: the local GNN sees full neighbour lists, each example's gradient is
clipped and their sum noised, and no generated neighbour is dropped. F is trained as in every other
method; NFDP did not protect it either.
"""

from dataclasses import replace

from feddep.algorithms import feddep

METHOD = replace(
    feddep.METHOD,
    name="feddep-wo-nfdp",
    preset_of=feddep.METHOD.name,
    summary="FedDEP with DP-SGD (σ = 2) on the local GNNs in place of sampled neighbours.",
    settings={"privacy.mechanism": "dp-sgd", "generator.keep": 1.0},
)
