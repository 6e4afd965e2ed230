"""The Python interface: the workflows of the command line as functions; ``import edgetune`` gives them.

Every function takes the options of its command by name, with underscores. A quantity is written as on the command line
(``"20W"``, ``"80ms"``) or given as a number in its base SI unit. Errors are raised as ``edgetune.EdgetuneError``; notes
and progress go to standard error.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from edgetune.cli.screen import Screen
from edgetune.workflows.output import begin_outputs
from edgetune.workflows.profile_options import ProfileCommandOptions
from edgetune.workflows.reporting import Stdout

if TYPE_CHECKING:
    from edgetune.artifacts.artifact import Artifact
    from edgetune.artifacts.convergence import Convergence
    from edgetune.artifacts.profile import Profile
    from edgetune.profiling.window import Window

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741 -- of options
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Notes(Screen):
    """Reports to standard error as the command line does; standard output stays the program's own."""

    @property
    def stdout(self) -> Stdout:
        """Nothing of a workflow's."""
        return "none"


def _takes(options: Callable[P, O]) -> Callable[[Callable[[O], R]], Callable[P, R]]:
    """Return a decorator: the function takes the fields of an options dataclass instead of the dataclass."""

    def decorate(function: Callable[[O], R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            words = [os.fspath(value) if isinstance(value, os.PathLike) else value for value in args]
            named = {key: os.fspath(value) if isinstance(value, os.PathLike) else value for key, value in given.items()}
            opts: Any = options(*words, **named)  # type: ignore[arg-type]
            begin_outputs(force=bool(getattr(opts, "force", False)))
            return function(opts)

        call.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
        return call

    return decorate


@_takes(ProfileCommandOptions)
def profile(opts: ProfileCommandOptions) -> Profile | Convergence:
    """Measure a network: time, power and energy per minibatch, for batch sizes and power modes.

    The options are those of ``edgetune profile``. With ``output`` the table is written too, and the same call resumes.
    With ``convergence=True`` the network is trained instead, and the table holds epochs to an accuracy.
    """
    if opts.convergence:
        from edgetune.workflows.convergence import convergence

        return convergence(opts, _Notes())[0]
    from edgetune.workflows.profile import profile as workflow

    return workflow(opts, _Notes())[0]


def measure(
    device: str = "auto", *, mode: str | None = None, root: str | None = None
) -> AbstractContextManager[Window]:
    """Measure the body of a ``with`` statement: time, power, energy and memory.

        with edgetune.measure("jetson") as window:
            train_one_epoch()
        print(window.time_s, window.energy_j)

    See ``edgetune.workflows.measure.measure``.
    """
    from edgetune.workflows.measure import measure as workflow

    return workflow(device, mode=mode, root=root)


def read(path: str | os.PathLike[str]) -> Artifact:
    """Return the artifact in a file of edgetune: a profile, a plan, a run, ...

    Raises:
        InputError: there is no such file, or it is not one of edgetune's.
    """
    from edgetune.artifacts.io import read_any

    return read_any(os.fspath(path), {})
