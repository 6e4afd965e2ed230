"""What is kept free before an answer is due."""

from edgetune.stages.interleave.cycle import HEADROOM
from edgetune.stages.interleave.policies.policy import GUARD_NS, GUARD_SHARE, guard_ns


def test_a_share_of_the_shortest_budget_but_never_less_than_a_late_wake_up():
    assert guard_ns([0.4, 0.1]) == round(GUARD_SHARE * 0.1e9)
    assert guard_ns([0.001]) == GUARD_NS
    assert guard_ns([]) == GUARD_NS


def test_a_plan_leaves_more_free_than_the_policy_keeps():
    assert GUARD_SHARE < HEADROOM
