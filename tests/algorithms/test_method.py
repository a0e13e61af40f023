"""What a method must keep to when it is put together."""

from dataclasses import replace

import pytest

from feddep.algorithms import METHODS, find_method
from feddep.errors import InputError
from feddep.phases.averaging import Averaging


def test_two_phases_of_one_name_are_refused():
    both = (Averaging(), Averaging())
    with pytest.raises(InputError, match=r"phases of fedavg need different names \(got averaging"):
        replace(METHODS["fedavg"], phases=both)
    named = (Averaging(), Averaging(name="again"))
    assert replace(METHODS["fedavg"], phases=named).phases == named


def test_the_preset_of_an_unknown_method_is_refused_with_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "borrowing_method.py").write_text(
        "from dataclasses import replace\n"
        "from feddep.method import find_method\n"
        "KNOWN = replace(find_method('fedavg'), preset_of='fedavg')\n"
        "OWN = replace(KNOWN, preset_of='borrowing_method:KNOWN')\n"
        "UNKNOWN = replace(KNOWN, preset_of='fedavgg')\n"
        "LOST = replace(KNOWN, preset_of='borrowing_method:NOWHERE')\n"
    )
    assert find_method("borrowing_method:KNOWN").preset_of == "fedavg"
    assert find_method("borrowing_method:OWN").preset_of == "borrowing_method:KNOWN"
    told = r"borrowing_method:UNKNOWN, preset_of: unknown method 'fedavgg'; known: .*fedavg, fed"
    with pytest.raises(InputError, match=told):
        find_method("borrowing_method:UNKNOWN")
    with pytest.raises(InputError, match="expected a Method at borrowing_method:NOWHERE"):
        find_method("borrowing_method:LOST")
