"""Options that make no sense are refused, and the points of a request are each asked for once."""

import math

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.errors import InputError
from edgetune.profiling.options import ProfileOptions
from edgetune.profiling.request import ProfileRequest


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_ci": 0.0},
        {"target_ci": math.nan},
        {"target_ci": 1.0},
        {"minibatches": 0},
        {"max_minibatches": 3},
        {"max_sampling_s": -1.0},
        {"point_timeout_s": math.inf},
        {"point_timeout_s": math.nan},
        {"retries": -1},
    ],
)
def test_senseless_options_are_refused(wrong):
    with pytest.raises(InputError):
        ProfileOptions(**wrong)


def test_rule_follows_the_options():
    rule = ProfileOptions(target_ci=0.1, max_minibatches=50, minibatches=40).rule
    assert (rule.target, rule.maximum, rule.fixed) == (0.1, 50, 40)


def test_request_lists_each_point_once_batch_size_by_batch_size(training):
    modes = (Mode(gpu_mhz=300), Mode(gpu_mhz=600), Mode(gpu_mhz=300))
    request = ProfileRequest(training(), "train", (4, 1, 4), modes, "host")
    assert [(p.batch_size, p.mode.gpu_mhz) for p in request.points] == [(4, 300), (4, 600), (1, 300), (1, 600)]
