"""``edgetune show FILE --plot FIGURE``: an artifact drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgetune.artifacts.io import Artifact


def draw(read: Callable[[str], Artifact], file: str, target: str) -> None:
    """Draw the artifact that ``read`` finds in ``file`` and write the figure to ``target``.

    Raises:
        InputError: it has no figure, or the figure cannot be written.
        DeviceError: matplotlib is missing.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.cli.output import Target
    from edgetune.cli.screen import Screen
    from edgetune.drawing import figure_bytes, format_of

    form = format_of(target)
    Target(Path(target)).check()
    data = figure_bytes(figure_of(read(file), file), form)
    write_atomically(data, target)
    Screen().say(f"wrote {target}")


def figure_of(artifact: Artifact, name: str) -> Figure:
    """Return the figure of an artifact.

    Raises:
        InputError: its kind has none; ``name`` is what the message calls it.
    """
    from edgetune.artifacts.evaluation import Evaluation
    from edgetune.artifacts.profile import Profile
    from edgetune.artifacts.trace import Trace

    if isinstance(artifact, Profile):
        from edgetune.profiling.figures import profile_figure

        return profile_figure(artifact)
    if isinstance(artifact, Trace):
        from edgetune.search.figures import trace_figure

        return trace_figure(artifact)
    if isinstance(artifact, Evaluation):
        from edgetune.search.evaluation.figure import evaluation_figure

        return evaluation_figure(artifact)
    raise InputError(f"{name} is a file of kind {artifact.header.kind}, which has no figure", "leave out --plot")
