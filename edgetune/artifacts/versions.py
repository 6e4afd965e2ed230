"""Versions of every kind's layout, and how an older one becomes today's.

When a layout changes: raise ``VERSION`` in the kind's module, add the step from the old version to ``UPGRADES``,
and add a golden file (``tests/golden/add.py``). Files ever written stay readable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgetune.artifacts import (
    convergence,
    elastic_table,
    evaluation,
    jobs,
    kernel_tasks,
    kernel_timeline,
    layer_costs,
    ops,
    plan,
    profile,
    roofline,
    run,
    timeline,
    trace,
)
from edgetune.errors import InputError

CURRENT: Mapping[str, int] = {
    profile.KIND: profile.VERSION,
    trace.KIND: trace.VERSION,
    ops.KIND: ops.VERSION,
    plan.KIND: plan.VERSION,
    convergence.KIND: convergence.VERSION,
    evaluation.KIND: evaluation.VERSION,
    roofline.KIND: roofline.VERSION,
    run.KIND: run.VERSION,
    timeline.KIND: timeline.VERSION,
    jobs.KIND: jobs.VERSION,
    layer_costs.KIND: layer_costs.VERSION,
    elastic_table.KIND: elastic_table.VERSION,
    kernel_timeline.KIND: kernel_timeline.VERSION,
    kernel_tasks.KIND: kernel_tasks.VERSION,
}
"""The version this program writes, by kind."""

MADE_BY: Mapping[str, str] = {
    profile.KIND: "edgetune profile",
    trace.KIND: "edgetune search --trace FILE",
    ops.KIND: "edgetune roofline ops MODEL -o FILE",
    plan.KIND: "edgetune search",
    convergence.KIND: "edgetune profile --convergence",
    evaluation.KIND: "edgetune search evaluate -o FILE",
    roofline.KIND: "edgetune roofline MODEL -o FILE",
    run.KIND: "edgetune interleave -o FILE",
    timeline.KIND: "edgetune schedule run -o FILE",
    jobs.KIND: "edgetune schedule generate -o FILE",
    layer_costs.KIND: "edgetune schedule profile",
    elastic_table.KIND: "edgetune schedule kernels shrink",
    kernel_timeline.KIND: "edgetune schedule kernels simulate -o FILE",
    kernel_tasks.KIND: "edgetune show examples/kernels.yaml",
}
"""The command that writes a kind, for hints."""


@dataclass(frozen=True, slots=True)
class Raw:
    """An artifact as stored, before it is validated.

    Args:
        head: The header and, for a table, the fields of the table as a whole.
        body: A ``pyarrow.Table``, or the rest of a YAML document as a mapping.
    """

    head: Mapping[str, Any]
    body: Any


def _with_new_columns(raw: Raw) -> Raw:
    """Return a table of a version that only lacks columns: absent ones take their default."""
    return raw


UPGRADES: Mapping[tuple[str, int], Callable[[Raw], Raw]] = {(profile.KIND, 1): _with_new_columns}
"""Step from (kind, version) to the next version of that kind."""


def upgrade(raw: Raw, *, kind: str, name: str) -> Raw:
    """Return ``raw`` in the layout of today's version.

    Raises:
        InputError: it is of another kind, of an unknown kind, or of a version this program does not know.
    """
    found, version = raw.head.get("kind"), raw.head.get("version")
    if found != kind:
        raise _wrong_kind(found, kind=kind, name=name)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise InputError(f"{name} has no valid version: {version!r}", f"a {kind} is version 1 to {CURRENT[kind]}")
    if version > CURRENT[kind]:
        raise InputError(
            f"{name} was written by a newer edgetune: {kind} version {version}, known up to {CURRENT[kind]}",
            "upgrade edgetune here, or write the file again with this version",
        )
    for step in range(version, CURRENT[kind]):
        raw = UPGRADES[kind, step](raw)
    return raw


def _wrong_kind(found: Any, *, kind: str, name: str) -> InputError:
    hint = f"give it {_article(kind)}, as `{MADE_BY[kind]}` writes"
    if found is None:
        return InputError(f"{name} does not say what it is: there is no `kind`", hint)
    if isinstance(found, str) and found in CURRENT:
        return InputError(f"{name} is {_article(found)}, not {_article(kind)}", hint)
    return InputError(f"{name} is of unknown kind {found!r}, not a {kind}", hint)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
