"""Every policy keeps the contract, and the table of them is whole."""

import pytest

from contracts.policy_contract import PolicyContract
from edgetune.errors import InputError
from edgetune.stages.interleave.policies import POLICIES
from edgetune.stages.interleave.policies.managed import Managed


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


def test_two_policies_of_one_name_are_an_error():
    with pytest.raises(ValueError, match="there is a policy 'managed' already"):
        POLICIES["managed"] = Managed


def test_an_unknown_policy_names_the_nearest_and_all():
    with pytest.raises(InputError) as error:
        POLICIES.find("manged")
    assert error.value.message == "there is no policy 'manged'"
    assert error.value.hint == "did you mean managed? known: managed, native, native-full"
