"""Options that make no sense are refused."""

import math

import pytest

from edgetune.errors import InputError
from edgetune.stages.profiling.disturbances import check_possible
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.testing.fake_clock import FakeClock
from edgetune.workflows.parse_options import profile_options
from edgetune.workflows.profile.options import MeasuringOptions
from fakes.device import FakeModes, FakeSource, fake_device


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


def test_a_fan_is_at_its_maximum_or_as_found_where_there_is_one():
    assert (profile_options(MeasuringOptions()).fan, profile_options(MeasuringOptions(fan="max")).fan) == (None, "max")
    with pytest.raises(InputError, match="unknown --fan: 'min'"):
        profile_options(MeasuringOptions(fan="min"))
    with pytest.raises(InputError, match="--fan: fake has no fan"):
        check_possible(fake_device(FakeClock(), FakeSource(None), modes=FakeModes()), ProfileOptions(fan="max"))
