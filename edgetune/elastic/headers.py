"""Headers that kernels commonly include, for NVRTC, which has none of its own.

    #include <cuda_runtime.h>    an empty header: NVRTC knows its contents without it
    #include <stdint.h>          int32_t and its relatives, which NVRTC does not know
    #include <cuda_fp16.h>       the header of the CUDA toolkit, where one is installed

The texts are the files of ``cuda_headers``. Values of limits: ISO C, for the types of every CUDA platform (int 32 bits,
long 64, IEEE 754 float and double).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

ALWAYS = "edgetune_always.h"
"""What nvcc includes before every source, as far as kernels see it: sources rely on it."""
_WRITTEN = ("stdint.h", "limits.h", "float.h", "math.h", "cmath", "math_constants.h", ALWAYS)
_ALIASES = {
    "cstdint": "stdint.h", "inttypes.h": "stdint.h", "cinttypes": "stdint.h", "climits": "limits.h",
    "cfloat": "float.h",
}  # fmt: skip
_EMPTY = """
    cuda.h cuda_runtime.h cuda_runtime_api.h device_launch_parameters.h device_functions.h device_atomic_functions.h
    math_functions.h vector_types.h vector_functions.h builtin_types.h sm_20_intrinsics.h sm_30_intrinsics.h
    stdio.h cstdio stdlib.h cstdlib string.h cstring stddef.h cstddef assert.h cassert time.h ctime
"""
"""Kernels can use no more of these headers than NVRTC provides without them."""


def _stand_ins() -> dict[str, str]:
    folder = files(__package__).joinpath("cuda_headers")
    texts = dict.fromkeys(_EMPTY.split(), "#pragma once\n")
    texts |= {name: folder.joinpath(name).read_text("utf-8") for name in _WRITTEN}
    return texts | {alias: texts[name] for alias, name in _ALIASES.items()}


STAND_INS: Mapping[str, str] = MappingProxyType(_stand_ins())
"""The text of each header by the name that sources include."""


def toolkit_folder() -> str | None:
    """Return the folder with the headers of the CUDA toolkit; ``None`` where none is installed."""
    try:
        from cuda import pathfinder
    except ImportError:
        return None
    find = getattr(pathfinder, "find_nvidia_header_directory", None)  # of pathfinder 1.2 and later
    folder: str | None = find("cudart") if find else None
    return folder
