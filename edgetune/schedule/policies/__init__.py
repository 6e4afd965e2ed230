"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``edgetune.testing.schedule_contract``).
"""

from __future__ import annotations

from edgetune.plugins import find, table_of
from edgetune.schedule.policies.bulk import Bulk
from edgetune.schedule.policies.deepeye import DeepEye
from edgetune.schedule.policies.fcfs import FirstComeFirstServed
from edgetune.schedule.policies.linear import Linear
from edgetune.schedule.policies.masa import Masa
from edgetune.schedule.policies.partial import Partial
from edgetune.schedule.policies.policy import NamedPolicy
from edgetune.schedule.policies.reuse import Reuse
from edgetune.schedule.policies.rr import RoundRobin
from edgetune.schedule.policies.sjf import ShortestJobFirst
from edgetune.schedule.policies.snf import ShortestNetworkFirst

POLICIES: dict[str, type[NamedPolicy]] = table_of(
    [
        Bulk,
        Linear,
        DeepEye,
        Partial,
        FirstComeFirstServed,
        ShortestJobFirst,
        ShortestNetworkFirst,
        RoundRobin,
        Masa,
        Reuse,
    ],
    kinds="policies",
)


def find_policy(name: str) -> type[NamedPolicy]:
    """Return the policy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return find(POLICIES, name, kind="policy")
