"""What a method must keep to when it is put together."""

from dataclasses import replace

import pytest

from feddep.algorithms import METHODS
from feddep.errors import InputError
from feddep.phases.averaging import Averaging


def test_two_phases_of_one_name_are_refused():
    both = (Averaging(), Averaging())
    with pytest.raises(InputError, match=r"phases of fedavg need different names \(got averaging"):
        replace(METHODS["fedavg"], phases=both)
    named = (Averaging(), Averaging(name="again"))
    assert replace(METHODS["fedavg"], phases=named).phases == named
