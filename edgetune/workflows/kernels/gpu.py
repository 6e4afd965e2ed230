"""Opens the GPU that an option names, and measures what launches cost on it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError
from edgetune.processes.user_folders import user_folder
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cuda import calibrate as launch_costs
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.cuda.building import build, why_not_green
from edgetune.stages.elastic.cuda.calibrate import LaunchCosts, costs_of, costs_path, write_costs
from edgetune.stages.elastic.cuda.context import WITHOUT, Context
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.workflows.kernels.options import CalibrateOptions
from edgetune.workflows.output import Target
from edgetune.workflows.reporting import Reporter


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Measured launch costs.

    Args:
        costs: The costs.
        path: The file that holds them.
        refused: Why a part of the multiprocessors cannot be used alone; ``None`` where it can.
    """

    costs: LaunchCosts
    path: Path
    refused: str | None


def costs_folder() -> Path:
    """Return the folder of launch costs that ``calibrate`` writes by default and ``run`` reads."""
    return user_folder("cache", "launch_costs")


def gpu_index(device: str, without: str = WITHOUT) -> int:
    """Return the number in ``nvidia:0``.

    Args:
        device: The option.
        without: What can be done without a GPU, for the hint.

    Raises:
        InputError: the device is no NVIDIA GPU.
    """
    kind, _, number = device.partition(":")
    if kind == "jetson" and not number:
        return 0
    if kind != "nvidia" or not number.isdecimal():
        raise InputError(f"CUDA kernels do not run on {device!r}", f"write nvidia:0; {without}")
    return int(number)


def opened(
    device: str,
    *,
    sms: int | None,
    seed: int,
    records: bool = False,
    include: Sequence[str] = (),
    persistent: bool = False,
) -> AbstractContextManager[GpuSession]:
    """Return a GPU that is open while the block runs.

    Args:
        device: E.g. ``nvidia:0``.
        sms: Multiprocessors to use; ``None`` for all.
        seed: Of what inputs and weights are filled with.
        records: Whether blocks write down where they run.
        include: Folders of headers.
        persistent: Whether kernels get persistent forms too.

    Raises:
        InputError: the device is no NVIDIA GPU.
        DeviceError: cuda-bindings, the driver or the GPU is missing; the hint says what works without.
    """
    return gpu_session.open_gpu_session(
        gpu_index(device), sm_count=sms, recorded=records, seed=seed, launch_s=known_launch_s,
        builder=partial(build, options=CompileOptions(include=tuple(include)), persistent=persistent),
    )  # fmt: skip


def known_launch_s(context: Context) -> float:
    """Return the launch interval of kernels on a GPU, s: the stored one, else measure and store it."""
    costs = costs_of(context.facts, costs_folder())
    if costs is None:
        with context.scope():
            costs = launch_costs.calibrate(context)
        with suppress(InputError, OSError):  # a cache that cannot be written is no reason not to run
            costs_folder().mkdir(parents=True, exist_ok=True)
            write_costs(costs, costs_path(context.facts, costs_folder()))
    return costs.reaction_s


def gpu_conditions(ready: GpuSession, *, part: bool, records: bool) -> dict[str, Any]:
    """Return the conditions of runs on a GPU.

    Args:
        ready: The GPU.
        part: Whether a part of its multiprocessors is used.
        records: Whether blocks write down where they run.
    """
    facts = ready.context.facts
    return {
        "simulated": False, "device": facts.gpu.name, "gpu": plain(facts.gpu), "uuid": facts.uuid,
        "cuda": facts.driver, "part_of_the_gpu": part, "block_records": records,
    }  # fmt: skip


def calibrate(opts: CalibrateOptions, reporter: Reporter) -> Calibrated:
    """Measure what launches cost on a GPU and keep it.

    Raises:
        InputError: the device is no NVIDIA GPU, or the costs cannot be written.
        DeviceError: cuda-bindings, NVRTC, the driver or the GPU is missing.
    """
    index, folder = gpu_index(opts.device), costs_folder()
    if opts.output is not None:
        Target(Path(opts.output)).check("set of constants")
    else:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"cannot make the folder {folder}: {error.strerror}", "name a file with -o") from None
    with gpu_session.open_gpu_session(index, sm_count=opts.sms, launch_s=lambda _: nan) as ready:
        with reporter.bar("measuring launches", None):
            costs = launch_costs.calibrate(ready.context)
        refused = None if opts.sms is not None else why_not_green(ready.context)
        path = costs_path(ready.context.facts, folder) if opts.output is None else Path(opts.output)
    write_costs(costs, path)
    reporter.info(f"wrote {path}")
    return Calibrated(costs, path, refused)
