"""Options that make no sense are refused."""

import math

import pytest

from edgetune.errors import InputError
from edgetune.stages.profiling.options import ProfileOptions


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
        {"cool_to_c": math.nan},
        {"cool_timeout_s": 0.0},
        {"interleave_repeats": 0},
    ],
)
def test_senseless_options_are_refused(wrong):
    with pytest.raises(InputError):
        ProfileOptions(**wrong)


def test_rule_follows_the_options():
    rule = ProfileOptions(target_ci=0.1, max_minibatches=50, minibatches=40).rule
    assert (rule.target, rule.maximum, rule.fixed) == (0.1, 50, 40)
