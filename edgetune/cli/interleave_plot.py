"""Figures of ``edgetune interleave``: of what ran, and of a cycle that is planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.choices import choose
from edgetune.errors import InputError

if TYPE_CHECKING:
    from edgetune.cli.interleave_options import InterleaveJob, InterleaveOptions, InterleaveSetup


def check_figure(opts: InterleaveOptions) -> None:
    """Refuse a figure that cannot be drawn before anything is run for it.

    Raises:
        InputError: no known format or view, or a view without a figure.
        DeviceError: matplotlib is missing.
    """
    from edgetune.plotting.figure_file import require_figure
    from edgetune.plotting.page import is_page
    from edgetune.plotting.style import styled

    if opts.plot is None:
        if opts.view is not None:
            raise InputError("--view says which figure to draw, and none was asked for", "add --plot FIGURE.svg")
        return
    from edgetune.interleave.figures import VIEWS

    if is_page(opts.plot) and not opts.explain:
        if opts.view is not None:
            raise InputError("a page shows everything, and --view chooses between figures", "leave it out")
        with styled():  # which needs matplotlib
            pass
        return
    require_figure(opts.plot)
    views = ("cycle",) if opts.explain else VIEWS
    choose((opts.view or views[0]).partition(":")[0], views, what="view")


def draw_plan(setting: InterleaveSetup, planned: InterleaveJob) -> None:
    """Draw the cycle that is planned, where a figure was asked for.

    Raises:
        InputError: there is no cycle, for more than two share the device or nobody knows the rate.
    """
    from edgetune.cli.plot import write_drawing
    from edgetune.interleave.figures.planned import planned_figure

    plot = setting.asked.plot
    if plot is None:
        return
    if planned.cycle is None or planned.goals is None:
        raise InputError("a plan is drawn for one workload that answers, and these share no cycle", "leave --plot out")
    cycle, budget_s = planned.cycle, planned.goals.latency_budget_s
    write_drawing(lambda: planned_figure(cycle, budget_s, simulated=setting.simulated), plot, setting.screen)
