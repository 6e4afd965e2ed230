"""The Python interface: the workflows of the command line as functions; ``import edgetune`` gives them.

Every function takes the options of its command by name, with underscores. A quantity is written as on the command line
(``"20W"``, ``"80ms"``) or given as a number in its base SI unit. Errors are raised as ``edgetune.EdgetuneError``; notes
and progress go to standard error.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, Union

from edgetune.cli.screen import Screen, report_moved
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.output import begin_outputs
from edgetune.workflows.profile_options import ProfileCommandOptions
from edgetune.workflows.reporting import Stdout
from edgetune.workflows.roofline_options import RooflineOptions
from edgetune.workflows.schedule.options import ScheduleOptions
from edgetune.workflows.search.options import SearchOptions

if TYPE_CHECKING:
    from edgetune.artifacts.artifact import Artifact
    from edgetune.artifacts.convergence import Convergence
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.profile import Profile
    from edgetune.artifacts.run import Run
    from edgetune.artifacts.timeline import Timeline
    from edgetune.stages.profiling.window import Window
    from edgetune.workflows.roofline.request import Placed

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741 -- of options
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Source = Union[str, "os.PathLike[str]", "Artifact"]
"""What a workflow reads: a file or a name as on the command line, or an artifact that another one returned."""


class Workflow(Protocol[P, R_co]):
    """A workflow as a function: its input first, then the options of its command by name."""

    def __call__(self, source: Source | Sequence[Source] | None = None, *args: P.args, **options: P.kwargs) -> R_co:
        """Run it."""


@dataclass(frozen=True, slots=True)
class _Notes(Screen):
    """Reports to standard error as the command line does; standard output stays the program's own."""

    @property
    def stdout(self) -> Stdout:
        """Nothing of a workflow's."""
        return "none"


def _begin(*, force: bool = False) -> None:
    """Forget the outputs of the call before; a result whose file another program wrote meanwhile is reported."""
    begin_outputs(report_moved, force=force)


def _takes(options: Callable[Concatenate[Any, P], O]) -> Callable[[Callable[[O], R]], Workflow[P, R]]:
    """Return a decorator: the function takes the fields of an options dataclass instead of the dataclass."""

    def decorate(function: Callable[[O], R]) -> Workflow[P, R]:
        @wraps(function)
        def call(source: Source | Sequence[Source] | None = None, *args: P.args, **given: P.kwargs) -> R:
            with TemporaryDirectory(prefix="edgetune-") as folder:
                first = () if source is None else (_words(source, folder),)
                named: dict[str, Any] = {name: _words(value, folder) for name, value in given.items()}
                opts: Any = options(*first, *args, **named)
                _begin(force=bool(getattr(opts, "force", False)))
                return function(opts)

        call.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
        return call

    return decorate


def _words(value: Any, folder: str) -> Any:
    """Return an option's value as the command line has it; an artifact becomes a file in ``folder``."""
    from edgetune.artifacts.artifact import Artifact, Table

    if isinstance(value, Artifact):
        ending = "parquet" if isinstance(value, Table) else "yaml"
        return str(value.save(f"{folder}/{value.header.kind}-{len(os.listdir(folder))}.{ending}"))
    if isinstance(value, list | tuple):
        return tuple(_words(each, folder) for each in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


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


@_takes(SearchOptions)
def search(opts: SearchOptions) -> Plan:
    """Return the plan with the best power mode and batch size within budgets.

    The options are those of ``edgetune search``: a table or several, or a network and a ``device`` to measure on.

    Raises:
        InfeasibleError: nothing that was measured meets the budgets.
    """
    from edgetune.workflows.search.run import search as workflow

    answer = workflow(opts, _Notes())
    assert answer.plan is not None  # a search without an answer raises
    return answer.plan


@_takes(RooflineOptions)
def roofline(opts: RooflineOptions) -> Sequence[Placed]:
    """Measure what a device can do, and place a network beneath it: one result for each precision.

    The options are those of ``edgetune roofline``. Each result has the ``roofline`` of the device, an artifact, and the
    ``placements`` of the network, one for each batch size.
    """
    from edgetune.workflows.roofline.roofline import roofline as workflow

    found, target = workflow(opts, _Notes())
    if target is not None:
        target.write(found[0].roofline)
    return found


@_takes(InterleaveOptions)
def interleave(opts: InterleaveOptions) -> Run:
    """Answer requests in time and train in what is left; return the run, a row for each request and each minibatch.

    The options are those of ``edgetune interleave``: a plan, or networks to plan for.
    """
    from edgetune.workflows.interleave.interleave import interleave as workflow

    return workflow(opts, _Notes()).checked()


@_takes(ScheduleOptions)
def schedule(opts: ScheduleOptions) -> Timeline:
    """Run several networks in little memory, or simulate it; return the timeline, a row for each event.

    The options are those of ``edgetune schedule run``.
    """
    from edgetune.workflows.schedule.run import schedule as workflow

    return workflow(opts, _Notes()).checked()


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


def report(sources: Source | Sequence[Source], path: str | os.PathLike[str]) -> Path:
    """Write one self-contained page of artifacts or files: where each comes from, its first rows and its figure.

    Raises:
        InputError: a file cannot be read, or the page cannot be written.
    """
    from edgetune.artifacts.artifact import Artifact
    from edgetune.workflows.report import report as workflow

    _begin()
    given = [sources] if isinstance(sources, str | os.PathLike | Artifact) else sources
    return workflow([each if isinstance(each, Artifact) else read(each) for each in given], os.fspath(path))
