"""Tasks on the fake driver of C++: the network of ``cuda_scene``, whose kernels take a given time there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from cuda_scene import ASKED, BUILD, VALUES, network

from edgetune.stages.elastic import abi
from edgetune.stages.elastic.cuda.backend import CudaBackend, WaitTimes
from edgetune.stages.elastic.cuda.context import Context, open_context
from edgetune.stages.elastic.cuda.driver import load_driver
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.native.backend import NativeBackend
from edgetune.stages.elastic.work import GpuTask
from fakes.cuda_native import NativeCuda, NativeKernel, native_cuda

BLOCK_NS = 20_000
LAUNCH_S = 10e-6
_FORM = (8, 8, 4, abi.SIZE_BYTES)


def kernels(block_ns: int = BLOCK_NS, wave: int = 16) -> dict[str, NativeKernel]:
    """Return the kernels of ``cuda_scene.network``."""
    original = NativeKernel(_FORM[:3], block_ns, wave)
    form = NativeKernel(_FORM, block_ns, wave, argument=3)
    names = {"double_it": original, "double_it__grid": form, "double_it__block2": form}
    return {**names, "add_one": original, "add_one__grid": form}


def task(name: str, priority: int = 0, *, block_ns: int = BLOCK_NS, **more: object) -> GpuTask:
    """Return a task with the times of its kernels."""
    made = network()
    timed = [replace(each, block_s=block_ns / 1e9, whole_s=block_ns / 1e9) for each in made.calls]
    return GpuTask(name, replace(made, calls=tuple(timed)), priority, **more)


@dataclass
class NativeMachine:
    """A fake GPU with programs of tasks."""

    cuda: NativeCuda
    context: Context
    programs: Mapping[str, Program]
    tasks: Sequence[GpuTask]
    hang_s: float = 30.0

    @property
    def gpu(self):
        return replace(self.context.facts.gpu, launch_s=LAUNCH_S)

    def native(self) -> NativeBackend:
        patience = WaitTimes(hang_s=self.hang_s)
        return NativeBackend(self.context, self.programs, self.tasks, patience=patience, library=self.cuda.libcuda)

    def python(self) -> CudaBackend:
        return CudaBackend(self.context, self.programs, self.tasks)


@contextmanager
def native_machine(*tasks: GpuTask, made: Mapping[str, NativeKernel] | None = None) -> Iterator[NativeMachine]:
    """Open a machine on which these tasks are ready."""
    with native_cuda(made or kernels()) as cuda, open_context(load_driver(cuda), 0) as context:
        programs = {each.name: Program(context, each.network, BUILD) for each in tasks}
        for each in programs.values():
            each.write(VALUES)
        yield NativeMachine(cuda, context, programs, tasks)


__all__ = ["ASKED", "BLOCK_NS", "LAUNCH_S", "NativeMachine", "kernels", "native_machine", "task"]
