"""What a search may choose from: the points of tables, or those of a network on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetune.errors import EdgetuneError

if TYPE_CHECKING:
    from edgetune.artifacts.header import DataWarning
    from edgetune.artifacts.profile import Point, ProfileRow
    from edgetune.cli.screen import Screen
    from edgetune.profiling.estimate import SweepEstimate
    from edgetune.search.strategy import OperatorTotals


@dataclass(frozen=True, slots=True)
class Candidates:
    """Points to choose from and how to measure one, ``free`` when that is a look-up.

    ``kind`` is the problem they are for. ``expect`` says what measuring all of them would take; ``inputs``,
    ``conditions`` and ``warnings`` go into headers. ``no_power`` is why the device cannot measure power, where it
    cannot; ``defect`` what every measurement failed of; ``background`` the name of the second network of a live search;
    ``rows`` what a table holds; ``recovered`` what of an earlier run was put back on the device, a sentence each;
    ``operators`` what the network costs at each batch size, where its graph is known; ``warn_of_load`` tells a screen
    what else uses the machine that measures.
    """

    points: Sequence[Point]
    measure: Callable[[Point], ProfileRow]
    kind: str
    described: str
    simulated: bool
    free: bool
    inputs: Mapping[str, Any]
    conditions: Mapping[str, Any]
    warnings: tuple[DataWarning, ...] = ()
    expect: Callable[[], SweepEstimate] | None = None
    no_power: str | None = None
    defect: Callable[[], EdgetuneError | None] = lambda: None
    background: str | None = None
    recovered: Callable[[], Sequence[str]] = tuple
    operators: Callable[[], tuple[OperatorTotals, ...]] = tuple
    rows: Sequence[ProfileRow] = ()
    warn_of_load: Callable[[Screen], None] = lambda _: None
