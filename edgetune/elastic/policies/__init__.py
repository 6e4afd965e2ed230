"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``edgetune.testing.elastic_contract``).
"""

from __future__ import annotations

from collections.abc import Iterable

from edgetune.elastic.gpu import Gpu
from edgetune.elastic.pieces import Tables
from edgetune.elastic.policies.barrier import Barrier
from edgetune.elastic.policies.elastic import Elastic, tables_for
from edgetune.elastic.policies.multistream import MultiStream
from edgetune.elastic.policies.sequential import Sequential
from edgetune.elastic.view import NamedElasticPolicy
from edgetune.elastic.work import GpuTask
from edgetune.plugins import find, table_of

POLICIES: dict[str, type[NamedElasticPolicy]] = table_of([Sequential, MultiStream, Barrier, Elastic], kinds="policies")


def find_policy(name: str) -> type[NamedElasticPolicy]:
    """Return the policy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return find(POLICIES, name, kind="policy")


def make_policy(name: str, tasks: Iterable[GpuTask], gpu: Gpu, *, kept: Tables | None = None) -> NamedElasticPolicy:
    """Return a new policy; what it is to look up is worked out now, and not while a GPU waits.

    Args:
        name: In the table.
        tasks: That it is to decide for.
        gpu: Where.
        kept: What to look up instead, where somebody kept it.

    Raises:
        InputError: there is no such policy; the hint names the nearest.
    """
    found = find_policy(name)
    return Elastic({**tables_for(tasks, gpu), **(kept or {})}) if found is Elastic else found()
