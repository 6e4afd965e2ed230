"""Whether a figure of ``edgetune schedule run`` can be drawn, before anything is run for it."""

from __future__ import annotations

from edgetune.errors import InputError


def check_figure(plot: str | None, view: str | None) -> None:
    """Refuse a figure that cannot be drawn.

    Raises:
        InputError: no known format or view, or a view without a figure.
        DeviceError: matplotlib is missing.
    """
    from edgetune.cli.plot import timeline_view
    from edgetune.plotting.figure_file import require_figure

    if plot is None:
        if view is not None:
            raise InputError("--view says which figure to draw, and none was asked for", "add --plot FIGURE.svg")
        return
    require_figure(plot)
    timeline_view(view or "gantt")
