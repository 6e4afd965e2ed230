"""Opens the GPU that an option names."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from edgetune.artifacts.yaml_document import plain
from edgetune.errors import InputError
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.cuda.building import build
from edgetune.stages.elastic.cuda.context import WITHOUT
from edgetune.stages.elastic.cuda.gpu_session import GpuSession


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
        gpu_index(device), sm_count=sms, recorded=records, seed=seed,
        builder=partial(build, options=CompileOptions(include=tuple(include)), persistent=persistent),
    )  # fmt: skip


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
