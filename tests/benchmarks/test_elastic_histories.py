"""Some hundred random histories of each policy; the command runs 10,000."""

import pytest
from elastic_histories import histories

from edgetune.stages.elastic.policies import POLICIES


@pytest.mark.parametrize("policy", POLICIES)
def test_every_logical_block_is_launched_once_whatever_happens(policy):
    seen = histories(policy, 300, seed=1)
    assert seen["ok"] > 1000
    assert seen["failed"] > 100
    assert seen["logical blocks"] > 20_000
    if policy == "elastic":
        assert seen["beside critical kernels"] > 300
        assert seen["blocks that go on"] > 100
        assert seen["threads of several"] > 50
