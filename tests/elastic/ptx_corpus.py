"""PTX of the kernels of the corpus and of the benchmark, compiled by NVRTC, and of Triton's kernels, with launches."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import kernel_corpus

from edgetune.stages.elastic import compiler
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.mdtb.builder import kernel_source
from edgetune.stages.elastic.mdtb.networks import KERNELS
from edgetune.stages.elastic.ptx.transform import transform_ptx
from edgetune.stages.elastic.ptxas_report import symbols_by_name
from edgetune.stages.elastic.sample_launches import SampleLaunch, sample_launches_in

FOLDER = Path(__file__).with_name("ptx")
TRITON = tuple(sorted(path.stem for path in FOLDER.glob("*.ptx")))
NAMES = tuple(each for each in kernel_corpus.NAMES if each not in ("template_reduce", "shared_by_type"))
"""All of the corpus but two files whose templates no host code instantiates."""
BENCHMARK = tuple(f"mdtb/{each}" for each in KERNELS)
INSTANCES = {"range_float_64": "IfLi64E", "range_int_64": "IiLi64E", "members_float": "7membersIf"}
"""Names of instances in the source route, and what their symbols have."""


def source(name: str) -> str:
    return kernel_source(name.removeprefix("mdtb/")) if name.startswith("mdtb/") else kernel_corpus.source(name)


@cache
def text(name: str) -> str:
    """Return PTX as NVRTC writes it without contraction, or as Triton wrote it."""
    if name in TRITON:
        return (FOLDER / f"{name}.ptx").read_text()
    nvrtc = compiler._loaded()
    words = compiler.CompileOptions(fmad=False).words("sm_87")
    with compiler._program(nvrtc, source(name), f"{name}.cu") as program:
        compiler._call(nvrtc.nvrtcCompileProgram, program, len(words), [word.encode() for word in words])
        found = compiler._read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
    return found.rstrip(b"\0 \n").decode()


@cache
def transformed(name: str) -> TransformResult:
    return transform_ptx(text(name), f"{name}.ptx", persistent=True)


def trials(name: str) -> tuple[SampleLaunch, ...]:
    """Return the launches of a file by the symbols of its kernels."""
    if name in TRITON:
        return sample_launches_in(text(name), name)
    found = [each.kernel.name for each in transformed(name).kernels]
    symbols = symbols_by_name(found)

    def symbol(kernel: str) -> str:
        if kernel in INSTANCES:
            return next(each for each in found if re.search(INSTANCES[kernel], each))
        return symbols[kernel]

    asked = sample_launches_in(source(name), name)
    return tuple(replace(each, call=replace(each.call, kernel=symbol(each.call.kernel))) for each in asked)
