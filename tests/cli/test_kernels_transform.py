"""``edgetune schedule kernels transform`` and ``shrink``: what is written, checked, also on a fake GPU, and refused."""

import json
import sys
from functools import partial

import pytest
from command_line import assert_two_lines

from edgetune.stages.elastic.cuda import context
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workflows.kernels import check
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel
from fakes.cuda_state import ticking

GOOD = """// launch scale grid=3 block=64 x=float32[256] n=int32:150
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
"""
BAD = "__global__ void lock(int *m) {\n    while (atomicCAS(m, 0, 1));\n}\n"


@pytest.fixture
def source(tmp_path, monkeypatch):

    def write(text: str) -> str:
        file = tmp_path / "k.cu"
        file.write_text(text)
        return str(file)

    return write


def test_answers_for_machines(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "--json")
    told = json.loads(ended.out)
    assert [each["name"] for each in told["kernels"]] == ["scale", "lock"]
    assert told["kernels"][0]["variants"][0] == {"symbol": "scale__grid", "level": "grid", "per_thread": 1}
    assert told["kernels"][1]["refusals"][0]["code"] == "spin-wait"
    assert {each["level"] for each in told["kernels"][0]["variants"]} == {"grid", "block"}


SPOILED = """__device__ int asm_of(int v) { int r; asm("suq.width.b32 %0, [%1];" : "=r"(r) : "l"(0ull)); return r + v; }
__global__ void spoiler(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] = asm_of(a[0]); }
__global__ void one(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__global__ void two(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 2; }
"""


@pytest.mark.parametrize("given", [("spoiler", "one", "two")])
def test_the_others_are_checked_and_the_reason_is_told(edgetune, tmp_path, given):
    file = tmp_path / "spoiled.cu"
    file.write_text(SPOILED)
    launches = [word for name in given for word in ("--launch", f"{name} grid=2 block=32 a=int32[64]")]
    ended = edgetune("schedule", "kernels", "transform", str(file), "--check", "--json", *launches)
    assert ended.code == 5
    rows = {each["name"]: each["check"] for each in json.loads(ended.out)["kernels"]}
    assert [rows[name]["answer"] for name in ("spoiler", "one", "two")] == ["not tried", "equal", "equal"]
    assert "suq.width.b32" in rows["spoiler"]["why"]


# PTX

KERNEL = """.version 8.0
.target sm_87
.address_size 64
.visible .entry scale(.param .u64 scale_param_0, .param .u32 scale_param_1)
{
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [scale_param_0]; ld.param.u32 %r1, [scale_param_1];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1; @%p1 ret;
  mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2;
  ld.global.f32 %f1, [%rd3]; add.rn.f32 %f2, %f1, %f1; st.global.f32 [%rd3], %f2;
  ret;
}
"""
LAUNCH = "scale grid=3 block=64 x=float32[256] n=int32:150"
PTX_GOOD = f"// launch {LAUNCH}\n{KERNEL}"
COMMAND = ("schedule", "kernels", "transform")


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "k.ptx") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_the_forms_go_to_standard_output(edgetune, file):
    ended = edgetune(*COMMAND, file(PTX_GOOD))
    assert ended.code == 0
    assert ".visible .entry scale__grid(.param .u64 scale_param_0, .param .u32 scale_param_1," in ended.out
    assert ended.err == ""


def test_forms_are_compared_with_the_original_without_a_compiler(edgetune, file, monkeypatch):
    monkeypatch.setenv("PATH", "")
    ended = edgetune(*COMMAND, file(PTX_GOOD), "--check", "--json")
    assert ended.code == 0, ended.err
    check = json.loads(ended.out)["kernels"][0]["check"]
    assert (check["answer"], check["launch"]) == ("equal", "given")
    assert check["sequences"] > 20


SOURCE = """// launch scale<float, 2> grid=3 block=64 x=float32[256] n=int32:150
template <typename T, int N> __global__ void scale(T *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= N;
}
"""


def test_cuda_is_compiled_to_ptx_first(edgetune, file, tmp_path):
    pytest.importorskip("cuda.bindings")
    out = tmp_path / "out.ptx"
    words = ("--arch", "sm_87", "--persistent", "--instantiate", "scale<int, 3>", "-o", str(out))
    ended = edgetune(*COMMAND, file(SOURCE, "k.cu"), *words, "--check", "--json", "--launch",
                     "scale<int, 3> grid=2 block=32 x=int32[64] n=int32:50")  # fmt: skip
    assert ended.code == 0, ended.err
    kernels = {each["name"]: each for each in json.loads(ended.out)["kernels"]}
    assert {name: (each["line"], each["check"]["answer"]) for name, each in kernels.items()} == {
        "scale_float_2": (2, "equal"), "scale_int_3": (2, "equal")
    }  # fmt: skip
    for form in ("__grid", "__block2", "__block4", "__block8", "__persistent"):
        assert f".entry scale_int_3{form}(" in out.read_text()
    assert_two_lines(edgetune(*COMMAND, file("__global__ void k() { x; }", "k.cu")), 2)
    assert_two_lines(edgetune(*COMMAND, file(SOURCE, "k.cu"), "--arch", "sm_1"), 2)


def test_ptx_is_read_from_standard_input(edgetune, monkeypatch, tmp_path):
    (tmp_path / "in").write_text(PTX_GOOD)
    with open(tmp_path / "in", encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        ended = edgetune(*COMMAND, "-")
    assert ended.code == 0, ended.err
    assert "scale__grid(" in ended.out


# A check on a fake of CUDA's driver and without any

SCALE = """// launch scale grid=3 block=64 x=float32[256] n=int32:150
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
"""
SHIFT = """// launch shift grid=2 block=32 y=int32[64]
__global__ void shift(int *y) { y[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
"""
RACY = """// launch last grid=3 block=32 x=int32[1]:zero
__global__ void last(int *x) { x[0] = blockIdx.x * 32 + threadIdx.x; }
"""


def touch(memory, launch):
    memory.view(int.from_bytes(launch.arguments[0], "little"), "uint8", 1)[0] = 7


TOUCHING = {
    symbol: FakeCudaKernel(sizes if symbol == name else (*sizes, 32), 1000, touch)
    for name, sizes in (("scale", (8, 4)), ("shift", (8,)), ("last", (8,)))
    for symbol in (name, f"{name}__grid", *(f"{name}__block{each}" for each in (2, 4, 8)))
}
FILES = ("schedule", "kernels", "transform")
CHECK = ("--check", "--device", "nvidia:0", "--quiet")


@pytest.fixture
def fake(monkeypatch):
    """Put a fake GPU into the machine, on which kernels write one byte unless it is said what."""
    load, opened = check.load_driver, context.open_context

    def put(kernels: dict[str, FakeCudaKernel] | None = None, *, gpus: int = 1, **more) -> FakeCuda:
        clock = FakeClock()
        kernels = TOUCHING | (kernels or {})
        cuda = FakeCuda([FakeCudaGpu()] * gpus, clock, **{"kernels": kernels, "version": 13000, **more})
        monkeypatch.setattr(check, "load_driver", lambda without: load(cuda, without))
        on_its_clock = partial(opened, now_ns=ticking(clock, 1000), sleep_s=clock.sleep_s)
        monkeypatch.setattr(context, "open_context", on_its_clock)
        return cuda

    return put


def told(ended) -> dict[str, dict]:
    return {each["name"]: each for each in json.loads(ended.out)["kernels"]}


def test_kernels_are_checked_on_the_cpu_and_on_the_gpu_and_both_are_distinguished(edgetune, source, fake):
    cuda = fake()
    file = source(SCALE + SHIFT)
    ended = edgetune(*FILES, file, *CHECK)
    assert ended.code == 0, ended.err
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[0][:2] == ["where", "kernel"]
    assert [line[:2] for line in lines if line[-1] == "given"] == [
        ["CPU", "scale"], ["nvidia:0", "scale"], ["CPU", "shift"], ["nvidia:0", "shift"],
    ]  # fmt: skip
    assert {each.symbol for each in cuda.launches} >= {"scale", "scale__grid", "shift__grid"}
    assert cuda.leaked() == []
    ended = edgetune(*FILES, file, *CHECK, "--json")
    check, on_gpu = (told(ended)["scale"][name] for name in ("check", "check_on_gpu"))
    assert (check["answer"], on_gpu["answer"]) == ("equal", "equal")
    assert (on_gpu["device"], on_gpu["gpu"]) == ("nvidia:0", "Fake CUDA GPU (not hardware)")
    assert check["sequences"] != on_gpu["sequences"]


def test_a_race_that_the_gpu_hides_is_shown_by_the_cpu(edgetune, source, fake):
    fake()
    ended = edgetune(*FILES, source(RACY), *CHECK, "--json")
    assert ended.code == 5
    assert told(ended)["last"]["check"]["answer"] == "racy"
    assert told(ended)["last"]["check_on_gpu"]["answer"] == "equal"


def test_a_kernel_that_does_not_end_on_the_cpu_is_not_run_on_the_gpu(edgetune, source, fake):
    cuda = fake()
    text = SCALE.replace("x[i] *= 2.0f;", "x[i * 100000] *= 2.0f;")
    ended = edgetune(*FILES, source(text + SHIFT), *CHECK, "--json")
    assert ended.code == 5
    assert told(ended)["scale"]["check"]["answer"] == "fails"
    assert "not run to its end on the CPU" in told(ended)["scale"]["check_on_gpu"]["why"]
    assert told(ended)["shift"]["check_on_gpu"]["answer"] == "equal"
    assert not any("scale" in each.symbol for each in cuda.launches)


def test_no_cuda_is_reported_in_two_lines(edgetune, source, fake, monkeypatch):
    file = source(SCALE)
    fake(fails_with=None)
    ended = edgetune(*FILES, file, *CHECK)
    assert_two_lines(ended, 4)
    fake(gpus=0)
    ended = edgetune(*FILES, file, *CHECK)
    fake()
    ended = edgetune(*FILES, file, "--check", "-d", "nvidia:3", "--quiet")
    assert_two_lines(ended, 4)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    ended = edgetune(*FILES, file, *CHECK)
    assert_two_lines(ended, 4)


# Forms worth keeping

KERNELS = """
extern "C" __global__ void blur(const float *in, float *out, int n)
{
    __shared__ float line[512];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    line[threadIdx.x] = i < n ? in[i] : 0.0f;
    __syncthreads();
    if (i < n) {
        out[i] = 0.5f * (line[threadIdx.x] + line[threadIdx.x ^ 1]);
    }
}
"""
SHRINK_SCALE = """
__global__ void scale(float *data, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        data[i] *= by;
    }
}
"""
SHRINK = ("schedule", "kernels", "shrink")
SHRINK_LAUNCH = ("--grid", "196", "--block", "512")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blur.cu").write_text(KERNELS)
    (tmp_path / "both.cu").write_text(KERNELS + SHRINK_SCALE)


def test_machines_get_everything(edgetune, tmp_path):
    ended = edgetune(*SHRINK, "both.cu", "-k", "scale", *SHRINK_LAUNCH, "--gpu", "rtx-2060", "--json", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert (told["kernel"], told["gpu"], told["arch"], told["designs"]) == ("scale", "rtx-2060", "sm_75", 12)
    assert [(each["symbol"], each["verdict"]) for each in told["forms"][:2]] == [
        ("scale", "original"), ("scale__grid", "kept"),
    ]  # fmt: skip
    assert {row["status"] for row in told["rows"]} <= {"kept", "dropped"}
    best = [row for row in told["rows"] if row.get("rank") == 0 and row["critical_blocks"] == 3]
    assert all(row["blocks"] <= 30 - 3 and row["symbol"].startswith("scale__") for row in best)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("both.cu", *SHRINK_LAUNCH), 2),
        (("blur.cu", "-k", "blurr", *SHRINK_LAUNCH), 2),
        (("blur.cu", "--grid", "9", "--block", "1025"), 2),
        (("blur.cu", *SHRINK_LAUNCH, "--shared", "64MiB"), 2),
        (("blur.cu", *SHRINK_LAUNCH, "--shared", "162KiB"), 2),
        (("broken.cu", *SHRINK_LAUNCH), 2),
    ],
)
def test_kernels_that_cannot_be_shrunk_are_refused_in_two_lines(edgetune, tmp_path, words, code):
    (tmp_path / "broken.cu").write_text('\n\nextern "C" __global__ void k(float *a)\n{ a[threadIdx.x] = nobody; }\n')
    (tmp_path / "sync.cu").write_text("__global__ void both(int *a)\n{\n    while (atomicCAS(a, 0, 1));\n}\n")
    assert_two_lines(edgetune(*SHRINK, *words), code)


def test_without_nvrtc_it_says_what_to_install(edgetune, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    ended = edgetune(*SHRINK, "blur.cu", *SHRINK_LAUNCH)
    assert_two_lines(ended, 4)
