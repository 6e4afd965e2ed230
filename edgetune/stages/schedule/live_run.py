"""A run for real, seen from outside the memory limit: checks before, and the process that runs.

hashes, samples, page cache emptied -> process enters its control group -> records ...
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from edgetune.errors import EdgetuneError, InfeasibleError, InputError, PartialError
from edgetune.processes.child import Child
from edgetune.stages.schedule.cgroups import CgroupFigures, Enforced, MemoryLimit, make_limit
from edgetune.stages.schedule.executor import Form, environment_of
from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.stages.schedule.tasks import BudgetRecord, Record, RequestRecord, TaskRecord
from edgetune.stages.schedule.weights import drop_cached
from edgetune.stages.schedule.worker import request_from
from edgetune.units import format_bytes
from edgetune.workloads.prepared import Prepared

_WORKER = "edgetune.stages.schedule.worker"
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class LiveNetwork:
    """A network to be run.

    Args:
        network: As the loop knows it, under its name in this run.
        prepared: Its folder.
        inputs: ``.npz`` with a sample of each input; random ones without it.
    """

    network: LayeredNetwork
    prepared: Prepared
    inputs: Path | None = None


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """The settings of a run.

    Args:
        policy: Name of the policy.
        limit_bytes: Memory of the process that runs, everything included.
        options: Arguments of the policy.
        form: ``layers`` of prepared networks, or whole networks in one of their forms, for policies that take them.
        workers: Number of tasks that run at once.
        swap_bytes: Of swap beside the limit; ``None`` for as much as the machine has.
        enforce: Whether the kernel is to keep the limit, where it can.
    """

    policy: str
    limit_bytes: int
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    form: Literal["layers"] | Form = "layers"
    workers: int = 2
    swap_bytes: int | None = None
    enforce: bool = True


@dataclass(frozen=True, slots=True)
class LiveFigures:
    """The figures of a run besides its records.

    Args:
        enforced_by: The mechanism that kept the limit.
        not_enforced_for: Why the kernel did not.
        group: The kernel's counts of its control group.
        base_bytes: Memory of the process before any load, as its control group counts it, else pages of libraries
            included.
        base_anonymous_bytes: The part of it that is no page of a file.
        budget_bytes: The part of the limit that was left for tasks.
        peak_bytes: Most that the process had in memory at once, pages mapped twice counted twice; ``None`` where it
            ended before it could tell.
        decisions, decisions_s: Number of decisions of the policy, and their total duration, s.
    """

    enforced_by: Enforced
    not_enforced_for: str | None
    group: CgroupFigures
    base_bytes: int | None = None
    budget_bytes: int | None = None
    peak_bytes: int | None = None
    decisions: int | None = None
    decisions_s: float | None = None
    base_anonymous_bytes: int | None = None


class LiveRun:
    """One live run: ``records`` yields its records; ``figures`` has the other results when the run has ended.

    Args:
        networks: The networks.
        requests: Known before the run, in the order of arrival.
        options: The settings.
        inputs: Shared between runs of the same networks, so that hashes and samples are made once.

    Raises:
        InputError: two networks of one name.
    """

    def __init__(
        self, networks: Sequence[LiveNetwork], requests: Sequence[Request], options: LiveOptions, inputs: RunInputs
    ) -> None:
        self._networks, self._requests, self._options = networks, requests, options
        self._inputs = inputs
        self._limit: MemoryLimit = MemoryLimit("the run has not begun")
        self._swap_bytes: int | None = None
        self._told: dict[str, Any] = {}
        self._child: Child | None = None
        self._stopping = self._rehearsal = False
        if len({each.network.name for each in networks}) < len(networks):
            names = ", ".join(each.network.name for each in networks)
            raise InputError(f"two networks have one name: {names}", "give each a name of its own")

    @property
    def figures(self) -> LiveFigures:
        """The figures so far."""
        group = replace(self._limit.figures(), swap_bytes=self._swap_bytes)
        names = ("base_bytes", "budget_bytes", "peak_bytes", "decisions", "decisions_s", "base_anonymous_bytes")
        return LiveFigures(self._limit.enforced, self._limit.reason, group, *map(self._told.get, names))

    def records(self) -> Iterator[Record]:
        """Run, and yield the records as they come, some times a second.

        Raises:
            InputError, InfeasibleError, DeviceError: the run is impossible with these options.
            PartialError: the process was killed at its limit, or ended early; records before that were yielded.
        """
        options = self._options
        self._limit = MemoryLimit("no limit was requested")
        if options.enforce:
            self._limit = make_limit(options.limit_bytes, swap_bytes=options.swap_bytes)
        with self._limit:
            command = self._command()
            with contextlib.closing(self._started()) as child:
                self._child = child
                try:
                    yield from self._events(child, command)
                except EdgetuneError as error:
                    raise self._obituary(error) from None
                finally:
                    self._child = None

    def rehearse(self) -> LiveFigures:
        """Let the process make its sessions under the limit, run nothing, and return the figures.

        Raises:
            InputError, InfeasibleError, DeviceError: the run is impossible; ``records`` would raise the same.
        """
        self._rehearsal = True
        for _ in self.records():
            raise AssertionError("a rehearsal runs nothing")  # pragma: no cover
        return self.figures

    def _events(self, child: Child, command: Mapping[str, Any]) -> Iterator[Record]:
        """Let the process run, and yield records until it ends."""
        child.send({**command, "usage": None if self._limit.usage is None else str(self._limit.usage)})
        while "decisions" not in self._told:
            select.select([child], [], [], _LOOK_S)
            for event in child.received():
                if event["event"] == "records":
                    yield from map(_record, event["records"])
                else:
                    self._told.update(event)
                    self._pass_on_stop()
            swap_bytes = self._limit.figures().swap_bytes
            if swap_bytes is not None:
                self._swap_bytes = max(self._swap_bytes or 0, swap_bytes)

    def _command(self) -> dict[str, Any]:
        """Check and prepare everything, and return the command for the process."""
        options, networks = self._options, []
        changed_ns = [self._inputs.checked(each.prepared, self._files(each.prepared)) for each in self._networks]
        folders = self._inputs.samples([(each.network.name, each.prepared, each.inputs) for each in self._networks])
        for each, changed in zip(self._networks, changed_ns, strict=True):
            prepared = each.prepared
            for name in prepared.files:
                drop_cached(prepared.folder / name)
            networks.append(
                {
                    "name": each.network.name,
                    "network": asdict(each.network),
                    "prepared": str(prepared.folder),
                    "folder": str(folders[each.network.name]),
                    "changed_ns": changed,
                }
            )
        return {
            "command": "run", "policy": options.policy, "options": dict(options.options), "form": options.form,
            "workers": options.workers, "limit_bytes": options.limit_bytes,
            "drop_cache": self._limit.enforced != "accounted",
            "rehearse": self._rehearsal, "networks": networks, "requests": list(map(astuple, self._requests)),
        }  # fmt: skip

    def _files(self, prepared: Prepared) -> list[str]:
        whole = {name for name in prepared.files if name.startswith("whole")}
        return sorted(whole if self._options.form != "layers" else prepared.files.keys() - whole)

    def _started(self) -> Child:
        """Start the process and put it under the limit, where it begins anew, so that all of its memory counts."""
        child = Child(_WORKER, environment=environment_of(self._options.form))
        try:
            self._limit.admit(child.pid)
            child.send({"command": "enter"})
        except BaseException:
            child.close()
            raise
        return child

    def _obituary(self, error: EdgetuneError) -> EdgetuneError:
        """Return the error that ended the run: the limit where the kernel says so, else the one that was raised."""
        if self._limit.figures().kills:
            limit = format_bytes(self._options.limit_bytes)
            if "base_bytes" not in self._told:
                return InfeasibleError(
                    f"the memory limit of {limit} leaves nothing: the kernel killed the process before anything was "
                    "loaded",
                    "give it more: ONNX Runtime and the sessions of all layers come before any weights",
                )
            return PartialError(
                f"the run was ended by its memory limit: the kernel killed the process at {limit}",
                "give it more memory, or a policy that needs less; rows until then are kept",
            )
        if "base_bytes" not in self._told:
            return error
        hint = error.hint
        if "SIGBUS" in error.message:
            hint = "a file of weights was cut short, or its storage failed, while it was in use: prepare it again"
        return PartialError(f"the run ended early: {error.message}", f"{hint}; rows until then are kept")

    def stop(self) -> None:
        """End the run soon: running tasks are finished, other requests abandoned; from any thread or signal handler."""
        self._stopping = True
        self._pass_on_stop()

    def _pass_on_stop(self) -> None:
        """End the process soon, if that was requested and it is ready: until then a signal would kill it."""
        child = self._child
        if self._stopping and child is not None and "base_bytes" in self._told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGTERM)


def _record(described: Sequence[Any]) -> Record:
    kind, *fields, resident_bytes = described
    if kind == "TaskRecord":
        return replace(TaskRecord(*fields), resident_bytes=resident_bytes)
    if kind == "RequestRecord":
        return RequestRecord(request_from(fields[0]), *fields[1:])
    return BudgetRecord(*fields)
