"""The methods, one small file each, and the table of them.

The package is not called ``methods`` because that is the public function ``feddep.methods()``.
"""

import hashlib
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from feddep.algorithms import (
    centralised,
    fedavg,
    fedavg_warm,
    feddep,
    feddep_wo_dgen,
    feddep_wo_nfdp,
    feddep_wo_proto,
    fedgnn,
    fedgnn_update,
    fedgraph,
    fedgsl,
    fedsage,
    linked,
    local,
    oracle,
)
from feddep.algorithms.method import Method
from feddep.errors import InputError, unknown

METHODS: dict[str, Method] = {
    module.METHOD.name: module.METHOD
    for module in (
        centralised,
        local,
        fedavg,
        fedavg_warm,
        fedsage,
        fedgnn,
        fedgnn_update,
        fedgraph,
        fedgsl,
        feddep_wo_dgen,
        feddep_wo_proto,
        feddep_wo_nfdp,
        feddep,
        oracle,
    )
} | {method.name: method for method in linked.ALL}


def find_method(name: str) -> Method:
    """The method of that name, or from a user's own module: ``package.module:ATTRIBUTE``.

    Workers and resumed runs find a method by its name; so a method from a module is named after
    its address, whatever it calls itself.

    Raises:
        InputError: the name is unknown, the module has no such method, or the method takes the
            preset of an unknown one; it says why.
    """
    if not isinstance(name, str):
        raise InputError(
            "expected a method's name, or its address package.module:ATTRIBUTE "
            f"(got {type(name).__name__})"
        )
    if is_import_path(name):
        found = replace(_imported(name), name=name)
        _check_preset_of(found)
        return found
    if name not in METHODS:
        raise unknown("method", name, METHODS)
    return METHODS[name]


def _check_preset_of(method: Method) -> None:
    """Refuses an unknown name, which would silently be a method without tuned settings."""
    source = method.preset_of
    if source is None or source in METHODS:
        return
    if is_import_path(source):
        _imported(source)  # or it says why not
        return
    raise InputError(f"{method.name}, preset_of: {unknown('method', source, METHODS)}")


def is_import_path(name: str) -> bool:
    """Whether a name is the address of a user's own method, ``package.module:ATTRIBUTE``."""
    return ":" in name


def fingerprint(name: str) -> str | None:
    """A hash of the file that holds a user's own method, which may change; None for ours."""
    if not is_import_path(name):
        return None
    find_method(name)  # or there may be no such file
    file = sys.modules[name.partition(":")[0]].__file__
    return file and hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]


def _imported(name: str) -> Method:
    module, _, attribute = name.partition(":")
    if module == "__main__":  # a worker is another program, with another __main__
        raise InputError(
            f"expected a method in a module that can be imported (got {name}, in a script)"
        )
    try:
        found = getattr(import_module(module), attribute, None)
    except Exception as error:  # this runs the user's code: anything may happen
        lost = isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")
        remedy = "; its folder must be on the import path, e.g. with PYTHONPATH=." if lost else ""
        raise InputError(
            f"cannot import {module} for the method {name}: {type(error).__name__}: {error}{remedy}"
        ) from error
    if not isinstance(found, Method):
        raise InputError(
            f"expected a Method at {name} (got {type(found).__name__}); see docs/adding_a_method.md"
        )
    return found
