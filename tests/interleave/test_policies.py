"""Every policy keeps the contract, and the table of them is whole."""

from contracts.policy_contract import PolicyContract
from edgetune.stages.interleave.policies import POLICIES


class TestManaged(PolicyContract):
    policy = "managed"
    steps_in_flight = 2


class TestNative(PolicyContract):
    policy = "native"
    steps_in_flight = 2
    first_come_first_served = True


class TestNativeFull(PolicyContract):
    policy = "native-full"
    steps_in_flight = 2
    first_come_first_served = True


def test_every_policy_of_the_table_is_under_contract():
    assert {kind.policy for kind in PolicyContract.__subclasses__()} == set(POLICIES)
