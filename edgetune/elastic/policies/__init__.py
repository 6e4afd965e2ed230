"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``edgetune.testing.elastic_contract``).
"""

from __future__ import annotations

from edgetune.elastic.policies.barrier import Barrier
from edgetune.elastic.policies.elastic import Elastic
from edgetune.elastic.policies.multistream import MultiStream
from edgetune.elastic.policies.policy import NamedPolicy
from edgetune.elastic.policies.sequential import Sequential
from edgetune.plugins import find, table_of

POLICIES: dict[str, type[NamedPolicy]] = table_of([Sequential, MultiStream, Barrier, Elastic], kinds="policies")


def find_policy(name: str) -> type[NamedPolicy]:
    """Return the policy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return find(POLICIES, name, kind="policy")
