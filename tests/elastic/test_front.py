"""From CUDA C to PTX with forms, and what forms do beside computing: quotas, records of blocks, needs on a GPU.

The C++ program of the manual loads an elastic form and launches it in pieces: with a stand-in of the driver.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ptx_corpus import transformed, trials

from edgetune import manual
from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic import front
from edgetune.stages.elastic.cpu_equivalence import Matrix, check
from edgetune.stages.elastic.cuda.blocks import with_block_records
from edgetune.stages.elastic.front import check_version, resources_of, transform
from edgetune.stages.elastic.gpu import Pointer, Scalar
from edgetune.stages.elastic.kernel import CONTROL, NO_QUOTA, packed
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import FORWARD, CpuLaunch, chance, sample_launches_in

SOURCE = """
// launch scale<float, 3> grid=3 block=64 a=float32[192] n=int32:180
template <typename T, int N> __global__ void scale(T *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] *= N;
}
// launch early grid=3 block=64 a=int32[192] n=int32:150
__global__ void early(int *a, int n) {
    __shared__ int held[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    held[threadIdx.x] = a[i];
    __syncthreads();
    if (i < 128) a[i] = held[63 - threadIdx.x];
}
__global__ void waits(volatile int *a) {
    while (a[0] == 0) ;
}
"""
HOST = "int main() { float *p; cudaMalloc(&p, 4); scale<float, 3><<<1, 1>>>(p, 1); }\n"


def test_cuda_is_compiled_and_its_kernels_keep_their_names_and_lines() -> None:
    done = transform(SOURCE, "k.cu", "sm_87", instances=["scale<double, 2>"], persistent=True)
    assert {each.kernel.name: each.kernel.line for each in done.kernels} == {
        "early": 8, "waits": 16, "scale_float_3": 3, "scale_double_2": 3
    }  # fmt: skip
    refused = [(one.kernel, one.code, one.line, one.file) for each in done.kernels for one in each.refusals]
    assert refused == [("waits", "spin-wait", 17, None)]
    verdicts = check(done, sample_launches_in(SOURCE, "k.cu"), matrix=Matrix(schedules=(chance(1),), most=2))
    assert {each.kernel: (each.answer, each.forms) for each in verdicts} == {
        "early": ("equal", 5), "scale_float_3": ("equal", 5)
    }  # fmt: skip


def test_a_line_of_a_header_is_named_with_it(tmp_path: Path) -> None:
    (tmp_path / "wait.h").write_text("\n__device__ void wait(volatile int *a) { while (*a == 0) ; }\n")
    text = '#include "wait.h"\n__global__ void k(volatile int *a) { wait(a); a[1] = 2; }\n'
    options = front.CompileOptions(include=(str(tmp_path),))
    (kernel,) = transform(text, "k.cu", "sm_87", options=options).kernels
    (refused,) = kernel.refusals
    assert (refused.line, Path(refused.file or "").name, kernel.kernel.line) == (2, "wait.h", 2)


def test_host_code_needs_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "_nvcc", lambda: None)
    with pytest.raises(InputError, match=r"^k\.cu, line \d+: ") as found:
        transform(SOURCE + HOST, "k.cu", "sm_87")
    assert "pip install nvidia-cuda-nvcc" in found.value.hint
    with pytest.raises(InputError, match=r"k\.cu, line 1: expected"):
        transform("__global__ void k() { 3 + }", "k.cu", "sm_87")


@pytest.mark.skipif(front._nvcc() is None, reason="no nvcc")
def test_host_code_is_compiled_by_nvcc() -> None:
    source = f"#include <vector>\n{SOURCE}{HOST}"
    done = transform(source, "k.cu", "sm_87", instances=["scale<double, 2>"])
    made = {each.kernel.name for each in done.kernels if each.variants}
    assert made == {"early", *(("scale_float_3", "scale_double_2") if shutil.which("c++filt") else ())}
    assert [(one.line, one.file) for each in done.kernels for one in each.refusals] == [(18, None)]
    with pytest.raises(InputError, match=r"k\.cu, line \d+: .*undefined"):
        transform(SOURCE + HOST + "int other() { return missing; }", "k.cu", "sm_87")


def test_nvcc_is_looked_for_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {name: tmp_path / name / "bin/nvcc" for name in ("home", "toolkit", "cu13")}
    for each in places.values():
        each.parent.mkdir(parents=True)
        each.write_text("")
        each.chmod(0o755)
    monkeypatch.setattr(front, "_TOOLKIT", tmp_path / "toolkit")
    monkeypatch.setattr(front.shutil, "which", lambda _: None)
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(front.importlib.util, "find_spec", lambda _: spec)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    for name in ("home", "toolkit", "cu13"):
        assert front._nvcc() == str(places[name])
        places[name].unlink()
    assert front._nvcc() is None


@pytest.mark.parametrize(
    ("ptx", "cuda", "reads"),
    [("8.5", "12.6", ""), ("8.6", "12.6", "8.5"), ("9.0", "12.9", "8.8"), ("9.5", "13.5", ""), ("9.5", "13.0", "9.0"),
     ("7.8", "11.8", ""), ("8.0", "11.8", "7.8")],
)  # fmt: skip
def test_ptx_that_is_newer_than_the_driver_is_refused(ptx: str, cuda: str, reads: str) -> None:
    text = f"/* a mark */ // a comment\n.version {ptx}\n.target sm_87\n"
    if not reads:
        check_version(text, cuda, "k.ptx")
        return
    with pytest.raises(InputError, match=f"k.ptx is PTX {ptx}, and the driver, of CUDA {cuda}, reads {reads}"):
        check_version(text, cuda, "k.ptx")


REPORT = """
ptxas info    : Compiling entry function 'k' for 'sm_87'
ptxas info    : Function properties for k
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 0 bytes cmem[0]
"""


class FakeJitLink:
    """Takes the place of the module ``cuda.bindings.nvjitlink``."""

    InputType = SimpleNamespace(PTX="ptx")

    class nvJitLinkError(Exception):
        """As the module has it."""

    def __init__(self, info: str, error: str) -> None:
        self.error, self.open = error, 0
        for kind, log in {"info": info.encode() + b"\0", "error": error.encode()}.items():
            setattr(self, f"get_{kind}_log_size", lambda _, log=log: len(log))
            setattr(self, f"get_{kind}_log", lambda _, buffer, log=log: buffer.__setitem__(slice(None), log))

    def version(self) -> tuple[int, int]:
        return 13, 0

    def create(self, count: int, words: list[str]) -> int:
        assert (count, words) == (2, ["-arch=sm_87", "-verbose"])
        self.open += 1
        return 1

    def add_data(self, linker: int, kind: str, data: bytes, size: int, name: str) -> None:
        assert (linker, kind, size, name) == (1, "ptx", len(data), "kernel.ptx")

    def complete(self, _: int) -> None:
        if self.error:
            raise self.nvJitLinkError

    def destroy(self, _: int) -> None:
        self.open -= 1


@pytest.mark.parametrize("error", ["", "ERROR: line 3; error : Unknown symbol"])
def test_needs_are_as_nvjitlink_reports_them(error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bindings = pytest.importorskip("cuda.bindings")
    linker = FakeJitLink(REPORT, error)
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvjitlink", linker)
    monkeypatch.setattr(bindings, "nvjitlink", linker, raising=False)
    if error:
        with pytest.raises(InputError, match=r"k\.ptx does not assemble for sm_87: ERROR: line 3"):
            resources_of("", "sm_87", "k.ptx")
    else:
        assert {name: each.registers_per_thread for name, each in resources_of("", "sm_87", "k.ptx").items()} == {
            "k": 10
        }
    assert linker.open == 0


def test_without_nvjitlink_the_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(DeviceError) as found:
        resources_of("", "sm_87", "k.ptx")
    assert found.value.hint == "pip install 'edgetune[cuda]'"


def test_nvjitlink_reports_what_each_form_needs() -> None:
    done = transformed("early_return")
    found = resources_of(done.source, "sm_87", "k.ptx")
    forms = {each.symbol for kernel in done.kernels for each in kernel.variants}
    assert set(found) == forms | {kernel.kernel.name for kernel in done.kernels}
    assert all(each.spill_bytes == each.stack_bytes == 0 for each in found.values())
    with pytest.raises(InputError, match=r"k\.ptx does not assemble for sm_75: ptxas fatal"):
        resources_of(done.source, "sm_75", "k.ptx")
    with pytest.raises(InputError, match=r"NVRTC 1\d\.\d+ does not compile for sm_1$"):
        resources_of(done.source, "sm_1", "k.ptx")


def test_each_physical_block_notes_where_and_when_it_ran() -> None:
    """The original and its forms; the multiprocessor is that of the block's number here, the time a count."""
    done, (trial,) = transformed("matmul_naive"), trials("matmul_naive")[:1]
    kernel = next(each for each in done.kernels if each.kernel.name == trial.call.kernel)
    written = with_block_records(done.source, "k.ptx")
    written = written.replace("%smid", "%ctaid.y").replace(
        "mov.u64 %edgetune_time, %globaltimer", "mov.u64 %edgetune_time, 7"
    )
    program, (x, y, z) = PtxProgram(written, "k.ptx"), trial.call.logical.grid
    launch = Scalar(packed(trial.call.logical.grid, trial.call.logical.block, 0, x * y * z))
    runs = {kernel.kernel.name: (trial.call.logical.grid, trial.call.logical.block, ())}
    for variant in kernel.variants:
        threads = trial.call.logical.threads // (variant.per_thread or 1)
        block = (threads, 1, 1) if variant.level == "block" else trial.call.logical.block
        control = (Pointer(CONTROL),) if variant.level == "persistent" else ()
        runs[variant.symbol] = ((2, 1, 1), block, (launch, *control))
    for symbol, (grid, block, more) in runs.items():
        for records in (Pointer("records"), Scalar(bytes(8))):
            asked = CpuLaunch(symbol, grid, block, (*trial.call.arguments, *more, records))
            buffers = {**trial.buffers, "records": np.zeros((x * y, 3), np.uint64),
                       CONTROL: np.array([0, 0, NO_QUOTA], np.uint32)}  # fmt: skip
            found = next(program.run_all([([asked], FORWARD)], buffers))
            assert found.status == "ok", found.message
            rows = [(number // grid[0], 7, 7) for number in range(grid[0] * grid[1])]
            rows = [*rows, *[(0, 0, 0)] * (x * y - len(rows))]
            noted = rows if isinstance(records, Pointer) else [(0, 0, 0)] * (x * y)
            assert found.buffers["records"].tolist() == list(map(list, noted)), symbol


def test_a_kernel_without_parameters_takes_the_address_of_records() -> None:
    head = ".version 8.0\n.target sm_87\n.address_size 64\n"
    written = with_block_records(f"{head}.entry k\n{{\n.reg .pred p;\n@!p ret;\nret;\n}}\n", "k.ptx")
    assert ".entry k(\n\t.param .u64 edgetune_records\n)" in written
    assert "@!p bra $edgetune_leave;" in written


EXAMPLE = Path(__file__).parents[2] / "examples" / "tiled.cu"
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


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_program_of_the_manual_launches_a_form_in_pieces(tmp_path: Path) -> None:
    done = transform(EXAMPLE.read_text(), EXAMPLE.name, "sm_87")
    (tmp_path / "tiled_elastic.ptx").write_text(done.source)
    (tmp_path / "cuda.h").write_text(f"#include <cstdio>{DRIVER}")
    program = re.search(r"^```cpp\n(.*?)^```$", manual.page("kernels"), re.MULTILINE | re.DOTALL)
    assert program is not None
    (tmp_path / "load.cpp").write_text(program[1])
    words = ["g++", "-std=c++11", "-Wall", "-Werror", "-I.", "-o", "load", "load.cpp"]
    subprocess.run(words, cwd=tmp_path, check=True)
    ran = subprocess.run(["./load"], cwd=tmp_path, capture_output=True, text=True, check=True)
    pieces = [f"2 blocks of 256 threads from {first} on" for first in (0, 2, 4)]
    assert ran.stdout.splitlines() == [*pieces, "6"]
