"""The C++ program of the manual loads an elastic form and launches it in pieces: with a stand-in of the driver."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from edgetune import manual
from edgetune.stages.elastic.front import transform

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiled.cu"
HEADERS = [Path(home, "include") for home in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda") if home]
DRIVER = r"""
#include <cstdlib>
#include <cstring>
#include <string>
typedef int CUresult, CUdevice;
typedef void *CUcontext, *CUstream, *CUmodule, *CUfunction;
typedef unsigned long long CUdeviceptr;
static std::string text;
static CUresult cuInit(unsigned) { return 0; }
static CUresult cuDeviceGet(CUdevice *, int) { return 0; }
static CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice) { return 0; }
static CUresult cuCtxSetCurrent(CUcontext) { return 0; }
static CUresult cuModuleLoadData(CUmodule *, const void *image) { text = (const char *)image; return text.empty(); }
static CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *name) {
    return text.find(std::string(".entry ") + name + "(") == std::string::npos ? 500 : 0;
}
static CUresult cuMemAlloc(CUdeviceptr *at, std::size_t bytes) { *at = (CUdeviceptr)std::malloc(bytes); return 0; }
static CUresult copied(void *to, const void *from, std::size_t n) { return std::memcpy(to, from, n) != to; }
static CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, std::size_t n) { return copied((void *)to, from, n); }
static CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, std::size_t n) { return copied(to, (void *)from, n); }
static CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned threads, unsigned, unsigned, unsigned,
                               CUstream, void **arguments, void **) {
    const float *x = *(float **)arguments[0], factor = *(float *)arguments[2];
    float *y = *(float **)arguments[1];
    const unsigned *piece = (unsigned *)arguments[4];  // grid, block, first, count
    std::printf("%u blocks of %u threads from %u on\n", piece[7], threads, piece[6]);
    for (unsigned i = piece[6] * threads; i < (piece[6] + piece[7]) * threads && i < *(unsigned *)arguments[3]; ++i)
        y[i] = factor * x[i];
    return 0;
}
"""
"""What the program needs of cuda.h, for one kernel: y = factor * x."""


def built(folder: Path, *words: str) -> None:
    found = re.search(r"^```cpp\n(.*?)^```$", manual.page("kernels"), re.MULTILINE | re.DOTALL)
    assert found is not None
    (folder / "load.cpp").write_text(found[1])
    subprocess.run(["g++", "-std=c++11", "-Wall", "-Werror", *words, "load.cpp"], cwd=folder, check=True)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_program_of_the_manual_launches_a_form_in_pieces(tmp_path: Path) -> None:
    done = transform(EXAMPLE.read_text(), EXAMPLE.name, "sm_87")
    (tmp_path / "tiled_elastic.ptx").write_text(done.source)
    (tmp_path / "cuda.h").write_text(f"#include <cstdio>{DRIVER}")
    built(tmp_path, "-I.", "-o", "load")
    ran = subprocess.run(["./load"], cwd=tmp_path, capture_output=True, text=True, check=True)
    pieces = [f"2 blocks of 256 threads from {first} on" for first in (0, 2, 4)]
    assert ran.stdout.splitlines() == [*pieces, "6"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_program_of_the_manual_compiles_with_the_headers_of_the_toolkit(tmp_path: Path) -> None:
    folder = next((each for each in HEADERS if (each / "cuda.h").exists()), None)
    if folder is None:
        pytest.skip("no cuda.h of a CUDA toolkit: the stand-in has compiled it")
    built(tmp_path, f"-I{folder}", "-fsyntax-only")
