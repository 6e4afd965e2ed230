"""CUDA's driver through cuda-bindings: loaded, its errors translated and its arguments packed in one place.

pointers  [ . ][ . ][ . ][ . ]           arguments of a launch as ``cuLaunchKernel`` reads them, packed once
            |    |    |    +--> {grid, block, first, count}     only these two numbers change from shard to shard
            |    |    +-------> 7
            |    +------------> address of a buffer
            +-----------------> address of a buffer

Any object with the functions of the module ``cuda.bindings.driver`` (12.8 to 13) serves: the module itself, or a fake.
Only functions whose signature is the same in all those versions are called: no ``cuCtxCreate``, no
``cuCtxSynchronize``. Error codes are those of ``cuda.h``, enumeration ``CUresult``.

Run on a GPU so far, with forms written in CUDA C: equality, overhead, the benchmark's workloads, block records,
``calibrate`` and ``run``, on an H100 whose driver is for CUDA 13.0. Only on the fake: forms of PTX, which replaced
those, and ``gpu_equivalence``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgetune.errors import DeviceError
from edgetune.stages.elastic import kernel
from edgetune.stages.elastic.gpu import Logical

REMEDY = "pip install 'edgetune[cuda]'"
WITHOUT = "`edgetune schedule kernels simulate`, and `bench` without --device, need no GPU"

SUCCESS, NOT_READY = 0, 600
NON_BLOCKING = 1
"""``CU_STREAM_NON_BLOCKING``: a stream that does not wait for the default one; green contexts accept no other."""

FAILED_KERNELS = {
    214: "the GPU's memory had an error that could not be corrected",
    700: "a kernel read or wrote memory that is not its own",
    702: "a kernel took longer than the time limit of a GPU that draws a screen",
    710: "an assertion in a kernel failed",
    714: "a kernel's stack overflowed",
    715: "a kernel came to an illegal instruction",
    716: "a kernel read or wrote at a misaligned address",
    717: "a kernel used an address of the wrong memory space",
    718: "a kernel jumped to nowhere",
    719: "a kernel failed",
}
"""After any of these every call of the process fails with the same code; only a new process can use the GPU again
(CUDA Driver API, CUresult)."""

_KNOWN = {
    2: ("the GPU has no memory left", "run fewer or smaller networks; nvidia-smi shows who else uses it"),
    34: ("the CUDA driver found is a stub for linking", "take the toolkit's stubs out of the library path"),
    46: ("the GPU is taken, or its compute mode forbids it", "nvidia-smi shows both"),
    100: ("there is no NVIDIA GPU on this machine", WITHOUT),
    101: ("there is no such NVIDIA GPU on this machine", "nvidia-smi lists those there are, from 0"),
    200: ("the compiled kernels are damaged", "compile them again"),
    209: ("the kernels were compiled for another GPU", "compile them for this one"),
    218: ("the NVIDIA driver does not compile the PTX", "check it with ptxas, and its .target against the GPU"),
    222: ("the compiler is newer than the NVIDIA driver", "update the driver"),
    701: (
        "a launch asks for more registers or threads than a multiprocessor has",
        "use smaller blocks, or compile the kernel with fewer registers (__launch_bounds__)",
    ),
    804: ("this GPU does not go with a newer CUDA than its driver's", "update the driver"),
    803: ("the NVIDIA driver was updated while an older one is loaded", "reboot"),
}  # fmt: skip
_UNSUPPORTED = (36, 800, 801, 914, 915)
"""Needs a newer driver, not permitted, not supported, no such resource or configuration of one."""


class NotOfferedError(DeviceError):
    """This GPU, its driver or this version of cuda-bindings does not offer a function."""


class KernelFailedError(DeviceError):
    """A kernel failed, and this process cannot use the GPU any more."""


class Driver:
    """The driver, initialised until the process ends.

    Args:
        module: The module ``cuda.bindings.driver``, or a fake of it.

    Raises:
        DeviceError: there is no working driver, or no GPU.
    """

    def __init__(self, module: Any) -> None:
        self.api = module
        self.call("cuInit", 0)

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function by its name; return its results behind the code: none, a value or a tuple.

        Raises:
            NotOfferedError: the GPU, the driver or the bindings lack it.
            KernelFailedError: a kernel launched earlier failed.
            DeviceError: CUDA reports another error.
        """
        found = getattr(self.api, function, None)
        if found is None:
            raise NotOfferedError(f"{function} is missing from this cuda-bindings", f"{REMEDY} --upgrade")
        try:
            code, *values = found(*arguments)
        except RuntimeError as error:  # as the bindings report that libcuda, or a function of it, was not found
            raise _not_loaded(function, error) from None
        if code != SUCCESS:
            raise self.translated(function, int(code))
        return values[0] if len(values) == 1 else tuple(values) or None

    def is_over(self, event: Any) -> bool:
        """Return whether everything on the stream before an event's record has ended; does not wait.

        Raises:
            KernelFailedError: a kernel failed.
            DeviceError: CUDA reports another error.
        """
        code = self.api.cuEventQuery(event)[0]
        if code == SUCCESS:
            return True
        if code == NOT_READY:
            return False
        raise self.translated("cuEventQuery", int(code))

    def translated(self, function: str, code: int) -> DeviceError:
        """Return the error for a code."""
        if code in FAILED_KERNELS:
            return KernelFailedError(
                f"{FAILED_KERNELS[code]} (CUDA error {code})",
                "check the kernel on the CPU: `edgetune schedule kernels transform FILE.cu --check`",
            )
        if code in _UNSUPPORTED:
            message = f"{function}: this GPU or its driver does not offer it (CUDA error {code})"
            return NotOfferedError(message, "leave out the option that needs it")
        if code in _KNOWN:
            message, hint = _KNOWN[code]
            return DeviceError(message, hint)
        return DeviceError(f"{function}: CUDA error {code}, {self._name(code)}", "see what nvidia-smi says of this GPU")

    def _name(self, code: int) -> str:
        try:
            failed, name = self.api.cuGetErrorName(self.api.CUresult(code))
        except ValueError:  # a code that is newer than the bindings
            return "which these cuda-bindings do not know"
        return "unknown" if failed or not name else name.decode()


def _not_loaded(function: str, error: RuntimeError) -> DeviceError:
    if "libcuda" in str(error) or function == "cuInit":
        return DeviceError(f"there is no NVIDIA driver on this machine: {error}", WITHOUT)
    return NotOfferedError(f"{function}: this NVIDIA driver is too old for it", "update the driver")


def load_driver(module: Any = None) -> Driver:
    """Return the driver.

    Args:
        module: In place of ``cuda.bindings.driver``.

    Raises:
        DeviceError: cuda-bindings is not installed, or there is no working driver or no GPU.
    """
    if module is not None:
        return Driver(module)
    try:
        from cuda.bindings import driver
    except ImportError:
        message = f"kernels are launched through cuda-bindings, which is not installed ({WITHOUT})"
        raise DeviceError(message, REMEDY) from None
    return Driver(driver)


_ALIGNED_BYTES = 16
"""No parameter needs more (CUDA C++ Programming Guide, built-in vector types)."""
_WORD_BYTES = 4
_ADDRESS_BYTES = 8


class Packed:
    """Arguments of one form of one call.

    Args:
        values: The bytes of its own arguments.
        logical: Of an elastic form, which takes its part of it; ``None`` of the original.
        control: The address of the control words of a persistent form.
        recorded: Whether it takes the address of block records behind everything else.
    """

    def __init__(
        self, values: Sequence[bytes], logical: Logical | None, *, control: int | None = None, recorded: bool = False
    ) -> None:
        whole = list(values)
        if logical is not None:
            whole.append(kernel.packed(logical.grid, logical.block, 0, 0))
        if control is not None:
            whole.append(control.to_bytes(_ADDRESS_BYTES, "little"))
        if recorded:
            whole.append(bytes(_ADDRESS_BYTES))
        self.sizes_bytes = tuple(len(value) for value in whole)
        offsets = _offsets(self.sizes_bytes)
        self._bytes = np.zeros(offsets[-1], np.uint8)
        for offset, value in zip(offsets, whole, strict=False):  # the last offset is the end
            self._bytes[offset : offset + len(value)] = np.frombuffer(value, np.uint8)
        self._pointers = np.array([self._bytes.ctypes.data + offset for offset in offsets[:-1]], np.uint64)
        self.address = int(self._pointers.ctypes.data)
        """The address of the arguments for ``cuLaunchKernel``."""
        part = offsets[len(values)]
        self._part = None if logical is None else self._bytes[part : part + kernel.SIZE_BYTES].view(np.uint32)
        self._records = self._bytes[offsets[-2] : offsets[-1]].view(np.uint64)[:1] if recorded else None

    def set_part(self, first: int, count: int) -> None:
        """Set the logical blocks; the original takes them all."""
        if self._part is not None:
            self._part[kernel.FIRST_OFFSET_BYTES // _WORD_BYTES] = first
            self._part[kernel.COUNT_OFFSET_BYTES // _WORD_BYTES] = count

    def set_records(self, address: int) -> None:
        """Set the address of the block records; 0 for none."""
        if self._records is not None:
            self._records[0] = address


def _offsets(sizes_bytes: Sequence[int]) -> list[int]:
    """Return the offsets of values of these sizes, and behind them the end, all aligned."""
    offsets = [0]
    for size_bytes in sizes_bytes:
        offsets.append(offsets[-1] + -(-size_bytes // _ALIGNED_BYTES) * _ALIGNED_BYTES)
    return offsets
