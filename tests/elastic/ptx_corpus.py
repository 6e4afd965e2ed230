"""PTX of the kernels of the corpus and of the benchmark, compiled by NVRTC, and of Triton's kernels, with launches."""

from functools import cache
from pathlib import Path

import kernel_corpus
from mdtb_resources import KERNELS

from edgetune.stages.elastic import front
from edgetune.stages.elastic.compiler import CompileOptions
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.mdtb.builder import kernel_source
from edgetune.stages.elastic.ptx.transform import transform_ptx
from edgetune.stages.elastic.sample_launches import SampleLaunch, sample_launches_in

FOLDER = Path(__file__).with_name("ptx")
TRITON = tuple(sorted(path.stem for path in FOLDER.glob("*.ptx")))
NAMES = kernel_corpus.NAMES
BENCHMARK = tuple(f"mdtb/{each}" for each in KERNELS)


def source(name: str) -> str:
    return kernel_source(name.removeprefix("mdtb/")) if name.startswith("mdtb/") else kernel_corpus.source(name)


def compiled(text: str) -> str:
    """Return PTX of CUDA C without contraction, as it is compiled to compare forms bit by bit."""
    options = CompileOptions(fmad=False, include=(str(kernel_corpus.FOLDER),))
    return front.compiled(text, "k.cu", "sm_87", options=options)


@cache
def text(name: str) -> str:
    """Return PTX as NVRTC writes it without contraction, or as Triton wrote it."""
    return (FOLDER / f"{name}.ptx").read_text() if name in TRITON else compiled(source(name))


@cache
def transformed(name: str) -> TransformResult:
    return transform_ptx(text(name), f"{name}.ptx", persistent=True)


def made(cuda: str, **more: bool) -> TransformResult:
    """Return CUDA C with its forms."""
    return transform_ptx(compiled(cuda), "k.ptx", **more)


def trials(name: str) -> tuple[SampleLaunch, ...]:
    """Return the launches of a file."""
    return sample_launches_in(text(name) if name in TRITON else source(name), name)
