"""The methods, one small file each, and the one table of them.

The package is not called ``methods`` because that is the public function ``feddep.methods()``.
"""

from feddep.algorithms import centralised, fedavg, feddep, local
from feddep.algorithms.method import Method
from feddep.errors import unknown

METHODS: dict[str, Method] = {
    method.name: method
    for method in (centralised.METHOD, local.METHOD, fedavg.METHOD, feddep.METHOD)
}


def find_method(name: str) -> Method:
    """The method of that name; an unknown name is refused with the list of known ones."""
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]
