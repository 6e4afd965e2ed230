"""Some hundred random histories of each policy; the command plays 10,000."""

import pytest
from elastic_histories import histories

from edgetune.elastic.policies import POLICIES


@pytest.mark.parametrize("policy", POLICIES)
def test_every_logical_block_is_launched_once_whatever_happens(policy):
    seen = histories(policy, 500, seed=1)
    assert seen["launches"] > 2000
    assert seen["logical blocks"] > 20_000
    if policy == "elastic":
        assert seen["pieces beside critical kernels"] > 500
        assert seen["of several blocks a thread block"] > 200
        assert seen["of several threads a thread"] > 50
