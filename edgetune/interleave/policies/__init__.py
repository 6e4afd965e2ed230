"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``edgetune.testing.policy_contract``); a package
outside adds one by an entry point ``interleave.NAME`` of the group ``edgetune.policies``.
"""

from __future__ import annotations

from edgetune.interleave.policies.policy import NamedInterleavePolicy
from edgetune.plugins import Registry

POLICIES: Registry[type[NamedInterleavePolicy]] = Registry(
    "policy",
    {"managed": "edgetune.interleave.policies.managed:Managed", "native": "edgetune.interleave.policies.native:Native"},
    group="edgetune.policies",
    prefix="interleave.",
    contract=NamedInterleavePolicy,
)


def find_policy(name: str) -> type[NamedInterleavePolicy]:
    """Return the policy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return POLICIES.find(name)
