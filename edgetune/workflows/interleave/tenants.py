"""Reads the tenants of ``edgetune interleave`` from options, a plan with its measurements, or a file of tenants.

kind: tenants
version: 1
tenants:
- {name: camera, infer: detector.onnx, arrivals: 'uniform:30', latency_budget: 80ms, batch_size: 4}
- {name: night, train: train.py, batch_size: 16, weight: 2}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from edgetune.artifacts.columns import PositiveFloat, PositiveInt, Seconds
from edgetune.artifacts.document import WITH_UNITS, validated
from edgetune.artifacts.files import as_found, storable
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import HalfFigures, Plan
from edgetune.artifacts.profile import ProfileRow, Task
from edgetune.errors import InputError
from edgetune.units import parse_time_s
from edgetune.workflows.interleave.options import InterleaveOptions
from edgetune.workflows.profile.commands import batch_option, command_of
from edgetune.workloads import zoo
from edgetune.workloads.foreign_files import is_script, require_file
from edgetune.workloads.paced_script import OTHERWISE
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

KIND = "tenants"
VERSION = 1
_HINT = "see edgetune help interleaving, and examples/tenants.yaml"
Role = Literal["infer", "train", "background"]
"""What a workload of a plan does: answer requests, train, or infer without a deadline."""
_UNNAMED: dict[Role, str] = {"infer": "inference", "train": "training", "background": "background"}
_ROLES: dict[str, tuple[tuple[Role, Task, str], ...]] = {
    "infer": (("infer", "infer", "workload"),),
    "train": (("train", "train", "workload"),),
    "train+infer": (("infer", "infer", "workload"), ("train", "train", "background")),
    "infer+infer": (("infer", "infer", "workload"), ("background", "infer", "background")),
}
"""By kind of plan its workloads: role, task, and their key in its header."""
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
        path, sha256: The absolute path of the file, and its hash; ``None`` if the plan names none.
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
        candidates, hint = (
            [as_found(each) for each in (self.path, self.reference) if each],
            f"name it: --{self.task} FILE",
        )
        if not candidates:
            name = self.name or f"its {self.task} workload"
            raise InputError(f"the plan does not say which file {name} is", hint)
        found = next((each for each in candidates if ":" in each.partition("/")[0] or Path(each).is_file()), None)
        if found is None:
            raise InputError(f"the plan is for {candidates[0]}, which does not exist any more", hint)
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
        hint = "name the file that was searched for, or search again for this one"
        raise InputError(f"the plan is for {self.path or self.name}, and {why}", hint)

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


@dataclass(frozen=True, slots=True)
class TenantSpec:
    """One workload that shares the device.

    Args:
        name: Unique among them.
        task: ``infer`` or ``train``.
        reference: The workload, as in ``resolve``.
        batch_size: Samples per minibatch; ``None`` leaves the choice to the planner.
        arrivals: The arrival process, as ``parse_arrivals`` takes it; ``None`` for a tenant without a deadline.
        latency_budget_s: Maximum latency of every answer, s; ``None`` for a tenant without a deadline.
        weight: Weight of a training job among others.
        inputs, handler: ``.npz`` of inputs; Python file with ``inputs`` and ``outputs``.
        checkpoint, resume: Output file of the trained state; a checkpoint to begin from.
        dimensions: Values of symbolic dimensions besides the batch, by name.
        precision: Element type that a simulated device assumes; ``None`` takes the device's choice.
        planned: The workload of the plan; ``None`` without a plan.
        batch_axis: The batch axes of its inputs, as ``parse_batch_axes`` takes them.
    """

    name: str
    task: Task
    reference: str
    batch_size: int | None = None
    arrivals: str | None = None
    latency_budget_s: float | None = None
    weight: float = 1.0
    inputs: str | None = None
    handler: str | None = None
    checkpoint: str | None = None
    resume: str | None = None
    dimensions: Mapping[str, int] = field(default_factory=dict)
    precision: str | None = None
    planned: PlannedWorkload | None = None
    batch_axis: str | None = None

    @property
    def answers(self) -> bool:
        """Whether it answers requests by a deadline; otherwise it trains, or infers in the time left."""
        return self.task == "infer" and self.latency_budget_s is not None


def tenants_of_options(options: InterleaveOptions, plan: Plan | None) -> tuple[TenantSpec, ...]:
    """Return the tenants of a plan, or of options alone.

    Raises:
        InputError: no tenant is given, or a tenant lacks its arrivals or its latency budget.
    """
    planned = tenants_of_plan(plan) if plan is not None else {}
    found = [_inference(options, planned.get("infer"))] if options.infer or "infer" in planned else []
    found += [_training(options, planned.get("train"))] if options.train or "train" in planned else []
    if "background" in planned:
        background = _completed(planned["background"], None)
        same = any(other.name == background.name for other in found)
        found.append(replace(background, name=f"{background.name}-background") if same else background)
    if not found:
        raise InputError("nothing to run", "name a plan, or --infer MODEL and --train MODEL")
    tasks = {tenant.task for tenant in found}
    for option, task in given(options).items():
        if task not in tasks:
            raise InputError(f"{option} is for a network that {task}s, and there is none", f"add --{task} MODEL")
    return _unique(found)


_OPTIONS: dict[Task, Sequence[str]] = {
    "infer": ("infer", "arrivals", "latency_budget", "batch_size", "inputs", "handler", "batch_axis"),
    "train": ("train", "train_batch_size", "checkpoint", "resume"),
}
"""Options that describe one tenant, by its task."""


def given(options: InterleaveOptions) -> dict[str, Task]:
    """Return the given options of tenants, as written, and the task of each option's tenant."""
    return {
        f"--{name.replace('_', '-')}": task
        for task, names in _OPTIONS.items()
        for name in names
        if getattr(options, name) not in (None, ())
    }


def tenants_of_plan(plan: Plan) -> dict[Role, TenantSpec]:
    """Return the tenants of a plan, by role.

    Raises:
        InputError: the plan's problem is of no network that runs, or of the accuracy of a training.
    """
    problem, chosen, measured = plan.problem, plan.configuration, plan.measured
    if problem.kind not in _ROLES:
        raise InputError(
            f"a plan of kind {problem.kind} is of no run that shares a device",
            "edgetune search --kind train+infer plans a training beside answers",
        )
    found: dict[Role, TenantSpec] = {}
    for role, task, key in _ROLES[problem.kind]:
        if len(_ROLES[problem.kind]) > 1:
            size, figures = getattr(chosen, f"{role}_batch_size"), getattr(measured, role)
        else:
            size = chosen.batch_size
            figures = HalfFigures(measured.minibatch_s, measured.power_w, measured.energy_j, measured.minibatch_p95_s)
        told = plan.header.inputs.get(key, {})
        if not isinstance(told, Mapping):
            raise InputError(f"inputs.{key} of the plan is {told!r}", f"e.g. inputs: {{{key}: {{name: detector}}}}")
        given = {name: told[name] for name in _SAID if told.get(name) is not None}
        for name, value in given.items():
            if not isinstance(value, _SAID[name]):
                raise InputError(f"inputs.{key}.{name} of the plan is {value!r}", "leave it out, or search again")
        workload = PlannedWorkload(
            task, str(told.get("name", "")), chosen.mode, size, measured=figures,
            by_table=key == "workload" and "ops" in plan.header.inputs, **given,
        )  # fmt: skip
        rate = problem.arrival_rate_per_s if role == "infer" else None
        found[role] = TenantSpec(
            workload.name or _UNNAMED[role], task, "", size,
            arrivals=None if rate is None else f"uniform:{rate:g}",
            latency_budget_s=problem.latency_budget_s if role == "infer" else None,
            inputs=workload.inputs if task == "infer" else None, dimensions=workload.dimensions,
            precision=workload.precision, planned=workload, batch_axis=workload.batch_axis,
        )  # fmt: skip
    return found


def _inference(options: InterleaveOptions, planned: TenantSpec | None) -> TenantSpec:
    budget = options.latency_budget
    tenant = _completed(
        planned or TenantSpec("", "infer", ""), options.infer, arrivals=options.arrivals, inputs=options.inputs,
        batch_size=options.batch_size, handler=options.handler, batch_axis=",".join(options.batch_axis) or None,
        latency_budget_s=None if budget is None else parse_time_s(budget, what="--latency-budget"),
    )  # fmt: skip
    if tenant.arrivals is None:
        raise InputError("no arrivals are given", "e.g. --arrivals uniform:60, poisson:60 or trace:FILE")
    if tenant.latency_budget_s is None:
        raise InputError("no latency budget is given", "e.g. --latency-budget 80ms")
    return tenant


def _training(options: InterleaveOptions, planned: TenantSpec | None) -> TenantSpec:
    return _completed(
        planned or TenantSpec("", "train", ""), options.train, batch_size=options.train_batch_size,
        checkpoint=options.checkpoint, resume=options.resume,
    )  # fmt: skip


def _completed(tenant: TenantSpec, reference: str | None, **said: Any) -> TenantSpec:
    """Return the tenant with its workload (the requested one, else the plan's) and the given options.

    Raises:
        InputError: the plan names no file, a file is missing, or the workload differs from the plan's.
    """
    planned = tenant.planned
    if reference is None:
        assert planned is not None
        reference = planned.locate()
    given = {name: value for name, value in said.items() if value is not None}
    tenant = _as_command(replace(tenant, reference=reference, **given))
    workload = resolve(tenant.reference)
    if planned is not None:
        planned.check(workload)
    tenant = replace(tenant, name=tenant.name or workload.name)
    _require_files(tenant, "")
    return tenant


def tenants_of_document(document: Any, *, name: str) -> tuple[TenantSpec, ...]:
    """Return the tenants of a parsed file of tenants.

    Raises:
        InputError: it is not a file of tenants, or a key or value is invalid; the tenant and the key are named.
    """
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(f"{name} is not a file of tenants", "it begins with kind: tenants")
    if document.get("version") != VERSION:
        raise InputError(f"{name} has version {document.get('version')!r} of tenants", f"write version: {VERSION}")
    entries = document.get("tenants")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{name} names no tenants", "tenants: is a list with one mapping for each")
    if strange := set(document) - {"kind", "version", "tenants"}:
        raise InputError(f"{name}: unknown key {sorted(map(str, strange))[0]!r}", "keys are kind, version and tenants")
    return _unique([_entry(entry, f"{name}, tenant {number}") for number, entry in enumerate(entries, 1)])


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tenant as a file describes it."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = WITH_UNITS

    name: str | None = None
    infer: str | None = None
    train: str | None = None
    batch_size: PositiveInt | None = None
    arrivals: str | None = None
    latency_budget_s: Seconds | None = None
    weight: PositiveFloat | None = None
    inputs: str | None = None
    handler: str | None = None
    checkpoint: str | None = None
    resume: str | None = None
    batch_axis: str | None = None


_ONLY: dict[Task, tuple[str, ...]] = {
    "infer": ("arrivals", "latency_budget", "inputs", "handler"),
    "train": ("weight", "checkpoint", "resume"),
}
"""Keys of an entry that only one task has."""
_FILES = {
    "inputs": "inputs are a .npz file with one array per input",
    "handler": "a handler is a Python file, see edgetune help interleaving",
    "resume": "name a checkpoint that --checkpoint wrote, or leave --resume out",
}


def _entry(entry: Any, where: str) -> TenantSpec:
    if not isinstance(entry, dict):
        raise InputError(f"{where} is not a mapping", "e.g. {infer: detector.onnx, arrivals: 'uniform:30', ...}")
    said = validated(entry, _Entry, name=where, example=_HINT)
    if (said.infer is None) == (said.train is None):
        raise InputError(f"{where} must have either infer or train", "infer: MODEL, or train: MODEL")
    task: Task = "train" if said.infer is None else "infer"
    if wrong := [key for key in _ONLY["infer" if task == "train" else "train"] if key in entry]:
        raise InputError(f"{where}: {wrong[0]} makes no sense for {task}", "leave it out")
    if missing := [key for key in ("arrivals", "latency_budget") if task == "infer" and entry.get(key) is None]:
        raise InputError(f"{where} lacks {missing[0]}", "e.g. arrivals: 'uniform:30', latency_budget: 80ms")
    tenant = TenantSpec(
        said.name or "", task, str(entry[task]), said.batch_size, said.arrivals, said.latency_budget_s,
        said.weight or 1.0, said.inputs, said.handler, said.checkpoint, said.resume, batch_axis=said.batch_axis,
    )  # fmt: skip
    _require_files(tenant, f"{where}: ")
    tenant = _as_command(tenant)
    return replace(tenant, name=tenant.name or resolve(tenant.reference).name)


def _as_command(tenant: TenantSpec) -> TenantSpec:
    """Return a tenant that trains by a script without ``make`` as one that trains by a command; another unchanged.

    Raises:
        InputError: the file is missing, or the script has no checkpoint or batch size to set.
    """
    path = Path(tenant.reference)
    if tenant.task != "train" or path.suffix != ".py" or not is_script(require_file(tenant.reference)):
        return tenant
    if tenant.checkpoint is not None or tenant.resume is not None:
        hint = f"leave --checkpoint and --resume out, or {OTHERWISE}"
        raise InputError(f"{tenant.reference} is a script, which keeps its own checkpoints", hint)
    found = batch_option(path)
    if found is None and tenant.batch_size not in (None, 1):
        message = f"{tenant.reference} declares no option for its batch size, e.g. --batch-size"
        raise InputError(message, "leave --train-batch-size out")
    option, size = (None, 1) if found is None else (found[0], tenant.batch_size or found[1])
    return replace(tenant, reference=command_of(tenant.reference, option), batch_size=size)


def _require_files(tenant: TenantSpec, where: str) -> None:
    """Check before a run that inputs, handlers and checkpoints exist."""
    for key, hint in _FILES.items():
        file = getattr(tenant, key)
        if file is not None and not Path(file).is_file():
            raise InputError(f"{where}{file} does not exist", hint)


def _unique(tenants: Sequence[TenantSpec]) -> tuple[TenantSpec, ...]:
    """Return the tenants with unique names: the task is added if inference and training share a network.

    Raises:
        InputError: two have the same name and task.
    """
    named = []
    for tenant in tenants:
        others = [other for other in tenants if other is not tenant and other.name == tenant.name]
        if any(other.task == tenant.task for other in others):
            raise InputError(f"two tenants are called {tenant.name}", "give each a name: of its own")
        named.append(replace(tenant, name=f"{tenant.name}-{tenant.task}") if others else tenant)
    return tuple(named)
