"""The cycle that a plan promises, drawn as those that ran are: requests evenly spaced, every minibatch as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.errors import InputError
from edgetune.interleave.cycle import Cycle
from edgetune.interleave.explain import parts_of
from edgetune.interleave.figures.cycle import AFTER, CYCLES, Cycles, Filled, draw_cycles
from edgetune.interleave.occupancy import Busy
from edgetune.units import format_si

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def planned_figure(cycle: Cycle, latency_budget_s: float | None = None, *, simulated: bool = False) -> Figure:
    """Return some cycles as planned.

    Args:
        cycle: What happens between one full batch and the next.
        latency_budget_s: Every request is due this long after it arrived, s; ``None`` shows no deadlines.
        simulated: Whether its times are of a model, which the title then says.

    Raises:
        InputError: requests come at a rate that nobody knows.
        DeviceError: matplotlib is missing.
    """
    cycles = planned_cycles(cycle, latency_budget_s)
    mode = str(cycle.infer.mode) if cycle.infer.mode.settings() else ""
    title = f"planned: a cycle of {format_si(cycle.period_s, 's')} at {cycle.rate_per_s:g} requests/s"
    return draw_cycles(cycles, f"SIMULATED: {title}" if simulated else title, mode)


def planned_cycles(cycle: Cycle, latency_budget_s: float | None = None) -> Cycles:
    """Return some cycles as planned, the first batch full at 0 s; arguments as above.

    Raises:
        InputError: requests come at a rate that nobody knows.
    """
    if cycle.rate_per_s is None:
        raise InputError("a cycle has no length where the rate of requests is unknown", "give an arrival rate")
    batches, busy = [], []
    infer, train = cycle.infer, cycle.train
    from_s = -cycle.fill_s
    end_s = (CYCLES - 1) * cycle.period_s + infer.minibatch_s
    to_s = end_s + AFTER * (end_s - from_s)
    for number in range(-1, CYCLES + 1):  # of the cycles before and after, one sees the ends
        full_s = number * cycle.period_s
        first_s = full_s + from_s
        arrivals_s = tuple(first_s + position / cycle.rate_per_s for position in range(cycle.together))
        due_s = None if latency_budget_s is None else first_s + latency_budget_s
        batches.append(Filled(infer.workload, arrivals_s, full_s, full_s + infer.minibatch_s, due_s))
        for part in parts_of(cycle):
            begin_s, end_s = full_s + part.begin_s, full_s + part.begin_s + part.duration_s
            if part.what == "infer":
                busy.append(Busy(infer.workload, True, begin_s, end_s, cycle.together, cycle.together))
            elif part.what == "train" and train is not None:
                busy.append(Busy(train.workload, False, begin_s, end_s, train.batch_size, train.batch_size))
    return Cycles(
        [batch for batch in batches if batch.end_s > from_s and batch.arrivals_s[0] < to_s],
        [each for each in busy if each.end_s > from_s and each.start_s < to_s],
        from_s,
        to_s,
    )
