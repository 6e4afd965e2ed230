"""Contention: what a simulation makes of a device's parameter."""

from edgetune.devices.device import Contention
from edgetune.stages.interleave.backend import Inference, Training
from edgetune.workflows.interleave.turns import slowdown_of

CAMERA, NIGHT, DAY = Inference("camera", 2, 0.1, 10.0, 0.01), Training("night", 4, 0.02), Training("day", 4, 0.02)


def test_a_device_s_parameter_is_of_answers_beside_work_without_a_deadline():
    slowdown = slowdown_of(Contention((3.0,), (1.5,), "made up"), [CAMERA, NIGHT, DAY], 0)
    assert (slowdown("camera", "night"), slowdown("night", "camera"), slowdown("night", "day")) == (3.0, 1.5, 2.0)
    assert slowdown_of(None, [CAMERA, NIGHT], 0)("camera", "night") == 2.0


def test_each_of_several_values_is_drawn_by_the_seed():
    pair = Contention((2.0, 3.0), (1.0,), "made up")
    draws = [[slowdown_of(pair, [CAMERA, NIGHT], 7)("camera", "night") for _ in range(1)] for _ in range(3)]
    assert draws[0] == draws[1] == draws[2]
    slowdown = slowdown_of(pair, [CAMERA, NIGHT], 7)
    assert {slowdown("camera", "night") for _ in range(50)} == {2.0, 3.0}
