"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``edgetune.testing.policy_contract``).
"""

from __future__ import annotations

import difflib

from edgetune.errors import InputError
from edgetune.interleave.policies.managed import Managed
from edgetune.interleave.policies.native import Native
from edgetune.interleave.policies.policy import NamedPolicy


def table_of(*policies: type[NamedPolicy]) -> dict[str, type[NamedPolicy]]:
    """Return the policies by name, in the order given.

    Raises:
        ValueError: two policies share a name.
    """
    table: dict[str, type[NamedPolicy]] = {}
    for policy in policies:
        if policy.name in table:
            raise ValueError(f"two policies are called {policy.name!r}")
        table[policy.name] = policy
    return table


POLICIES: dict[str, type[NamedPolicy]] = table_of(Managed, Native)


def find_policy(name: str) -> type[NamedPolicy]:
    """Return the policy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    if name in POLICIES:
        return POLICIES[name]
    near = difflib.get_close_matches(name, POLICIES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"there is no policy {name!r}", f"{hint}known: {', '.join(POLICIES)}")
