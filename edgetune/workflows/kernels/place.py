"""Where tasks run: on the model of a GPU, or on the GPU that an option names."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError
from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.bound import PreemptionCosts, measured_costs, simulated_costs
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.building import build
from edgetune.stages.elastic.cuda.context import WITHOUT
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.gpu import Gpu, GpuTask
from edgetune.stages.elastic.model import GpuTimingModel, seen_by_policies
from edgetune.stages.elastic.simulated import SimulatedGpu


@dataclass(frozen=True, slots=True)
class Place:
    """A model of a GPU, or a real one.

    Args:
        gpu: As policies see it.
        conditions: Of figures made there.
        costs: Times of which the worst case is made.
        open_backend: Returns a backend for one run of tasks.
    """

    gpu: Gpu
    conditions: dict[str, Any]
    costs: PreemptionCosts
    open_backend: Callable[[Sequence[GpuTask]], AbstractContextManager[SimulatedGpu | CudaBackend]]


def model_place(gpu: Gpu) -> Place:
    """Return the model of a GPU."""
    model = GpuTimingModel()
    note = (
        f"simulated (model): {gpu.sm_count} multiprocessors of {gpu.name} by their limits, peak and bandwidth; no "
        "caches, no clocks, no instructions but floating-point ones"
    )
    conditions = {"simulated": True, "device": gpu.name, "gpu": plain(gpu), "model": {"note": note, **plain(model)}}
    return Place(
        seen_by_policies(gpu, model), conditions, simulated_costs(gpu, model),
        lambda tasks: nullcontext(SimulatedGpu(EventClock(), gpu, tasks)),
    )  # fmt: skip


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


@contextmanager
def opened(
    device: str, *, sms: int | None, seed: int, records: bool = False, include: Sequence[str] = (),
    persistent: bool = False,
) -> Iterator[tuple[GpuSession, Place]]:  # fmt: skip
    """Open a GPU, and yield it.

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
    with gpu_session.open_gpu_session(
        gpu_index(device), sm_count=sms, recorded=records, seed=seed,
        builder=partial(build, options=CompileOptions(include=tuple(include)), persistent=persistent),
    ) as ready:  # fmt: skip
        facts = ready.context.facts
        conditions = {
            "simulated": False, "device": facts.gpu.name, "gpu": plain(facts.gpu), "uuid": facts.uuid,
            "cuda": facts.driver, "part_of_the_gpu": sms is not None, "block_records": records,
        }  # fmt: skip
        yield ready, Place(facts.gpu, conditions, measured_costs(facts.gpu), ready.open_backend)
