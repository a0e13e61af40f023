"""FedDEP without deep embeddings: prototypes of features (L = 0), otherwise as FedDEP."""

from dataclasses import replace

from feddep.algorithms import feddep

METHOD = replace(
    feddep.METHOD,
    name="feddep-wo-dgen",
    summary="FedDEP with generated features in place of deep embeddings (L = 0).",
    settings={"embedding.depth": 0},
    preset_of=feddep.METHOD.name,
)
