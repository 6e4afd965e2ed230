"""``edgetune schedule kernels transform`` on the command line."""

import json

import pytest
from command_line import assert_two_lines

GOOD = """// launch scale grid=3 block=64 x=float32[256] n=int32:150
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
"""
BAD = "__global__ void lock(int *m) {\n    while (atomicCAS(m, 0, 1));\n}\n"


@pytest.fixture
def source(tmp_path):
    def write(text: str) -> str:
        file = tmp_path / "k.cu"
        file.write_text(text)
        return str(file)

    return write


def test_the_source_goes_to_standard_output(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD))
    assert ended.code == 0
    assert ".entry scale__grid(" in ended.out
    assert ".entry scale__block8(" in ended.out
    assert ended.err == ""


def test_a_file_is_written_and_the_rest_is_reported(edgetune, source, tmp_path):
    out = tmp_path / "out.ptx"
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "-o", str(out), "--explain")
    assert ended.code == 0
    assert "scale__grid(" in out.read_text(encoding="utf-8")
    assert "scale (line 2)" in ended.out


def test_persistent_forms_are_made_and_checked_on_request(edgetune, source, tmp_path):
    out = tmp_path / "out.ptx"
    words = ("--persistent", "--check", "--explain", "-o", str(out))
    ended = edgetune("schedule", "kernels", "transform", source(GOOD), *words)
    assert ended.code == 0, ended.err
    assert "scale__persistent(" in out.read_text(encoding="utf-8")
    assert "  persistent: scale__persistent" in ended.out
    assert "equal" in ended.out


def test_a_file_with_nothing_to_make_elastic_is_an_error(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(BAD), "--quiet")
    assert_two_lines(ended, 2)
    assert ended.out == ""


@pytest.mark.parametrize("text", ["", "__device__ int x;", "\x00\x00"])
def test_a_file_without_kernels_is_an_error(edgetune, source, text):
    assert_two_lines(edgetune("schedule", "kernels", "transform", source(text)), 2)


def test_bad_arguments(edgetune, source, tmp_path):
    file = source(GOOD)
    assert_two_lines(edgetune("schedule", "kernels", "transform", str(tmp_path / "none.cu")), 2)
    assert_two_lines(edgetune("schedule", "kernels", "transform", file, "-o", file), 2)
    assert_two_lines(edgetune("schedule", "kernels", "transform", file, "--include", str(tmp_path / "none")), 2)
    ended = edgetune("schedule", "kernels", "transform", file, "--launch", "scales grid=1 block=1")
    assert_two_lines(ended, 2)
    assert "k.cu has no kernel scales" in ended.err
    assert_two_lines(edgetune("schedule", "kernels", "transform", file, "--launch", "scale grid=x block=1"), 2)
    for words in ("", "scale", "scale block=32"):
        ended = edgetune("schedule", "kernels", "transform", file, "--launch", words)
        assert_two_lines(ended, 2)


@pytest.mark.parametrize("named", ["scales", "scale<uint8>"])
def test_a_comment_with_the_launch_of_no_kernel_is_an_error(edgetune, source, named):
    file = source(GOOD.replace("launch scale ", f"launch {named} "))
    ended = edgetune("schedule", "kernels", "transform", file, "--check", "--quiet")
    assert_two_lines(ended, 2)


def test_answers_for_machines(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "--json")
    told = json.loads(ended.out)
    assert [each["name"] for each in told["kernels"]] == ["scale", "lock"]
    assert told["kernels"][0]["variants"][0] == {"symbol": "scale__grid", "level": "grid", "per_thread": 1}
    assert told["kernels"][1]["refusals"][0]["code"] == "spin-wait"
    assert {each["level"] for each in told["kernels"][0]["variants"]} == {"grid", "block"}


def test_forms_are_compared_with_the_original(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD), "--check", "--json")
    assert ended.code == 0, ended.err
    check = json.loads(ended.out)["kernels"][0]["check"]
    assert (check["answer"], check["launch"]) == ("equal", "given")
    assert check["sequences"] > 50


def test_a_racy_kernel_is_said_to_be(edgetune, source):
    text = (
        "// launch last grid=3 block=32 x=int32[1]:zero\n"
        "__global__ void last(int *x) { x[0] = blockIdx.x * 32 + threadIdx.x; }\n"
    )
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "--quiet")
    assert_two_lines(ended, 5)
    assert "racy" in ended.lines[0]


STRUCT = """struct Pair { float a, b; };
__global__ void pairs(Pair from, float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += from.a * from.b;
}
"""


@pytest.mark.parametrize(("text", "count"), [(STRUCT, "1 of 1"), (GOOD + STRUCT, "1 of 2")])
def test_a_check_that_did_not_try_a_kernel_is_not_done(edgetune, source, text, count):
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "--quiet")
    assert ended.code == 5
    assert f"error: {count} elastic kernels not checked; pairs: it has no launch" in ended.err
    assert "none can be guessed for its parameters (b8[8], u64[8], u32[4])" in ended.err
    assert "--launch 'pairs grid=4 block=64 p0=... p1=... p2=...'" in ended.lines[-1]
    told = json.loads(edgetune("schedule", "kernels", "transform", source(text), "--check", "--json").out)
    assert told["kernels"][-1]["check"]["answer"] == "not tried"


def test_the_architecture_replaces_the_removed_option(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD), "--ptx", "sm_87")
    assert_two_lines(ended, 2)
    assert "--arch" in ended.err
