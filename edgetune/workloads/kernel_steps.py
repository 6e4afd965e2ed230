"""Runnable peak kernels: with PyTorch on any of its devices, or with NumPy on a host without PyTorch.

Copies on a host always use NumPy, see ``_host_copy``. FP32 products on a host use ONNX Runtime where it is faster: a
BLAS library may not use all that the processor has (Intel's leaves out AVX-512 on processors of other makers; an AMD
EPYC reaches 215 GFLOP/s with PyTorch and 434 with ONNX Runtime), and networks run on ONNX Runtime.

Operands are allocated once and results are written in place, so that a step consists of kernels alone. Operands are
random because zeros switch fewer transistors: GPU power differs by up to 40 % with the data alone (Gregersen, Patel and
Choukse, "Input-Dependent Power Usage in GPUs", 2024).
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import repeat
from typing import Any

from edgetune.artifacts.profile import Task
from edgetune.errors import DeviceError, InputError
from edgetune.units import format_bytes
from edgetune.workloads.kernels import MATMUL, BenchmarkKernel, kernel_of
from edgetune.workloads.torch_required import Step, require_accelerator, require_torch
from edgetune.workloads.workload import RunOptions, Workload

Run = Callable[[], object]
_OPSET = 13
"""Operator set of MatMul for FP32, which every supported ONNX Runtime has."""
_IR_VERSION = 8


def open_host_product(kernel: BenchmarkKernel, threads: int | None, seed: int) -> Run | None:
    """Return one run of a product in FP32, its result written in place; ``None`` without ONNX Runtime."""
    from edgetune.workloads.ort_session import require_onnxruntime, session_options

    try:
        ort = require_onnxruntime(("CPUExecutionProvider",))
    except DeviceError:
        return None
    import numpy as np
    from onnx import TensorProto, helper

    m, k, n = kernel.rows, kernel.inner, kernel.columns
    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    a, b, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "product", [a, b], [c])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    options, providers = session_options(threads=threads), ["CPUExecutionProvider"]
    session = ort.InferenceSession(model.SerializeToString(), options, providers=providers)
    draw = np.random.default_rng(seed)
    held = [ort.OrtValue.ortvalue_from_numpy(draw.standard_normal(each, dtype=np.float32)) for each in shapes.values()]
    binding: Any = session.io_binding()
    binding.bind_ortvalue_input("a", held[0])
    binding.bind_ortvalue_input("b", held[1])
    binding.bind_ortvalue_output("c", held[2])

    def run(_: object = held) -> None:  # ONNX Runtime keeps their addresses alone
        session.run_with_iobinding(binding)

    return run


def fastest(runs: Sequence[Run]) -> Run:
    """Return the fastest run; each is run twice and the second run is timed."""
    if len(runs) == 1:
        return runs[0]
    taken_s = []
    for run in runs:
        run()
        begun_s = time.perf_counter()
        run()
        taken_s.append(time.perf_counter() - begun_s)
    return runs[taken_s.index(min(taken_s))]


_LEAST_CAPABILITY = {"tf32": (8, 0), "bf16": (8, 0), "fp8": (8, 9), "int8": (7, 5)}
"""Least CUDA compute capability with the precision on tensor cores; below, PyTorch silently uses slower kernels.
Source: NVIDIA, CUDA C++ Programming Guide, "Warp matrix functions", table of element types."""

_SHAPES = {"int8": (17, 8), "fp8": (1, 16)}
"""Least rows of a product on CUDA, and a divisor that its inner length and columns must have.
Source: PyTorch, aten/src/ATen/native/cuda/Blas.cpp, the checks of _int_mm and _scaled_mm."""

_OUT_OF_MEMORY = ("out of memory", "allocate", "ALLOC_FAILED")
"""Parts of out-of-memory messages of CUDA's and the host's allocators, and of cuBLAS (CUBLAS_STATUS_ALLOC_FAILED)."""


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> Step:
    """Return a step of a kernel; see ``steps.open_step``."""
    if options.inputs is not None or options.dimensions:
        raise InputError(f"{workload.reference} makes its own operands", "leave --inputs and --dim out")
    require_accelerator(options.torch_device)
    kernel = kernel_of(workload, task, batch_size)
    return open_kernel(kernel, device=options.torch_device, threads=options.threads, seed=options.seed)


def open_kernel(kernel: BenchmarkKernel, *, device: str, threads: int | None, seed: int) -> Step:
    """Return a step of ``BenchmarkKernel.repeats`` runs of ``kernel``; it does not wait for an accelerator to finish.

    Args:
        kernel: The kernel to run.
        device: PyTorch device.
        threads: CPU threads; ``None`` for the library's default.
        seed: Seed of the operands.

    Raises:
        DeviceError: the library or the device lacks the precision.
        InputError: the kernel does not fit into memory, or the device has no product of this shape.
    """
    try:
        if device == "cpu" and kernel.name == "copy":
            run = _host_copy(kernel, threads, seed)
        elif (torch := _torch_or_none(device)) is None:
            run = _numpy_run(kernel, threads, seed)
        else:
            run = _numerics(torch, kernel, _torch_run(torch, kernel, device, threads, seed))
        if device == "cpu" and kernel.name == MATMUL and kernel.precision == "fp32":
            other = open_host_product(kernel, threads, seed)
            run = run if other is None else fastest([run, other])
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)  # errors of the device are raised here, not at a later step
    except (RuntimeError, MemoryError, TypeError) as error:  # TypeError: a private operator of another version
        raise _refusal(kernel, device, error) from None

    def step() -> None:
        for _ in repeat(None, kernel.repeats):
            run()

    return step


def _torch_or_none(device: str) -> Any:
    """Return the torch module, or ``None`` if it is missing and NumPy can replace it."""
    try:
        return require_torch()
    except DeviceError:
        if device != "cpu":
            raise
        return None


def _refusal(kernel: BenchmarkKernel, device: str, error: BaseException) -> DeviceError | InputError:
    """Return the error for a library's failure to run a kernel: out of memory, or an operator that it lacks."""
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) or any(sign in text for sign in _OUT_OF_MEMORY):
        size = format_bytes(kernel.bytes_moved)
        return InputError(f"{kernel.reference} does not fit into memory: it needs {size}", "name a smaller size")
    return DeviceError(f"{device} cannot run {kernel.reference}: {text[:200]}", "leave that precision out")


def _torch_run(torch: Any, kernel: BenchmarkKernel, device: str, threads: int | None, seed: int) -> Step:
    """Return one run of the kernel with PyTorch."""
    _require_precision(torch, kernel, device)
    _require_shape(kernel, device)
    if threads is not None:
        torch.set_num_threads(threads)
    torch.manual_seed(seed)
    types = {"float8": "float8_e4m3fn"}
    operand, result = (getattr(torch, types.get(n, n)) for n in (kernel.storage.operand, kernel.storage.result))
    x = _random(torch, (kernel.rows, kernel.inner or kernel.columns), operand, device)
    y = torch.empty((kernel.rows, kernel.columns), dtype=result if kernel.inner else operand, device=device)
    if kernel.name == MATMUL:
        return _product(torch, kernel, x, y)
    if kernel.name == "relu":
        if kernel.precision == "fp8":  # no library has arithmetic on FP8, but its sign bit is that of an int8
            x, y = x.view(torch.int8), y.view(torch.int8)
        return partial(torch.clamp_min, x, 0, out=y)
    return partial(y.copy_, x.t() if kernel.name == "transpose" else x)


def _numerics(torch: Any, kernel: BenchmarkKernel, run: Step) -> Step:
    """Return ``run`` with the FP32 matmul precision of PyTorch set during it and restored afterwards.

    "high" allows CUDA to multiply FP32 on tensor cores (TF32), "highest" forbids it; on a CPU "high" could mean BF16.
    """
    if kernel.name != MATMUL or kernel.storage.operand != "float32":
        return run
    wanted = "high" if kernel.precision == "tf32" else "highest"

    def told() -> object:
        found = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(wanted)
        try:
            return run()
        finally:
            torch.set_float32_matmul_precision(found)

    return told


def _product(torch: Any, kernel: BenchmarkKernel, a: Any, c: Any) -> Step:
    """Return one product of ``a`` and a random matrix into ``c``.

    Narrow types have kernels of their own, and cuBLASLt requires their second operand in column-major order.
    """
    if kernel.precision not in ("int8", "fp8"):
        return partial(torch.mm, a, _random(torch, (kernel.inner, kernel.columns), a.dtype, a.device), out=c)
    b = _random(torch, (kernel.columns, kernel.inner), a.dtype, a.device).t()
    if kernel.precision == "int8":
        return partial(torch._int_mm, a, b, out=c)
    one = torch.ones((), device=a.device)
    return partial(torch._scaled_mm, a, b, one, one, out_dtype=c.dtype, use_fast_accum=True, out=c)


def _require_precision(torch: Any, kernel: BenchmarkKernel, device: str) -> None:
    """Refuse a precision that would silently run as another one, or that this PyTorch lacks.

    Raises:
        DeviceError: the device or PyTorch lacks the precision.
    """
    precision, hint = kernel.precision, "leave that precision out"
    if precision == "tf32" and not device.startswith("cuda"):
        raise DeviceError(f"{device} has no TF32, which is a mode of NVIDIA's tensor cores", hint)
    for name, needed in (("int8", "_int_mm"), ("fp8", "_scaled_mm"), ("fp8", "float8_e4m3fn")):
        if precision == name and not hasattr(torch, needed):
            raise DeviceError(f"PyTorch {torch.__version__} has no torch.{needed}, which {name} needs", hint)
    least = _LEAST_CAPABILITY.get(precision, (0, 0))
    if device.startswith("cuda"):
        found = tuple(torch.cuda.get_device_capability(device))
        if found < least:
            have, need = (".".join(map(str, version)) for version in (found, least))
            raise DeviceError(f"{device} has compute capability {have}; {precision} needs {need}", hint)


def _require_shape(kernel: BenchmarkKernel, device: str) -> None:
    """Refuse a product of a shape that CUDA's libraries do not support.

    Raises:
        InputError: the shape is not supported; the message names the requirement.
    """
    if kernel.name != MATMUL or kernel.precision not in _SHAPES or not device.startswith("cuda"):
        return
    rows, multiple = _SHAPES[kernel.precision]
    if kernel.rows < rows or kernel.inner % multiple or kernel.columns % multiple:
        raise InputError(
            f"{device} has no product of the shape of {kernel.reference}: in {kernel.precision} columns and inner"
            f" length are multiples of {multiple}" + (f", rows at least {rows}" if rows > 1 else ""),
            f"e.g. kernel:{MATMUL}:4096:{kernel.precision}",
        )


def _random(torch: Any, shape: tuple[int, int], dtype: Any, device: Any) -> Any:
    """Return random numbers of mean zero: uniform over the range of an integer type, else normally distributed."""
    if dtype == torch.int8:
        return torch.empty(shape, dtype=dtype, device=device).random_(-128, 128)
    if dtype.itemsize == 1:  # PyTorch cannot draw 8-bit floats
        return torch.empty(shape, dtype=torch.float16, device=device).normal_().to(dtype)
    return torch.empty(shape, dtype=dtype, device=device).normal_()


def _numpy_run(kernel: BenchmarkKernel, threads: int | None, seed: int) -> Step:
    """Return one run of the kernel with NumPy, which has fast products of FP32 alone.

    Each thread of this module computes a band of rows. The BLAS library is limited to the calling thread, since its own
    number of threads is fixed to the cores at its loading.
    """
    if kernel.precision != "fp32":
        raise DeviceError(f"NumPy cannot compute in {kernel.precision}", "pip install 'edgetune[torch]'")
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1"))
    import numpy as np

    draw = np.random.default_rng(seed)
    x = draw.standard_normal((kernel.rows, kernel.inner or kernel.columns), dtype=np.float32)
    b = draw.standard_normal((kernel.inner, kernel.columns), dtype=np.float32)  # no rows without a product
    y = np.zeros((kernel.rows, kernel.columns), np.float32)
    works: dict[str, Callable[[slice], object]] = {
        MATMUL: lambda band: np.matmul(x[band], b, out=y[band]),
        "relu": lambda band: np.maximum(x[band], 0, out=y[band]),
        "transpose": lambda band: np.copyto(y[band], x.T[band]),
    }
    return _in_bands(works[kernel.name], y, threads)


def _host_copy(kernel: BenchmarkKernel, threads: int | None, seed: int) -> Step:
    """Return one copy of bytes on a host, for any precision.

    NumPy calls the C library's memcpy, whose stores bypass the caches. A loop of loads and stores, as in PyTorch, reads
    each cache line of the result before it overwrites it: three bytes moved for two.
    """
    import numpy as np

    width = kernel.columns * kernel.storage.operand_bytes
    x = np.random.default_rng(seed).integers(0, 256, (kernel.rows, width), np.uint8)
    y = np.zeros_like(x)
    return _in_bands(lambda band: np.copyto(y[band], x[band]), y, threads)


def _in_bands(work: Callable[[slice], object], y: Any, threads: int | None) -> Step:
    """Return a run that calls ``work`` on a band of rows of ``y`` in each thread.

    The threads run in parallel, because NumPy releases the interpreter's lock.
    """
    rows, count = len(y), threads or 1
    bands = [slice(rows * index // count, rows * (index + 1) // count) for index in range(count)]
    pool = ThreadPoolExecutor(count)

    def run() -> object:
        for _ in pool.map(work, bands):  # waits for each band, and raises its exception
            pass
        return y

    return run
