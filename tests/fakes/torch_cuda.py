"""A fake CUDA device beneath PyTorch: calls on ``cuda:0`` are checked, recorded and timed, without a GPU.

    torch.empty(..., device="cuda:0")    memory is counted, and refused beyond what the device has
    torch.mm, _int_mm, _scaled_mm, ...   shapes, types, layouts and capability are checked as CUDA's operators check
                                         them; the work is queued on one stream, with its duration by a roofline
    torch.cuda.synchronize()             the clock advances to the end of the queue

Its times and powers are made up. Code that measures a GPU runs on it unchanged: the same calls and refusals, flags that
are read at the launch, work that is complete only after a wait, and peaks and energies known in closed form.

Source of the checks: PyTorch, aten/src/ATen/native/cuda/Blas.cpp (_int_mm, _scaled_mm) and TensorCompare.cu (clamp).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from edgetune.testing.fake_jetson import FakeClock

FLOPS_PER_S: Mapping[str, float] = MappingProxyType(
    {"fp32": 1e12, "tf32": 8e12, "fp16": 16e12, "bf16": 15e12, "fp8": 40e12, "int8": 30e12}
)
"""Invented, and of no GPU: a few milliseconds for the kernels of a plan, each precision with a rate of its own."""

_NAMES = {
    torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8",
    torch.float8_e4m3fn: "fp8",
}  # fmt: skip
_PRODUCTS = ("mm", "_int_mm", "_scaled_mm")
_STREAMS = ("clamp_min", "copy_", "normal_", "random_", "to")
_ARITHMETIC = ("clamp_min", "normal_", "random_")
_TF32_BITS_DROPPED = 13
"""Of the 23 bits of an FP32 mantissa; TF32 keeps 10 (NVIDIA, A100 white paper)."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One queued kernel."""

    name: str
    precision: str
    flops: float
    bytes_moved: float
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Roofs:
    """The made-up roofs and energies of the fake."""

    flops_per_s: Mapping[str, float] = field(default_factory=lambda: FLOPS_PER_S)
    bytes_per_s: float = 400e9
    static_w: float = 20.0
    flop_j: float = 2e-12
    byte_j: float = 100e-12


class FakeCuda(TorchFunctionMode):  # type: ignore[misc]
    """A context in which PyTorch has one GPU, ``cuda:0``, in this thread."""

    def __init__(
        self,
        *,
        capability: tuple[int, int] = (9, 0),
        memory_bytes: int = 8 << 30,
        roofs: Roofs | None = None,
        clock: FakeClock | None = None,
        computes: bool = True,
    ) -> None:
        super().__init__()
        self.capability = capability
        self.memory_bytes = memory_bytes
        self.roofs = roofs or Roofs()
        self.clock = clock or FakeClock()
        self.launches: list[Launch] = []
        self.synchronizations = 0
        self.most_bytes = 0
        self._backing = "cpu" if computes else "meta"
        self._before_j = [0.0]  # energy beyond static power of all launches before each
        self._storages: dict[int, tuple[StorageWeakRef, int]] = {}
        self._patches = ExitStack()

    def __enter__(self) -> FakeCuda:
        answers: dict[str, Callable[..., object]] = {
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "get_device_capability": lambda device=None: self.capability,
            "synchronize": self._synchronize,
        }
        for name, answer in answers.items():
            self._patches.enter_context(patch.object(torch.cuda, name, answer))
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._patches.close()

    @property
    def held_bytes(self) -> int:
        self._storages = {key: pair for key, pair in self._storages.items() if not pair[0].expired()}
        return sum(size for _, size in self._storages.values())

    def energy_until_j(self, time_s: float) -> float:
        now_ns, static_j = time_s * 1e9, self.roofs.static_w * time_s
        begun = bisect_right(self.launches, now_ns, key=lambda launch: launch.start_ns)
        if not begun:
            return static_j
        last = self.launches[begun - 1]
        done = min(1.0, (now_ns - last.start_ns) / max(last.end_ns - last.start_ns, 1))
        return static_j + self._before_j[begun - 1] + done * self._dynamic_j(last)

    def _dynamic_j(self, launch: Launch) -> float:
        return self.roofs.flop_j * launch.flops + self.roofs.byte_j * launch.bytes_moved

    def _synchronize(self, device: object = None) -> None:
        self.synchronizations += 1
        self.clock.advance_ns(max(0, self._free_ns - self.clock.now_ns()))

    @property
    def _free_ns(self) -> int:
        return self.launches[-1].end_ns if self.launches else 0

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if str(given.get("device")).startswith("cuda"):
            return self._make(func, args, given)
        tensors = [each for each in (*args, *given.values()) if isinstance(each, torch.Tensor)]
        if not any(map(self._holds, tensors)):
            return func(*args, **given)
        if func == torch.Tensor.device.__get__:
            return torch.device("cuda:0")
        name = getattr(func, "__name__", "")
        if name in (*_PRODUCTS, *_STREAMS) and not all(map(self._holds, tensors)):
            raise RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu!")
        if name in _PRODUCTS:
            return self._product(name, args, given)
        if name in _ARITHMETIC and tensors[0].dtype == torch.float8_e4m3fn:
            raise NotImplementedError(f"\"{name}\" of CUDA is not implemented for 'Float8_e4m3fn'")
        # without values PyTorch works out a clamp's shape in Python, a hundred times slower than everything else here
        skipped = name == "clamp_min" and self._backing == "meta"
        result = given["out"] if skipped else func(*args, **given)
        if isinstance(result, torch.Tensor) and not self._holds(result):
            self._hold(result)
            tensors.append(result)
        if name in _STREAMS:
            flops = float(result.numel()) if name == "clamp_min" else 0.0
            self._launch(name, _NAMES.get(result.dtype, str(result.dtype)), flops, _bytes(tensors))
        return result

    def _make(self, func: Any, args: Sequence[Any], given: dict[str, Any]) -> torch.Tensor:
        shaped: torch.Tensor = func(*args, **{**given, "device": "meta"})
        self._require_room(shaped.untyped_storage().nbytes())
        made = shaped if self._backing == "meta" else func(*args, **{**given, "device": self._backing})
        self._hold(made)
        return made

    def _product(self, name: str, args: Sequence[Any], given: Mapping[str, Any]) -> torch.Tensor:
        (a, b), out = args[:2], given["out"]
        {"mm": _check_mm, "_int_mm": _check_int_mm, "_scaled_mm": self._check_scaled_mm}[name](a, b, out, given)
        precision = _NAMES[a.dtype]
        if precision == "fp32" and torch.get_float32_matmul_precision() != "highest" and self.capability >= (8, 0):
            precision = "tf32"
        if self._backing != "meta":
            factors = [_rounded(each) if precision == "tf32" else each for each in (a, b)]
            product = factors[0].double() @ factors[1].double()
            for scale in args[2:4]:
                product = product * scale.double()
            out.copy_(product)
        self._launch(name, precision, 2.0 * a.shape[0] * a.shape[1] * b.shape[1], _bytes((a, b, out)))
        result: torch.Tensor = out
        return result

    def _check_scaled_mm(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, given: Mapping[str, Any]) -> None:
        if self.capability < (8, 9):
            raise RuntimeError("torch._scaled_mm is only supported on CUDA devices with compute capability >= 8.9")
        if {a.dtype, b.dtype} != {torch.float8_e4m3fn}:
            raise RuntimeError(f"Expected Float8 matrices, got {a.dtype} and {b.dtype}")
        if a.stride(1) != 1 or b.stride(0) != 1:
            raise RuntimeError("Only multiplication of row-major and column-major matrices is supported by cuBLASLt")
        if a.shape[1] % 16 or b.shape[1] % 16:
            raise RuntimeError(f"Expected trailing dimensions to be divisible by 16: {a.shape}, {b.shape}")
        if given.get("out_dtype") != out.dtype:
            raise RuntimeError("out_dtype must match output matrix type")

    def _launch(self, name: str, precision: str, flops: float, bytes_moved: float) -> None:
        rate = self.roofs.flops_per_s[precision] if name in _PRODUCTS else float("inf")
        seconds = max(flops / rate, bytes_moved / self.roofs.bytes_per_s)
        start_ns = max(self.clock.now_ns(), self._free_ns)
        if self.launches:
            self._before_j.append(self._before_j[-1] + self._dynamic_j(self.launches[-1]))
        self.launches.append(Launch(name, precision, flops, bytes_moved, start_ns, start_ns + round(seconds * 1e9)))

    def _holds(self, tensor: torch.Tensor) -> bool:
        known = self._storages.get(tensor.untyped_storage()._cdata)
        return known is not None and not known[0].expired()

    def _hold(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self._require_room(storage.nbytes())
        self._storages[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.most_bytes = max(self.most_bytes, self.held_bytes)

    def _require_room(self, more_bytes: int) -> None:
        if self.held_bytes + more_bytes > self.memory_bytes:
            raise torch.cuda.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {more_bytes / 2**30:.2f} GiB. GPU 0 is a fake of"
                f" {self.memory_bytes / 2**30:.2f} GiB."
            )


def _check_mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, given: Mapping[str, Any]) -> None:
    if not {a.dtype, b.dtype, out.dtype} <= {torch.float32, torch.float16, torch.bfloat16}:
        raise NotImplementedError(f"\"addmm_cuda\" not implemented for '{a.dtype}'")
    if a.dtype != b.dtype or a.dtype != out.dtype:
        raise RuntimeError(f"expected mat1 and mat2 to have the same dtype, but got: {a.dtype} != {b.dtype}")


def _check_int_mm(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, given: Mapping[str, Any]) -> None:
    if a.shape[0] <= 16:
        raise RuntimeError(f"self.size(0) needs to be greater than 16, but got {a.shape[0]}")
    for name, size in (("self.size(1)", a.shape[1]), ("mat2.size(1)", b.shape[1])):
        if size % 8:
            raise RuntimeError(f"{name} needs to be greater than 0 and a multiple of 8, but got {size}")
    if (a.dtype, b.dtype, out.dtype) != (torch.int8, torch.int8, torch.int32):
        raise RuntimeError(f"Expected result dtype to be of type kInt but got {out.dtype}")


def _rounded(tensor: torch.Tensor) -> torch.Tensor:
    half = 1 << (_TF32_BITS_DROPPED - 1)
    return ((tensor.view(torch.int32) + half) & -(1 << _TF32_BITS_DROPPED)).view(torch.float32)


def _bytes(tensors: Iterable[torch.Tensor]) -> float:
    return float(sum(each.numel() * each.element_size() for each in {id(each): each for each in tensors}.values()))
