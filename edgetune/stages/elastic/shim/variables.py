"""The variables of a source in device memory, which each run begins with as written, and which are compared behind it.

    __device__ int total;        found in the compiled program, where all are, those inside of functions too
    __constant__ float c[16];    the host fills it before a launch; here it gets numbers, none like its neighbours

Their types are read from the source where they stand there plainly; of others the bytes are compared. What structs of
constant memory are made of is read from the source as the preprocessor leaves it: without macros, #if decided.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune.errors import DeviceError
from edgetune.stages.elastic.sample_launches import Array
from edgetune.stages.elastic.source.layouts import NUMBERS, element_layout
from edgetune.stages.elastic.source.syntax import tree_of
from edgetune.stages.elastic.source.translation_unit import Definition, definitions

Known = Mapping[str, tuple[Definition, ...]]

_SYMBOL = re.compile(
    r"^(?P<name>[^|\n]*?) *\|(?P<address>[0-9a-f]+)\| *[BbDduV] *\| *OBJECT\|(?P<bytes>[0-9a-f]+)\|", re.MULTILINE
)
_OF_THE_RUNTIME = re.compile(
    r"(guard variable for )?(edgetune_shim::|(threadIdx|blockIdx|blockDim|gridDim)$|.*@|completed\.)"
)
_PRINTED = "edgetune_shim::printed"
"""Of the runtime, see program.cpp: what kernels have printed is a result."""
_DECLARED = re.compile(
    r"\b(?P<space>__device__|__constant__|__managed__)\s(?P<type>[\w\s]*?)\b(?P<name>\w+)\s*(?P<array>\[[^;={]*\])?\s*"
    r"(?P<behind>[={;,])"
)
_TYPEDEF = re.compile(r"\btypedef\s+(?P<type>\w[\w ]*?)\s+(?P<name>\w+)\s*;")
_QUALIFIERS = re.compile(r"\b(__\w+__|const|volatile|static|extern|inline|constexpr)\b")
_VECTOR = re.compile(r"(?<=[a-z])[1-4]$")
_LIKELY_SIZES = (1, 17)
"""Integers of constant memory are often sizes or places."""


@dataclass(frozen=True, slots=True)
class DeviceVariable:
    """A variable of a compiled source.

    Args:
        name: With its namespaces, or the function that it stands in.
        address: In the program.
        dtype: Of its elements; bytes where the source does not say it plainly.
        count: Of its elements.
        constant: Whether only the host writes it.
        filled: Its numbers, where the host would fill it; ``None`` where it begins as the source says.
    """

    name: str
    address: int
    dtype: np.dtype[np.generic]
    count: int
    constant: bool = False
    filled: Array | None = None

    @property
    def nbytes(self) -> int:
        """Its size, bytes."""
        return self.count * self.dtype.itemsize


def device_variables(program: Path, source: str, expanded: Callable[[], str]) -> tuple[DeviceVariable, ...]:
    """Return the variables that a program has of its source.

    Args:
        program: As g++ made it.
        source: Without comments.
        expanded: Returns the source with headers, as the preprocessor leaves it.

    Raises:
        DeviceError: there is no ``nm``.
    """
    finder = shutil.which("nm")
    if finder is None:
        raise DeviceError("the CPU shim needs nm, which is not installed", "install it, e.g. `apt install binutils`")
    listed = subprocess.run([finder, "-C", "-f", "sysv", program], capture_output=True, text=True, check=True).stdout
    known = functools.cache(lambda: definitions([(tree_of(expanded().encode("utf-8", "replace")).root_node, "")], {}))
    return tuple(_variables(listed, source, known))


def _variables(listed: str, source: str, known: Callable[[], Known]) -> Iterator[DeviceVariable]:
    declared = {found["name"]: found for found in _DECLARED.finditer(source)}
    named = {found["name"]: found["type"] for found in _TYPEDEF.finditer(source)}
    for found in _SYMBOL.finditer(listed):
        size_bytes = int(found["bytes"], 16)
        if found["name"] == _PRINTED and "printf" in source:
            yield DeviceVariable("printed lines", int(found["address"], 16), np.dtype(np.uint64), size_bytes // 8)
        if _OF_THE_RUNTIME.match(found["name"]):
            continue
        dtype, constant, filled = np.dtype(np.uint8), False, None
        if as_written := declared.get(found["name"].rpartition("::")[2]):
            bare = " ".join(_QUALIFIERS.sub(" ", as_written["type"]).split())
            kind = _VECTOR.sub("", named.get(bare, bare))
            said = np.dtype(NUMBERS.get(kind, np.uint8))
            dtype = said if size_bytes % said.itemsize == 0 else dtype
            constant = as_written["space"] == "__constant__"
            if constant and as_written["behind"] == ";":
                filled = (
                    _numbers(found["name"], dtype, size_bytes // dtype.itemsize)
                    if kind in NUMBERS and kind != "bool"
                    else _structs(found["name"], element_layout(as_written["name"], known()), size_bytes)
                )
        yield DeviceVariable(
            found["name"], int(found["address"], 16), dtype, size_bytes // dtype.itemsize, constant, filled
        )


def _structs(name: str, members: Sequence[str], size_bytes: int) -> Array | None:
    """Return the bytes of an array of structs of numbers, or of bools; ``None`` where it is none."""
    one = np.dtype([(str(place), kind) for place, kind in enumerate(members)])
    if not members or size_bytes % one.itemsize:
        return None
    filled = np.zeros(size_bytes // one.itemsize, one)
    for place, kind in enumerate(members):
        numbers = _numbers(f"{name}.{place}", np.dtype(kind), filled.size)
        filled[str(place)] = numbers % 2 if kind == "uint8" else numbers  # it may be a bool
    return filled.view(np.uint8)


def _numbers(name: str, dtype: np.dtype[np.generic], count: int) -> Array:
    random = np.random.default_rng(zlib.crc32(name.encode()))
    numbers = random.uniform(-1, 1, count) if dtype.kind == "f" else random.integers(*_LIKELY_SIZES, count)
    return numbers.astype(dtype)
