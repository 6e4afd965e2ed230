"""The policies, one file each, and the one table of them.

A new policy is one file, one row here and one line in the tests (``edgetune.testing.schedule_contract``).
"""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.errors import InputError
from edgetune.plugins import find, table_of
from edgetune.schedule.policies.classic import (
    Bulk,
    FirstComeFirstServed,
    Linear,
    Partial,
    RoundRobin,
    ShortestJobFirst,
    ShortestNetworkFirst,
)
from edgetune.schedule.policies.optimum import Optimum
from edgetune.schedule.policies.policy import SchedulePolicy
from edgetune.schedule.policies.published import DeepEye, Masa
from edgetune.schedule.policies.reuse import Reuse

POLICIES: dict[str, type[SchedulePolicy]] = table_of(
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
        Optimum,
    ],
    kinds="policies",
)


def find_policy(name: str) -> type[SchedulePolicy]:
    """Return the policy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return find(POLICIES, name, kind="policy")


def make_policy(words: str) -> SchedulePolicy:
    """Return a new policy from its name, or from name and variant, e.g. ``masa:code``.

    Raises:
        InputError: there is no such policy, or it has no such variant.
    """
    name, colon, variant = words.partition(":")
    found = find_policy(name)
    if not colon:
        return found()
    variants: Sequence[str] = found.variants
    if variant not in variants:
        known = ", ".join(f"{name}:{each}" for each in variants)
        raise InputError(f"policy {name} has no variant {variant!r}", f"known: {known}" if known else f"write {name}")
    return found(variant)  # type: ignore[call-arg]
