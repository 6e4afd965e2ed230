"""Compiles the C++ of this folder to a library of this machine, once in a process."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetune.errors import DeviceError
from edgetune.stages.elastic.shim.build import run_compiler
from edgetune.stages.elastic.shim.run import Folder

HERE = Path(__file__).parent
SOURCES = ("decide.cpp", "launcher.cpp")
FLAGS = (
    "-std=gnu++17",
    "-O2",
    "-g1",
    "-ffp-contract=off",  # a * b + c is rounded twice, as Python does
    "-fno-exceptions",
    "-pthread",
)
INSTEAD = ", or leave out --launcher native"


def compile_native(output: Path, sources: Sequence[Path], flags: Sequence[str] = ("-shared", "-fPIC")) -> Path:
    """Compile C++ to a library, or to a program; return its path.

    Args:
        output: Its path.
        sources: Its files; headers of this folder are found.
        flags: More flags.

    Raises:
        DeviceError: there is no g++, or it fails.
    """
    arguments = [*FLAGS, *flags, f"-I{HERE}", *map(str, sources), "-o", str(output)]
    written = run_compiler(arguments, output.name, needs="the native launcher", otherwise=INSTEAD)
    if written is not None:
        first = next((line for line in written.splitlines() if "error" in line), written.strip().splitlines()[-1])
        raise DeviceError(f"g++ cannot build the native launcher: {first}", f"see whether g++ works{INSTEAD}")
    return output


@functools.cache
def native_library() -> ctypes.CDLL:
    """Return the library of decisions and the launcher, compiled when it is first needed.

    Raises:
        DeviceError: there is no g++, or it fails.
    """
    return load_library(lambda folder: compile_native(folder / "native.so", [HERE / name for name in SOURCES]))


def load_library(build: Callable[[Path], Path]) -> ctypes.CDLL:
    """Build a library in a folder of its own and load it; the folder is removed, what is loaded stays."""
    folder = Folder()
    return ctypes.CDLL(str(build(folder.path)))
