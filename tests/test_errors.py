"""Errors carry a message, a hint and the documented exit code, also across processes."""

from __future__ import annotations

import pickle

import pytest

from edgetune import errors


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.EdgetuneError, 1),
        (errors.InputError, 2),
        (errors.InfeasibleError, 3),
        (errors.DeviceError, 4),
        (errors.PartialError, 5),
        (errors.NotRestoredError, 6),
    ],
)
def test_each_error_has_its_documented_exit_code(kind, code):
    error = kind("what happened", "what to do")
    assert (int(error.exit_code), error.message, error.hint) == (code, "what happened", "what to do")


def test_an_error_survives_the_way_from_a_child_process():
    error = pickle.loads(pickle.dumps(errors.DeviceError("no GPU", "use --device host")))
    assert isinstance(error, errors.DeviceError)
    assert (error.message, error.hint) == ("no GPU", "use --device host")
