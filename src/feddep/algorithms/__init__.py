"""The methods, one small file each, and the one table of them.

The package is not called ``methods`` because that is the public function ``feddep.methods()``.
"""

from feddep.algorithms import (
    centralised,
    fedavg,
    feddep,
    feddep_wo_dgen,
    feddep_wo_nfdp,
    feddep_wo_proto,
    fedgnn,
    fedgraph,
    fedgsl,
    fedsage,
    local,
    oracle,
)
from feddep.algorithms.method import Method
from feddep.errors import unknown

METHODS: dict[str, Method] = {
    module.METHOD.name: module.METHOD
    for module in (
        centralised,
        local,
        fedavg,
        fedsage,
        fedgnn,
        fedgraph,
        fedgsl,
        feddep_wo_dgen,
        feddep_wo_proto,
        feddep_wo_nfdp,
        feddep,
        oracle,
    )
}


def find_method(name: str) -> Method:
    """The method of that name; an unknown name is refused with the list of known ones."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
