"""``edgetune show FILE --plot FIGURE``: an artifact drawn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgetune.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from edgetune.artifacts.io import Artifact
    from edgetune.search.figures import View


def draw(read: Callable[[str], Artifact], file: str, target: str, view: str | None = None) -> None:
    """Draw the artifact that ``read`` finds in ``file`` and write the figure to ``target``.

    Raises:
        InputError: it has no figure or not this view, or the figure cannot be written.
        DeviceError: matplotlib is missing.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.cli.output import Target
    from edgetune.cli.screen import Screen
    from edgetune.drawing import figure_bytes, format_of

    form = format_of(target)
    Target(Path(target)).check()
    data = figure_bytes(figure_of(read(file), file, view), form)
    write_atomically(data, target)
    Screen().say(f"wrote {target}")


def figure_of(artifact: Artifact, name: str, view: str | None = None) -> Figure:
    """Return the figure of an artifact, of a trace the one of this view.

    Raises:
        InputError: its kind has none, or not this view; ``name`` is what the message calls it.
    """
    from edgetune.artifacts.evaluation import Evaluation
    from edgetune.artifacts.profile import Profile
    from edgetune.artifacts.trace import Trace

    if isinstance(artifact, Trace):
        from edgetune.search.figures import search_figure

        return search_figure(artifact, view_of(view or "steps"))
    if view is not None:
        raise InputError(f"{name} is a file of kind {artifact.header.kind}, and --view is for a trace", "leave it out")
    if isinstance(artifact, Profile):
        from edgetune.profiling.figures import profile_figure

        return profile_figure(artifact)
    if isinstance(artifact, Evaluation):
        from edgetune.search.evaluation.figure import evaluation_figure

        return evaluation_figure(artifact)
    raise InputError(f"{name} is a file of kind {artifact.header.kind}, which has no figure", "leave out --plot")


def view_of(word: str) -> View:
    """Return the figure of a search that a word names.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    from edgetune.cli.choices import choose
    from edgetune.search.figures import VIEWS

    return cast("View", choose(word, VIEWS, what="view"))
