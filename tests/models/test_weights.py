"""Modules as named arrays and back."""

import numpy as np
import pytest
import torch

from feddep.errors import InputError
from feddep.models.sage import FusedSage, ModelSpec, initialise
from feddep.models.weights import from_arrays, to_arrays
from feddep.seeding import Seeds


def model(seed=0):
    found = FusedSage(ModelSpec(hidden=2), 3, 2)
    initialise(found, Seeds(seed))
    return found


def test_there_and_back():
    one, other = model(1), model(2)
    from_arrays(other, to_arrays(one))
    for ours, theirs in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_every_parameter_has_its_name():
    arrays = to_arrays(model())
    assert set(arrays) == {
        "features",
        "bias",
        *(f"convolutions.{k}.{part}" for k in (0, 1) for part in ("neighbours", "own", "bias")),
    }
    assert arrays["features"].shape == (3, 2)


def test_arrays_are_copies_in_both_directions():
    one = model()
    arrays = to_arrays(one)
    arrays["features"][:] = 7
    assert not (one.features == 7).any()
    from_arrays(one, arrays)
    arrays["features"][:] = 8
    assert (one.features == 7).all()


def test_read_only_and_double_arrays_are_taken():
    arrays = {name: array.astype(np.float64) for name, array in to_arrays(model(1)).items()}
    for array in arrays.values():
        array.flags.writeable = False
    found = model(2)
    from_arrays(found, arrays)
    assert found.features.dtype == torch.float32
    assert torch.equal(found.features, model(1).features)


def test_a_missing_name_is_refused():
    arrays = to_arrays(model())
    del arrays["bias"]
    with pytest.raises(InputError, match=r"expected weights bias, .* \(got convolutions"):
        from_arrays(model(), arrays)


def test_an_unknown_name_is_refused():
    arrays = to_arrays(model()) | {"colour": np.ones(1)}
    with pytest.raises(InputError, match=r"expected weights bias, .* \(got bias, colour, "):
        from_arrays(model(), arrays)


def test_a_wrong_shape_is_refused_even_if_it_could_be_stretched():
    arrays = to_arrays(model()) | {"features": np.ones((1, 2), np.float32)}
    with pytest.raises(InputError, match=r"expected features of shape \(3, 2\) \(got \(1, 2\)\)"):
        from_arrays(model(), arrays)
