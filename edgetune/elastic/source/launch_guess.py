"""A launch to try a kernel with where its author wrote none.

    saxpy(float *y, float *x, float a, int n)  ->  saxpy grid=4 block=64 y=float32[65536] ... a=float32:1 n=int32:16

Sizes are small and memory is large, so that a kernel which is given sizes as numbers stays within it. Whether it does
is seen when it runs: a guess that fails says nothing about the kernel.
"""

from __future__ import annotations

import re

from edgetune.elastic.kernel import CudaKernel, Parameter

_TYPES = {
    "float": "float32", "double": "float64", "int": "int32", "unsigned": "uint32", "unsigned int": "uint32",
    "uint": "uint32", "long long": "int64", "unsigned long long": "uint64", "size_t": "uint64", "int64_t": "int64",
    "uint64_t": "uint64", "int32_t": "int32", "uint32_t": "uint32", "char": "int8", "unsigned char": "uint8",
    "uint8_t": "uint8", "int8_t": "int8", "short": "int16", "unsigned short": "uint16", "long": "int64",
    "unsigned long": "uint64", "bool": "uint8", "uchar": "uint8",
}  # fmt: skip
"""numpy's names of CUDA's types on 64-bit Linux."""

_MOST_NUMBERS = 65536
_SIZE = 16
_SHARED_BYTES = 16384
_LAUNCHES = {1: "grid=4 block=64", 2: "grid=2,2 block=16,16", 3: "grid=2,2,2 block=8,4,4"}
"""By the axes that a kernel asks for; tiles of 16 times 16 are the usual ones."""
_WORDS = re.compile(r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct)\b")


def guessed_launch(kernel: CudaKernel) -> str | None:
    """Return a launch in the words of ``trials``, or ``None`` where a parameter is of no plain type."""
    arguments = [_argument(each) for each in kernel.parameters]
    if any(each is None for each in arguments):
        return None
    shared = f" shared={_SHARED_BYTES}" if kernel.dynamic_shared else ""
    return " ".join(
        [f"{kernel.name} {_LAUNCHES[kernel.axes]}{shared}", *(each for each in arguments if each is not None)]
    )


def _argument(parameter: Parameter) -> str | None:
    bare = " ".join(_WORDS.sub(" ", parameter.type).replace("[", " [").split())
    pointer = bare.endswith(("*", "[ ]", "[]"))
    kind = _TYPES.get(bare.rstrip("*[] ").strip())
    if kind is None or bare.count("*") + bare.count("[") > pointer:
        return None
    if pointer:
        fill = "" if kind.startswith("float") else f":0..{_SIZE}"
        return f"{parameter.name}={kind}[{_MOST_NUMBERS}]{fill}"
    return f"{parameter.name}={kind}:{1 if kind.startswith('float') or kind.endswith('int8') else _SIZE}"
