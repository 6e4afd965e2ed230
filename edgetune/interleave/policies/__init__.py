"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``edgetune.testing.policy_contract``).
"""

from __future__ import annotations

from edgetune.interleave.policies.managed import Managed
from edgetune.interleave.policies.native import Native
from edgetune.interleave.policies.policy import NamedInterleavePolicy
from edgetune.plugins import find, table_of

POLICIES: dict[str, type[NamedInterleavePolicy]] = table_of([Managed, Native], kinds="policies")


def find_policy(name: str) -> type[NamedInterleavePolicy]:
    """Return the policy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return find(POLICIES, name, kind="policy")
