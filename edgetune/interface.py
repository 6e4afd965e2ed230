"""The Python interface: the workflows of the command line as functions; ``import edgetune`` gives them.

Every function takes the options of its command by name, with underscores. A quantity is written as on the command line
(``"20W"``, ``"80ms"``) or given as a number in its base SI unit. Errors are raised as ``edgetune.EdgetuneError``; notes
and progress go to standard error.
"""

from __future__ import annotations

import inspect
import os
from collections import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field
from functools import wraps
from numbers import Real
from operator import index
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import RLock
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from edgetune.artifacts.files import IN_MEMORY
from edgetune.choices import closest
from edgetune.cli.screen import Screen, report_moved
from edgetune.errors import InputError
from edgetune.stages.profiling.convergence.training import gradient_noise_scale as gradient_noise_scale  # noqa: PLC0414  # given on
from edgetune.workflows.device_option import is_fleet
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.options import Option, declared
from edgetune.workflows.output import Target, begin_outputs
from edgetune.workflows.profile.options import CompareOptions, ProfileCommandOptions
from edgetune.workflows.reporting import Stdout
from edgetune.workflows.roofline.options import RooflineOptions
from edgetune.workflows.schedule.options import ScheduleOptions
from edgetune.workflows.search.options import SearchOptions

if TYPE_CHECKING:
    from edgetune.artifacts.artifact import Artifact
    from edgetune.artifacts.convergence import Convergence
    from edgetune.artifacts.plan import Plan
    from edgetune.artifacts.profile import Profile
    from edgetune.artifacts.run import Run
    from edgetune.artifacts.timeline import Timeline
    from edgetune.workflows.measure import Measurement
    from edgetune.workflows.output import FinishedRun
    from edgetune.workflows.profile.tables import Comparison
    from edgetune.workflows.roofline.option_values import Placed

P = ParamSpec("P")
O = TypeVar("O")  # noqa: E741 -- of options
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Made = TypeVar("Made", bound="Artifact")
Source = Union[str, "os.PathLike[str]", "Artifact"]
"""What a workflow reads: a file or a name as on the command line, or an artifact that another one returned."""


class Workflow(Protocol[P, R_co]):
    """A workflow as a function: its input first, then the options of its command by name."""

    def __call__(self, source: Source | Sequence[Source] | None = None, *args: P.args, **options: P.kwargs) -> R_co:
        """Run it."""


class _Notes(Screen):
    """Reports to standard error as the command line does; standard output stays the program's own."""

    @property
    def stdout(self) -> Stdout:
        """Nothing of a workflow's."""
        return "none"


def _begin(*, force: bool = False) -> None:
    """Forget the outputs of the call before; a result whose file another program wrote meanwhile is reported."""
    begin_outputs(report_moved, force=force)


_OF_TERMINALS = ("plot", "view", "top")
"""Options that print or draw for somebody at a terminal."""
_LOCK = RLock()
"""Calls run one at a time: a workflow keeps account of its output files for the whole process."""


def _takes(options: Callable[Concatenate[Any, P], O]) -> Callable[[Callable[[O], R]], Workflow[P, R]]:
    """Return a decorator: the function takes the fields of an options class instead of an instance."""

    def decorate(function: Callable[[O], R]) -> Workflow[P, R]:
        kind: Any = options
        known = {field.name: (field, inner, shown) for field, inner, shown in declared(kind)}
        (first,) = (name for name, (_, _, shown) in known.items() if shown.argument)

        @wraps(function)
        def call(source: Source | Sequence[Source] | None = None, *args: P.args, **given: P.kwargs) -> R:
            name = function.__name__
            values: dict[str, Any] = dict(given)
            if args:
                raise TypeError(f"{name}() takes one positional argument: write {first}, then keyword arguments")
            if source is not None:
                values[first] = source
            for each in values.keys() - known.keys():
                near = closest(each, known)
                hint = f"; did you mean {near!r}?" if near else ""
                raise TypeError(f"{name}() has no option {each!r}{hint}")
            if (known[first][0].default is MISSING or known[first][2].repeatable) and values.get(first) is None:
                raise TypeError(f"{name}() needs {first}: {known[first][2].help}")
            if values.get("plot") is not None or values.get("view") is not None:
                raise InputError(
                    "plot and view are for the command line",
                    "edgetune.report([result], 'page.html') draws the returned result",
                )
            if values.get("top") is not None:
                raise InputError("top is for the command line", "trace='trace.parquet' keeps every measured point")
            if values.get("output") == "-":
                raise InputError("standard output is the program's own", "name a file, or use the returned result")
            with _LOCK, TemporaryDirectory(prefix=IN_MEMORY) as folder:
                checked = {each: _checked(each, value, *known[each][1:], folder) for each, value in values.items()}
                opts = kind(**checked)
                _begin(force=bool(values.get("force")))
                return function(opts)

        call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [_parameter(*each) for each in sorted(known.values(), key=lambda each: not each[2].argument)],
            return_annotation=function.__annotations__.get("return"),
        )
        lines = [f"    {name}: {shown.help}" for name, (_, _, shown) in known.items() if name not in _OF_TERMINALS]
        call.__doc__ = "\n".join([inspect.cleandoc(function.__doc__ or ""), "", "Args:", *lines])
        return call

    return decorate


def _parameter(field: Field[Any], inner: Any, shown: Option) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if shown.argument else inspect.Parameter.KEYWORD_ONLY
    default = inspect.Parameter.empty if field.default is MISSING else field.default
    return inspect.Parameter(field.name, kind, default=default, annotation=inner)


def _checked(name: str, value: Any, inner: Any, shown: Option, folder: str) -> Any:  # noqa: PLR0911 -- one per type
    """Return an option's value as a workflow takes it; an artifact becomes a file in ``folder``.

    Raises:
        InputError: the value has another type, or a number is out of bounds.
    """
    members = get_args(inner) if get_origin(inner) in (Union, UnionType) else (inner,)
    lists = any(get_origin(each) is abc.Sequence for each in members)
    value = _file(value, folder)
    if value is None and NoneType in members:
        return None
    if lists and not isinstance(value, str | bytes | Mapping) and isinstance(value, Iterable):
        found = [_file(each, folder) for each in value]
        if found and all(isinstance(each, str if shown.repeatable else SupportsIndex) for each in found):
            return tuple(each if isinstance(each, str) else index(each) for each in found)
        if shown.repeatable and not found:
            return ()
    if isinstance(value, bool):
        if bool in members:
            return value
    elif isinstance(value, str):
        if str in members or shown.repeatable:
            return (value,) if shown.repeatable else value
    elif isinstance(value, SupportsIndex) and (int in members or (lists and not shown.repeatable)):
        number = index(value)
        if number >= (shown.least if shown.least is not None else number) and number <= (shown.most or number):
            return (number,) if int not in members else number
    elif isinstance(value, Real) and float in members:
        return float(value)
    raise InputError(f"{name} cannot be {str(value)[:80]!r}", f"{shown.help} See edgetune help python")


def _whole(finished: FinishedRun[Made]) -> Made:
    """Return what a run made.

    Raises:
        KeyboardInterrupt: a signal ended the run early; what it has is written where an output was named.
    """
    made = finished.checked()
    if finished.stopped_by is not None:
        raise KeyboardInterrupt(f"stopped by signal {finished.stopped_by}")
    return made


def _file(value: Any, folder: str) -> Any:
    """Return the path of an artifact, written to ``folder``, or of a path object; any other value as it is."""
    from edgetune.artifacts.artifact import Artifact, Table

    if isinstance(value, Artifact):
        ending = "parquet" if isinstance(value, Table) else "yaml"
        return str(value.save(f"{folder}/{value.header.kind}-{len(os.listdir(folder)) + 1}.{ending}"))
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@_takes(ProfileCommandOptions)
def profile(opts: ProfileCommandOptions) -> Profile | Convergence:
    """Measure a network: time, power and energy per minibatch, for batch sizes and power modes.

    The options are those of ``edgetune profile``. With ``output`` the table is written too, and the same call resumes.
    With ``convergence=True`` the network is trained instead, and the table holds epochs to an accuracy.
    """
    if opts.convergence:
        from edgetune.workflows.profile.convergence import convergence

        return convergence(opts, _Notes())[0]
    if is_fleet(opts.device):
        from edgetune.workflows.fleet.profile import profile as workflow
    else:
        from edgetune.workflows.profile.profile import profile as workflow

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


@_takes(CompareOptions)
def compare(opts: CompareOptions) -> Sequence[Comparison]:
    """Compare tables of one network with the first of them: conditions, the ratio of each point, and a verdict.

    The options are those of ``edgetune compare``. With ``fail_above`` a comparison has ``regressions``.
    """
    from edgetune.workflows.profile.tables import compare as workflow

    return workflow(opts, _Notes())


@_takes(RooflineOptions)
def roofline(opts: RooflineOptions) -> Sequence[Placed] | Plan:
    """Measure what a device can do, and place a network beneath it: one result for each precision.

    The options are those of ``edgetune roofline``. Each result has the ``roofline`` of the device, an artifact, and the
    ``placements`` of the network, one for each batch size. With ``tune`` the plan of least energy is returned instead.
    """
    from edgetune.workflows.roofline.roofline import roofline as workflow
    from edgetune.workflows.roofline.roofline import tune

    if opts.tune is not None:
        plan, _ = tune(opts, _Notes())
        if opts.output is not None:
            Target(Path(opts.output)).write(plan)
        return plan
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

    return _whole(workflow(opts, _Notes()))


@_takes(ScheduleOptions)
def schedule(opts: ScheduleOptions) -> Timeline:
    """Run several networks in little memory, or simulate it; return the timeline, a row for each event.

    The options are those of ``edgetune schedule run``.
    """
    from edgetune.workflows.schedule.run import schedule as workflow

    return _whole(workflow(opts, _Notes()))


def measure(
    device: str = "auto", *, mode: str | None = None, root: str | None = None, name: str | None = None
) -> Measurement:
    """Measure the body of a ``with`` statement, or each call of a function: time, power, energy and memory.

        with edgetune.measure("jetson") as window:
            train_one_epoch()
        print(window.time_s, window.energy_j)

        @edgetune.measure("jetson")
        def prefill(prompt): ...
        prefill(prompt)
        print(prefill.windows[-1].time_s)

    A window inside another, or beside it in another thread or task, joins its recording.
    See ``edgetune.workflows.measure.Measurement``.
    """
    from edgetune.workflows.measure import measure as workflow

    return workflow(device, mode=mode, root=root, name=name)


def read(path: str | os.PathLike[str]) -> Artifact:
    """Return the artifact in a file of edgetune: a profile, a plan, a run, ...

    Raises:
        InputError: there is no such file, or it is not one of edgetune's.
    """
    from edgetune.artifacts.io import read_any

    return read_any(os.fspath(path), {})


def report(sources: Source | Sequence[Source], path: str | os.PathLike[str]) -> Path:
    """Write one self-contained page of artifacts or files, as ``edgetune report`` does.

    Raises:
        InputError: a file cannot be read, or the page cannot be written.
    """
    from edgetune.artifacts.artifact import Artifact
    from edgetune.workflows.report.report import write_page

    _begin()
    given = [sources] if isinstance(sources, str | os.PathLike | Artifact) else sources
    return write_page([each if isinstance(each, Artifact) else read(each) for each in given], os.fspath(path))
