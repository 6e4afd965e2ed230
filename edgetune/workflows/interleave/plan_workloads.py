"""The workloads of a plan: their files, options and measurements."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from edgetune.artifacts.files import as_found, storable
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import HalfFigures, Plan
from edgetune.artifacts.profile import ProfileRow, Task
from edgetune.errors import InputError
from edgetune.workloads import zoo
from edgetune.workloads.workload import Workload

_SAID: dict[str, type] = {
    "reference": str, "path": str, "sha256": str, "dimensions": dict, "precision": str, "inputs": str,
    "batch_axis": str,
}  # fmt: skip
"""Keys that a plan may have of a workload besides its name, with their types."""


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """One workload of a plan.

    Args:
        task: ``infer`` or ``train``.
        name: As in the ``workload`` column; empty if the plan lacks it.
        mode: The power mode of the plan.
        batch_size: Samples per minibatch.
        reference: As given to the search; ``None`` in plans without one.
        path: The absolute path of the file; ``None`` if the plan names none.
        sha256: Hash of the file.
        dimensions, precision, inputs, batch_axis: The options of its measurement.
        measured: Its time, power and energy.
        by_table: Whether its operators came from a table (``--ops``) and not from the network.
    """

    task: Task
    name: str
    mode: Mode
    batch_size: int | None
    reference: str | None = None
    path: str | None = None
    sha256: str | None = None
    dimensions: Mapping[str, int] = field(default_factory=dict)
    precision: str | None = None
    inputs: str | None = None
    batch_axis: str | None = None
    measured: HalfFigures | None = None
    by_table: bool = False

    def locate(self) -> str:
        """Return the current reference of the workload.

        Raises:
            InputError: the plan names no file, or the file has moved or changed; the hint names the option for it.
        """
        if self.name in zoo.NETWORKS and self.reference in (None, f"zoo:{self.name}"):
            return f"zoo:{self.name}"
        candidates = [as_found(each) for each in (self.path, self.reference) if each is not None]
        if not candidates:
            raise InputError(
                f"the plan does not say which file {self.name or f'its {self.task} workload'} is",
                f"name it: --{self.task} FILE",
            )
        found = next((each for each in candidates if _is_there(each)), None)
        if found is None:
            raise InputError(
                f"the plan is for {candidates[0]}, which does not exist any more", f"name it: --{self.task} FILE"
            )
        return found

    def check(self, workload: Workload) -> None:
        """Refuse a file that differs from the plan's.

        Raises:
            InputError: the hash differs.
        """
        if self.sha256 in (None, workload.sha256):
            return
        same_place = workload.path is not None and storable(str(workload.path.resolve())) == self.path
        why = "it has changed since" if same_place else f"{workload.reference} is another network"
        raise InputError(
            f"the plan is for {self.path or self.name}, and {why}",
            "name the file that was searched for, or search again for this one",
        )

    def row(self, workload: Workload) -> ProfileRow | None:
        """Return the measurements as a profile row under the workload's name; ``None`` without measurements."""
        figures = self.measured
        if figures is None or figures.minibatch_s is None or self.batch_size is None:
            return None
        knobs: dict[str, Any] = self.mode.knobs()
        return ProfileRow(
            workload.name, self.task, self.batch_size, figures.minibatch_s, power_w=figures.power_w,
            energy_j=figures.energy_j, minibatch_p95_s=figures.minibatch_p95_s, **knobs,
        )  # fmt: skip


Role = Literal["infer", "train", "background"]
"""What a workload of a plan does: answer requests, train, or infer without a deadline."""


def workloads_of(plan: Plan) -> dict[Role, PlannedWorkload]:
    """Return the workloads of a plan by role.

    Raises:
        InputError: the plan's problem is of no network that runs, or of the accuracy of a training.
    """
    kind, chosen, measured = plan.problem.kind, plan.configuration, plan.measured
    if kind == "infer+infer":
        return {
            "infer": _workload(plan, "infer", "workload", chosen.infer_batch_size, measured.infer),
            "background": _workload(plan, "infer", "background", chosen.background_batch_size, measured.background),
        }
    if kind not in ("infer", "train", "train+infer"):
        raise InputError(
            f"a plan of kind {kind} is of no run that shares a device",
            "edgetune search --kind train+infer plans a training beside answers",
        )
    if kind == "train+infer":
        return {
            "infer": _workload(plan, "infer", "workload", chosen.infer_batch_size, measured.infer),
            "train": _workload(plan, "train", "background", chosen.train_batch_size, measured.train),
        }
    task: Task = "infer" if kind == "infer" else "train"
    figures = HalfFigures(measured.minibatch_s, measured.power_w, measured.energy_j, measured.minibatch_p95_s)
    return {task: _workload(plan, task, "workload", chosen.batch_size, figures)}


def _workload(
    plan: Plan, task: Task, role: str, batch_size: int | None, measured: HalfFigures | None
) -> PlannedWorkload:
    told = plan.header.inputs.get(role, {})
    if not isinstance(told, Mapping):
        raise InputError(f"inputs.{role} of the plan is {told!r}", f"e.g. inputs: {{{role}: {{name: detector}}}}")
    given = {key: told[key] for key in _SAID if told.get(key) is not None}
    for key, value in given.items():
        if not isinstance(value, _SAID[key]):
            raise InputError(f"inputs.{role}.{key} of the plan is {value!r}", "leave it out, or search again")
    return PlannedWorkload(
        task, str(told.get("name", "")), plan.configuration.mode, batch_size, measured=measured,
        by_table=role == "workload" and "ops" in plan.header.inputs, **given,
    )  # fmt: skip


def _is_there(reference: str) -> bool:
    return ":" in reference.partition("/")[0] or Path(reference).is_file()
