"""FedDEP without noise-free sampling: DP-SGD on the local GNN instead.

Its noise multiplier is the paper's, 2, unless the run asks for another (``privacy.noise``). It
takes the place of both stages of NFDP: the local GNN sees full neighbour lists, its gradients are
clipped one by one and noised, and no generated neighbour is dropped. F is trained as in every other
method; it was not NFDP that protected it.
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
