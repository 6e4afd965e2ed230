"""``edgetune schedule kernels transform`` on PTX: what is written, checked, refused and asked of other options."""

import json
import sys

import pytest
from command_line import assert_two_lines

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
GOOD = f"// launch {LAUNCH}\n{KERNEL}"
SPIN = """.visible .entry lock(.param .u64 lock_param_0)
{
  .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [lock_param_0];
$L: atom.global.cas.b32 %r1, [%rd1], 0, 1; setp.ne.s32 %p1, %r1, 0; @%p1 bra $L;
  ret;
}
"""
COMMAND = ("schedule", "kernels", "transform")


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "k.ptx") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_the_forms_go_to_standard_output(edgetune, file):
    ended = edgetune(*COMMAND, file(GOOD))
    assert ended.code == 0
    assert ".visible .entry scale__grid(.param .u64 scale_param_0, .param .u32 scale_param_1," in ended.out
    assert ended.err == ""


def test_a_file_is_written_and_a_foreign_one_is_kept(edgetune, file, tmp_path):
    out = tmp_path / "out.ptx"
    ended = edgetune(*COMMAND, file(GOOD + SPIN), "-o", str(out))
    assert ended.code == 0
    assert edgetune(*COMMAND, file(GOOD), "-o", str(out)).code == 0, "its own files it replaces"
    foreign = file(KERNEL, "other.ptx")
    assert_two_lines(edgetune(*COMMAND, file(GOOD), "-o", foreign), 2)
    ended = edgetune(*COMMAND, file(GOOD), "-o", str(tmp_path / "out.cu"))
    assert_two_lines(ended, 2)


def test_forms_are_compared_with_the_original_without_a_compiler(edgetune, file, monkeypatch):
    monkeypatch.setenv("PATH", "")
    ended = edgetune(*COMMAND, file(GOOD), "--check", "--json")
    assert ended.code == 0, ended.err
    check = json.loads(ended.out)["kernels"][0]["check"]
    assert (check["answer"], check["launch"]) == ("equal", "given")
    assert check["sequences"] > 20


def test_a_launch_is_given_or_guessed(edgetune, file):
    ended = edgetune(*COMMAND, file(KERNEL), "--check", "--explain")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1] == "guessed launch: scale grid=4 block=64 p0=float32[65536] p1=int32:256"
    ended = edgetune(*COMMAND, file(KERNEL), "--launch", LAUNCH)
    assert ended.code == 0, ended.err


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
    (tmp_path / "in").write_text(GOOD)
    with open(tmp_path / "in", encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        ended = edgetune(*COMMAND, "-")
    assert ended.code == 0, ended.err
    assert "scale__grid(" in ended.out
