"""Peak kernels: workloads of one large operator that only computes or only moves memory.

The peaks of a device are measured like any network, in the same process and by the same rules. A kernel is named
``kernel:NAME:SIZE`` or ``kernel:NAME:SIZE:PRECISION``:

    kernel:matmul:4096            C = A B of 4096 x 4096 matrices                2 n^3 FLOP, n^2 (2 d + r) bytes
    kernel:matmul:8192x8192x64    A is 8192 x 64, B is 64 x 8192                 2 m n k FLOP, d k (m + n) + r m n bytes
    kernel:relu:8192:fp16         y = max(x, 0), element by element              n^2 FLOP (a comparison), 2 d n^2 bytes
    kernel:transpose:8192         y = x transposed, written out                  none, 2 d n^2 bytes
    kernel:copy:8192              y = x                                          none, 2 d n^2 bytes

with d bytes per operand element and r per element of a product: each operand is read once and each result written once,
without effects of caches or write-allocation. A thin product (k far below m and n) does about 2 k / r FLOP per byte:
points between memory-bound and compute-bound kernels.

Source: the kernels of "Pagoda: An Energy and Time Roofline Study for DNN Workloads on Edge Accelerators" (2025).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.artifacts.profile import Task
from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.workloads.workload import Workload, WorkloadKind

PREFIX = "kernel:"
MATMUL = "matmul"
KERNELS: Mapping[str, str] = {MATMUL: "Gemm", "relu": "Relu", "transpose": "Transpose", "copy": "Copy"}
"""Each kernel's operator type in a table of operators."""

_LEAST_FLOPS = 10e9
_LEAST_BYTES = 0.2e9
"""A step repeats its kernel up to this work: a millisecond at the 10 TFLOP/s and 200 GB/s of the largest boards, longer
on slower devices. Faster accelerators need larger kernels instead of repeats."""

_MOST = 1 << 20
"""Most rows: a square FP32 matrix of this size is 4 TiB, more than the memory of any device."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Element types of the operands and results of one precision.

    Args:
        operand: Element type of operands, and of results that are no products.
        operand_bytes: Bytes of one operand element.
        result: Element type of a product: narrow types accumulate in wider ones.
        result_bytes: Bytes of one result element.
    """

    operand: str
    operand_bytes: int
    result: str
    result_bytes: int


PRECISIONS: Mapping[str, Storage] = {
    "fp32": Storage("float32", 4, "float32", 4),
    "tf32": Storage("float32", 4, "float32", 4),
    "fp16": Storage("float16", 2, "float16", 2),
    "bf16": Storage("bfloat16", 2, "bfloat16", 2),
    "fp8": Storage("float8", 1, "bfloat16", 2),
    "int8": Storage("int8", 1, "int32", 4),
}
"""``fp32`` is true FP32; ``tf32`` stores FP32 and multiplies on tensor cores with 10 bits of mantissa. Result types are
those of the libraries: cuBLASLt multiplies INT8 into INT32 and FP8 into 16 bits."""


@dataclass(frozen=True, slots=True)
class BenchmarkKernel:
    """One kernel at one size.

    Args:
        name: A key of ``KERNELS``.
        rows, columns: Shape of the result.
        inner: Length of the products' sums; 0 for kernels that are no product.
        precision: A key of ``PRECISIONS``.
    """

    name: str
    rows: int
    columns: int
    inner: int
    precision: str

    @classmethod
    def square(cls, name: str, size: int, precision: str) -> BenchmarkKernel:
        """Return the kernel on square operands of ``size`` rows."""
        return cls(name, size, size, size if name == MATMUL else 0, precision)

    @property
    def storage(self) -> Storage:
        """Element types of its operands and results."""
        return PRECISIONS[self.precision]

    @property
    def label(self) -> str:
        """Name of its family of sizes: ``matmul`` for square products, ``matmul_k64`` for thin ones."""
        return self.name if self.square_operands else f"{self.name}_k{self.inner}"

    @property
    def square_operands(self) -> bool:
        """Whether its operands are square."""
        return self.rows == self.columns and self.inner in (0, self.rows)

    @property
    def flops(self) -> int:
        """Operations of one run, floating-point or integer."""
        if self.name == MATMUL:
            return 2 * self.rows * self.columns * self.inner
        return self.rows * self.columns if self.name == "relu" else 0

    @property
    def bytes_moved(self) -> int:
        """Bytes of all operands and results, each once; also the memory that the kernel needs."""
        stored, results = self.storage, self.rows * self.columns
        if self.name == MATMUL:
            return stored.operand_bytes * self.inner * (self.rows + self.columns) + stored.result_bytes * results
        return 2 * stored.operand_bytes * results

    @property
    def repeats(self) -> int:
        """Runs in one step, enough to make the launch overhead small."""
        work = max(self.flops / _LEAST_FLOPS, self.bytes_moved / _LEAST_BYTES)
        return max(1, math.ceil(1 / work))

    @property
    def reference(self) -> str:
        """The kernel's reference for ``resolve``."""
        size = str(self.rows) if self.square_operands else f"{self.rows}x{self.columns}x{self.inner}"
        return f"{PREFIX}{self.name}:{size}:{self.precision}"


def parse_kernel(reference: str, precision: str = "fp32") -> BenchmarkKernel:
    """Return the kernel that ``reference`` names.

    Args:
        reference: See the module docstring.
        precision: Precision if the reference names none.

    Raises:
        InputError: the kernel, size or precision is unknown, or the reference names another precision than given.
    """
    name, _, rest = reference.removeprefix(PREFIX).partition(":")
    size, _, named = rest.partition(":")
    if name not in KERNELS:
        listed = f"the kernels are {', '.join(KERNELS)}, e.g. {PREFIX}matmul:4096"
        raise InputError(f"there is no kernel {name!r}", nearest(name, KERNELS, listed=listed, prefix=PREFIX))
    wanted = named or precision
    if wanted not in PRECISIONS:
        raise InputError(f"{reference}: kernels have no precision {wanted!r}", f"known: {', '.join(PRECISIONS)}")
    if named and precision not in ("fp32", named):  # a given fp32 cannot be distinguished from the default
        raise InputError(f"{reference} computes in {named}, not in {precision}", "leave --precision out")
    return BenchmarkKernel(name, *_shape(reference, name, size), wanted)


def _shape(reference: str, name: str, text: str) -> tuple[int, int, int]:
    """Return rows, columns and inner length."""
    words = text.split("x")
    numbers = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 8]
    if len(numbers) == len(words) and all(0 < number <= _MOST for number in numbers):
        if len(numbers) == 1:
            return numbers[0], numbers[0], numbers[0] if name == MATMUL else 0
        if len(numbers) == 3 and name == MATMUL:
            return numbers[0], numbers[1], numbers[2]
    example = f"{PREFIX}{name}:4096" + (f" or {PREFIX}{name}:4096x4096x64" if name == MATMUL else "")
    raise InputError(f"{reference}: {text!r} is no size of {name}, from 1 to {_MOST} rows", f"e.g. {example}")


def resolve_kernel(reference: str) -> Workload:
    """Return the workload of a kernel, named for tables as ``matmul-4096`` or ``matmul-4096-fp16``.

    Raises:
        InputError: see ``parse_kernel``.
    """
    parse_kernel(reference)
    name = reference.removeprefix(PREFIX).replace(":", "-")
    return Workload(reference, name, "kernel", None, hashlib.sha256(reference.encode()).hexdigest())


def kernel_of(workload: Workload, task: Task, batch_size: int, precision: str = "fp32") -> BenchmarkKernel:
    """Return the kernel of a workload of kind ``kernel``.

    Args:
        workload: See ``resolve_kernel``.
        task, batch_size: Must be ``infer`` and 1.
        precision: See ``parse_kernel``.

    Raises:
        InputError: the task or batch size is another; see also ``parse_kernel``.
    """
    if task != "infer":
        raise InputError(f"{workload.reference} has nothing to train", "use --task infer")
    if batch_size != 1:
        raise InputError(
            f"{workload.reference} has no batch of {batch_size}: its size is in its name",
            "leave --batch-sizes out, and name a larger kernel for more work",
        )
    return parse_kernel(workload.reference, precision)


KIND = WorkloadKind(resolve_kernel, (PREFIX,), runtime="edgetune.workloads.kernel_steps")
