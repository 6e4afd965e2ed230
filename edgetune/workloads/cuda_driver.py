"""CUDA's driver through cuda-bindings: loaded and its errors translated in one place; memory of a GPU for TensorRT.

Any object with the functions of the module ``cuda.bindings.driver`` (12.6 to 13) serves: the module itself, or a fake.
Only functions whose signature is the same in all those versions are called: no ``cuCtxCreate``, no
``cuCtxSynchronize``. Error codes are those of ``cuda.h``, enumeration ``CUresult``.
"""

import importlib
from contextlib import suppress
from typing import Any

import numpy as np

from edgetune.errors import DeviceError, InputError

REMEDY = "pip install 'edgetune[cuda]', with drivers of CUDA 12 (JetPack 6) 'edgetune[cuda12]'"
_WITHOUT = "`edgetune doctor` says what is missing"

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

_NAME_BYTES = 256
_NO_MEMORY = 2
_KNOWN = {
    34: ("the CUDA driver found is a stub for linking", "take the toolkit's stubs out of the library path"),
    46: ("the GPU is taken, or its compute mode forbids it", "nvidia-smi shows both"),
    100: ("there is no NVIDIA GPU on this machine", ""),
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


class MemoryShortError(DeviceError):
    """The GPU has no memory left."""


class Driver:
    """The driver, initialised until the process ends.

    Args:
        module: The module ``cuda.bindings.driver``, or a fake of it.
        without: What works without a GPU, for hints.

    Raises:
        DeviceError: there is no working driver, or no GPU.
    """

    def __init__(self, module: Any, without: str = _WITHOUT) -> None:
        self.api, self._without = module, without
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
            if "libcuda" in str(error) or function == "cuInit":
                raise DeviceError(f"there is no NVIDIA driver on this machine: {error}", self._without) from None
            raise NotOfferedError(f"{function}: this NVIDIA driver is too old for it", "update the driver") from None
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

    def name_of(self, device: Any) -> str:
        """Return the name of a GPU."""
        name: bytes = self.call("cuDeviceGetName", _NAME_BYTES, device)
        return name.split(b"\0")[0].decode().strip()

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
        if code == _NO_MEMORY:
            hint = "run fewer or smaller networks; nvidia-smi shows who else uses it"
            return MemoryShortError("the GPU has no memory left", hint)
        if code in _KNOWN:
            message, hint = _KNOWN[code]
            return DeviceError(message, hint or self._without)
        try:
            _, name = self.api.cuGetErrorName(self.api.CUresult(code))
        except ValueError:  # a code that is newer than the bindings
            name = None
        told = name.decode() if name else "which these cuda-bindings do not know"
        return DeviceError(f"{function}: CUDA error {code}, {told}", "see what nvidia-smi says of this GPU")


def load_driver(module: Any = None, without: str = _WITHOUT) -> Driver:
    """Return the driver.

    Args:
        module: In place of ``cuda.bindings.driver``.
        without: What works without a GPU, for hints.

    Raises:
        DeviceError: cuda-bindings is not installed, or there is no working driver or no GPU.
    """
    if module is None:
        try:
            module = importlib.import_module("cuda.bindings.driver")
        except ImportError:
            message = f"CUDA is used through cuda-bindings, which is not installed ({without})"
            raise DeviceError(message, REMEDY) from None
    return Driver(module, without)


class GpuMemory:
    """Memory and a stream of a GPU for TensorRT, freed with this object, in the context that TensorRT uses too.

    Args:
        index: Number of the GPU.

    Attributes:
        gpu: Name of the GPU.
        stream: Handle of the stream.

    Raises:
        DeviceError: cuda-bindings, the driver or the GPU is missing.
    """

    def __init__(self, index: int = 0) -> None:
        self._made: list[tuple[str, Any]] = []
        driver = load_driver()
        self._call = driver.call
        device = self._call("cuDeviceGet", index)
        self.gpu = driver.name_of(device)
        self._call("cuCtxPushCurrent", self._call("cuDevicePrimaryCtxRetain", device))
        self._stream = self._call("cuStreamCreateWithPriority", 0, 0)
        self._made.append(("cuStreamDestroy", self._stream))
        self.stream = int(self._stream)

    def allocate(self, size_bytes: int) -> int:
        """Return the address of new memory, kept until this object goes.

        Raises:
            InputError: the memory does not suffice.
        """
        try:
            address = self._call("cuMemAlloc", max(size_bytes, 1))
        except MemoryShortError as error:
            raise InputError(error.message, "use a smaller batch size, or free memory") from None
        self._made.append(("cuMemFree", address))
        return int(address)

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        """Return the address of a copy of an array."""
        array = np.ascontiguousarray(array)
        address = self.allocate(array.nbytes)
        if array.nbytes:
            self._call("cuMemcpyHtoD", address, array.ctypes.data, array.nbytes)
        return address

    def synchronize(self) -> None:
        """Wait for the work on the stream."""
        self._call("cuStreamSynchronize", self._stream)

    def __del__(self) -> None:
        for function, handle in reversed(self._made):
            with suppress(DeviceError):
                self._call(function, handle)
