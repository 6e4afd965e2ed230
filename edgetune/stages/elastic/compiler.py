"""Compiles CUDA C to PTX by NVRTC, which needs no GPU.

NVRTC has no headers of its own. Those that kernels commonly include are the files of ``cuda_headers``; the others are
empty, as NVRTC knows their contents, or come from the CUDA toolkit, where one is installed. Values of limits: ISO C,
for the types of every CUDA platform (int 32 bits, long 64, IEEE 754 float and double).
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.stages.elastic.gpu import Gpu

ALWAYS = "edgetune_always.h"
"""What nvcc includes before every source, as far as kernels see it: sources rely on it."""
_LIBRARY = Path(__file__).with_name("cuda_headers") / "library"
"""Folder of headers that need nothing else; those of the CUDA toolkit know more, and need the C++ library of CUDA."""
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


_TEXTS = {name: files(__package__).joinpath("cuda_headers").joinpath(name).read_text("utf-8") for name in _WRITTEN}
STAND_INS: Mapping[str, str] = MappingProxyType({
    **dict.fromkeys(_EMPTY.split(), "#pragma once\n"), **_TEXTS,
    **{alias: _TEXTS[name] for alias, name in _ALIASES.items()},
})  # fmt: skip
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


REMEDY = "pip install 'edgetune[cuda]'"
ERROR = re.compile(r"^(.+?)\((\d+)\): (?:catastrophic |fatal )?error(?: #[\w-]+)?: (.+)$", re.MULTILINE)
"""File, line and words of an error of NVRTC or nvcc."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Compiler options.

    Args:
        fmad: Whether ``a * b + c`` may be rounded once instead of twice. The compiler decides anew in every form of a
            kernel, so that forms are certainly equal bit by bit only without.
        include: Folders of headers, before those of the CUDA toolkit, where one is installed; NVRTC has no headers
            itself, see ``STAND_INS``.
    """

    fmad: bool = True
    include: tuple[str, ...] = ()

    def words(self, arch: str) -> list[str]:
        """Return the options as NVRTC takes them."""
        toolkit = toolkit_folder()
        folders = (*self.include, str(_LIBRARY), *(() if toolkit is None else (toolkit,)))
        return [
            f"--gpu-architecture={arch.replace('sm_', 'compute_')}",
            f"--pre-include={ALWAYS}",
            "--generate-line-info",
            f"--fmad={'true' if self.fmad else 'false'}",
            *(f"--include-path={folder}" for folder in folders),
        ]


DEFAULTS = CompileOptions()


def arch_of(gpu: Gpu) -> str:
    """Return the architecture to compile for, e.g. ``sm_87`` for compute capability 8.7."""
    return f"sm_{gpu.compute_capability.replace('.', '')}"


def ptx_of(
    source: str, arch: str, *, name: str, options: CompileOptions = DEFAULTS, instances: Sequence[str] = ()
) -> tuple[str, dict[str, str]]:
    """Compile CUDA C to PTX that names the line of each instruction.

    Args:
        source: Its text.
        arch: Of the oldest GPU that shall run it, e.g. ``sm_87``.
        name: Of the file, for messages.
        options: Compiler options.
        instances: Of template kernels, e.g. ``scale<float, 16>``.

    Returns:
        The text, and the symbol of each instance.

    Raises:
        InputError: NVRTC does not compile the source, or does not know the architecture.
        DeviceError: NVRTC or cuda-bindings is missing.
    """
    nvrtc, compiler = compiler_for(arch)
    words = [word.encode() for word in options.words(arch)]
    texts, names = [text.encode() for text in STAND_INS.values()], [each.encode() for each in STAND_INS]
    data = source.encode(errors="surrogateescape")
    (program,) = _call(nvrtc.nvrtcCreateProgram, data, os.fsencode(name), len(names), texts, names)
    try:
        for each in instances:
            _call(nvrtc.nvrtcAddNameExpression, program, each.encode())
        (status,) = nvrtc.nvrtcCompileProgram(program, len(words), words)
        if int(status):
            log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
            raise _refusal(log.rstrip(b"\0 \n").decode(errors="surrogateescape"), name, f"{compiler} for {arch}")
        text = _read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0 \n").decode(errors="replace")
        symbols = {each: _call(nvrtc.nvrtcGetLoweredName, program, each.encode())[0].decode() for each in instances}
        return f"{text}\n", symbols
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def compiler_for(arch: str) -> tuple[Any, str]:
    """Return the module that speaks to NVRTC, and its name, for an architecture.

    Raises:
        InputError: NVRTC does not know the architecture.
        DeviceError: NVRTC or cuda-bindings is missing.
    """
    try:
        from cuda.bindings import nvrtc
    except ImportError:
        raise DeviceError("compiling CUDA C needs cuda-bindings, which is not installed", REMEDY) from None
    try:
        compiler = "NVRTC {}.{}".format(*_call(nvrtc.nvrtcVersion))
    except (RuntimeError, OSError):  # it looks for the library when it is first called
        raise DeviceError("compiling CUDA C needs NVRTC, whose library is not found", REMEDY) from None
    (known,) = _call(nvrtc.nvrtcGetSupportedArchs)
    if arch not in {f"sm_{each}" for each in known}:
        raise InputError(
            f"{compiler} does not compile for {arch}",
            f"it knows sm_{', '.join(map(str, known))}; for boards before Orin pip install 'edgetune[cuda12]' instead",
        )
    return nvrtc, compiler


def _call(function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """Return what a function of NVRTC returns besides its status.

    Raises:
        EdgetuneError: the status is not that of success, which no input causes.
    """
    status, *answers = function(*arguments)
    if int(status):
        raise EdgetuneError(f"{function.__name__} failed: {status.name}", "is the installation of NVRTC damaged?")
    return tuple(answers)


def _read(size_of: Callable[..., Any], read: Callable[..., Any], program: Any) -> bytes:
    """Return one of the texts of a program; NVRTC fills a buffer of the size that it names.

    The buffer is one byte longer: Python shares bytes of length one, and NVRTC would write into them.
    """
    (size,) = _call(size_of, program)
    buffer: bytes = b" " * (size + 1)
    _call(read, program, buffer)
    return buffer[:size]


def _refusal(log: str, name: str, compiler: str) -> InputError:
    """Return the first error in a log, with the user's own line number."""
    errors = ERROR.findall(log)
    if not errors:
        first = next((line for line in log.splitlines() if "error" in line), "no reason given")
        return InputError(f"{name} does not compile: {first}", f"by {compiler}")
    file, line, what = errors[0]
    what = what.partition(". ")[0]
    message = f"{file}, line {line}: {what}"
    if "open source file" in what:
        return InputError(message, "NVRTC has few headers of its own: name the header's folder with --include DIR")
    different = {(file, line) for file, line, _ in errors}  # the forms of a kernel repeat its errors
    more = f", the first of {len(different)} lines with errors" if len(different) > 1 else ""
    return InputError(message, f"by {compiler}{more}")
