"""``edgetune schedule kernels transform`` on the command line."""

import json
import shutil
import sys

import pytest
from command_line import assert_two_lines

from edgetune.errors import InputError, PartialError
from edgetune.stages.elastic.cpu_equivalence import Verdict
from edgetune.stages.elastic.source import syntax
from edgetune.stages.elastic.source.transform import transform as source_transform
from edgetune.workflows.kernels import transform

GOOD = """// launch scale grid=3 block=64 x=float32[256] n=int32:150
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
"""
BAD = "__global__ void lock(int *m) {\n    while (atomicCAS(m, 0, 1));\n}\n"
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


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
    assert "scale__grid(" in ended.out
    assert "scale__block(" in ended.out
    assert ended.err == ""


def test_a_file_is_written_and_the_rest_is_reported(edgetune, source, tmp_path):
    out = tmp_path / "out.cu"
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "-o", str(out), "--explain")
    assert ended.code == 0
    assert "scale__grid(" in out.read_text()
    assert "scale (line 2)" in ended.out
    assert "left as it is: line 7: spin-wait" in ended.out
    assert "1 of 2 kernels are elastic" in ended.err


@needs_compiler
def test_persistent_forms_are_made_and_checked_on_request(edgetune, source, tmp_path):
    out = tmp_path / "out.cu"
    words = ("--persistent", "--check", "--explain", "-o", str(out))
    ended = edgetune("schedule", "kernels", "transform", source(GOOD), *words)
    assert ended.code == 0, ended.err
    assert "scale__persistent(" in out.read_text()
    assert "  persistent: scale__persistent" in ended.out
    assert "scale       3 " in ended.out
    assert "equal" in ended.out


def test_refusals_are_reported_with_line_and_remedy(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD))
    assert ended.code == 0
    assert "line 7: lock: left as it is: spin-wait" in ended.err
    assert "->" in ended.err
    assert edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "--quiet").err == ""


def test_a_file_with_nothing_to_make_elastic_is_an_error(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(BAD), "--quiet")
    assert_two_lines(ended, 2)
    assert ":2: no kernel can be made elastic" in ended.lines[0]
    assert ended.out == ""


def test_the_one_reason_is_given_once(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(BAD))
    assert_two_lines(ended, 2)
    assert "lock: spin-wait: " in ended.lines[0]


@needs_compiler
def test_a_kernel_of_a_header_is_checked_with_the_launch_beside_it(edgetune, source, tmp_path):
    kernel = "__global__ void scale(float2 *x) { x[blockIdx.x].x *= FACTOR; }\n"
    file = source('#define FACTOR 3\n#include "k.cuh"\n')
    (tmp_path / "k.cuh").write_text(f"// launch scale grid=4 block=1 x=float32[8]\n{kernel}")
    ended = edgetune("schedule", "kernels", "transform", file, "--check")
    assert ended.code == 0
    assert "equal" in ended.out
    assert "given" in ended.out


@pytest.mark.parametrize("text", ["", "int main() {}", "\x00\x00"])
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
    assert "did you mean scale?" in ended.err
    assert_two_lines(edgetune("schedule", "kernels", "transform", file, "--launch", "scale grid=x block=1"), 2)
    for words in ("", "scale", "scale block=32"):
        ended = edgetune("schedule", "kernels", "transform", file, "--launch", words)
        assert_two_lines(ended, 2)
        assert f"--launch {words!r} is no launch" in ended.err


@pytest.mark.parametrize("named", ["scales", "scale<uint8>"])
def test_a_comment_with_the_launch_of_no_kernel_is_an_error(edgetune, source, named):
    file = source(GOOD.replace("launch scale ", f"launch {named} "))
    ended = edgetune("schedule", "kernels", "transform", file, "--check", "--quiet")
    assert_two_lines(ended, 2)
    assert f"{file}:1: {file} has no kernel {named.replace('<', '_').strip('>')}" in ended.lines[0]
    assert "scale" in ended.lines[1]


def test_causes_that_no_launch_helps_are_named_beside_those_that_one_does():
    whys = {"a": InputError("no b.h", "include it"), "b": InputError("no b.h", "include it"), "c": InputError("x", "y")}
    done = source_transform(GOOD, "k.cu")
    tried = transform.CheckResult(untried=whys)
    with pytest.raises(PartialError) as caught:
        transform.judge(transform.Transformed("k.cu", done, tried=(tried,)))
    assert caught.value.message == "3 of 1 elastic kernels not checked; a, b: no b.h; c: x"
    assert caught.value.hint == "include it; or y"


def test_answers_for_machines(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "--json")
    told = json.loads(ended.out)
    assert [each["name"] for each in told["kernels"]] == ["scale", "lock"]
    assert told["kernels"][0]["variants"][0] == {"symbol": "scale__grid", "level": "grid", "per_thread": 1}
    assert told["kernels"][1]["refusals"][0]["code"] == "spin-wait"
    assert told["refusals"] == []


def test_headers_are_looked_for_where_they_may_be(edgetune, source, tmp_path):
    text = '#include "twice.h"\n__global__ void k(float *x) { x[blockIdx.x] = TWICE(x[blockIdx.x]); }\n'
    assert_two_lines(edgetune("schedule", "kernels", "transform", source(text), "--quiet"), 2)
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers" / "twice.h").write_text("#define TWICE(v) (2 * (v))\n")
    found = edgetune("schedule", "kernels", "transform", source(text), "--include", str(tmp_path / "headers"))
    assert found.code == 0


@needs_compiler
def test_forms_are_compared_with_the_original(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD), "--check", "--json")
    assert ended.code == 0, ended.err
    check = json.loads(ended.out)["kernels"][0]["check"]
    assert (check["answer"], check["launch"]) == ("equal", "given")
    assert check["sequences"] > 100


@needs_compiler
def test_a_launch_is_guessed_or_given(edgetune, source):
    plain = GOOD.split("\n", 1)[1]
    ended = edgetune("schedule", "kernels", "transform", source(plain), "--check")
    assert ended.code == 0, ended.err
    assert "guessed" in ended.out
    told = json.loads(edgetune("schedule", "kernels", "transform", source(plain), "--check", "--json").out)
    assert told["kernels"][0]["check"]["guess"] == "scale grid=4 block=64 x=float32[65536] n=int32:256"
    explained = edgetune("schedule", "kernels", "transform", source(plain), "--check", "--explain").out
    assert "guessed launch: scale grid=4 block=64 x=float32[65536] n=int32:256" in explained
    words = "scale grid=2 block=32 x=float32[64] n=int32:40"
    ended = edgetune("schedule", "kernels", "transform", source(plain), "--launch", words)
    assert ended.code == 0, ended.err
    assert "given" in ended.out


@needs_compiler
def test_a_racy_kernel_is_said_to_be(edgetune, source):
    text = (
        "// launch last grid=3 block=32 x=int32[1]:zero\n"
        "__global__ void last(int *x) { x[0] = blockIdx.x * 32 + threadIdx.x; }\n"
    )
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "--quiet")
    assert_two_lines(ended, 5)
    assert "racy" in ended.lines[0]


def test_help_of_the_group(edgetune):
    ended = edgetune("schedule", "kernels")
    assert ended.code == 0
    assert "transform" in ended.out
    assert "simulate" in ended.out


@needs_compiler
def test_a_guessed_launch_that_does_not_suit_says_nothing_of_the_kernel(edgetune, source):
    racy = "__global__ void last(int *y) { y[0] = threadIdx.x; }\n"
    ended = edgetune("schedule", "kernels", "transform", source(racy), "--check", "--json", "--quiet")
    assert json.loads(ended.out)["kernels"][0]["check"]["answer"] == "unclear"
    assert "cannot be checked by a guessed launch" in ended.lines[-2]
    assert "--launch 'last grid=4 block=64 y=int32[65536]:0..16'" in ended.lines[-1]
    assert "racy" not in ended.err
    given = edgetune("schedule", "kernels", "transform", source(racy), "--launch", "last grid=2 block=32 y=int32[4]")
    assert "last is racy by itself" in given.err


@needs_compiler
def test_a_kernel_without_memory_has_no_output_whatever_is_guessed(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source("__global__ void later(int n) {}\n"), "--check")
    assert ended.code == 5
    assert "later cannot be checked: it changes no memory" in ended.err
    assert "no output" in ended.out


NEEDING = GOOD.replace("x[i] *= 2.0f", "x[i] *= (float)__nv_fp8_e4m3(2.0f)")


@needs_compiler
def test_the_file_is_written_where_the_check_is_not_possible(edgetune, source, tmp_path):
    out = tmp_path / "out.cu"
    text = "#include <cuda_fp8.h>\n" + NEEDING
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "-o", str(out))
    assert ended.code == 5
    assert "cuda_fp8.h" in ended.err
    assert "scale__grid(" in out.read_text()


UNGUESSED = """struct Pair { float a; unsigned b : 4; };
__global__ void pairs(Pair *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i].a += x[i].b;
}
"""


@needs_compiler
@pytest.mark.parametrize(("text", "count"), [(UNGUESSED, "1 of 1"), (GOOD + UNGUESSED, "1 of 2")])
def test_a_check_that_did_not_try_a_kernel_is_not_done(edgetune, source, text, count):
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "--quiet")
    assert ended.code == 5
    assert f"error: {count} elastic kernels not checked; pairs: it has no launch" in ended.err
    assert "none can be guessed for parameter x of type Pair *" in ended.err
    assert "--launch 'pairs grid=4 block=64 x=... n=int32:256'" in ended.lines[-1]
    told = json.loads(edgetune("schedule", "kernels", "transform", source(text), "--check", "--json").out)
    assert told["kernels"][-1]["check"]["answer"] == "not tried"


@needs_compiler
@pytest.mark.parametrize(
    ("types", "parameter"),
    [
        ("struct Pair { float a, *b; };", "Pair pair"),
        ("struct Pair { float a, *b; }; struct Both { Pair pair; int n; };", "const Both *pair"),
        ("", "float **pair"),
    ],
)
def test_no_launch_gives_pointers_in_structs(edgetune, source, types, parameter):
    text = f"{types}\n__global__ void pairs(float *x, {parameter}) {{ x[blockIdx.x] = 1; }}\n"
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "--quiet")
    assert ended.code == 5
    assert "pairs: no launch can give parameter pair of type" in ended.err
    assert "it holds pointers" in ended.err
    given = ("--launch", f"pairs grid=4 block=1 x=float32[4] pair={'uint64[1]' if '*' in parameter else 'uint64:0,0'}")
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "--quiet", *given)
    assert ended.code == 0


@needs_compiler
def test_a_kernel_that_cannot_be_built_is_not_tried_and_said_why(edgetune, source):
    text = "#include <cuda_fp8.h>\n" + NEEDING.split("\n", 1)[1]
    ended = edgetune("schedule", "kernels", "transform", source(text), "--check", "--quiet")
    assert ended.code == 5
    assert "1 of 1 elastic kernels not checked; scale: " in ended.err
    assert "cuda_fp8.h" in ended.err


@needs_compiler
def test_an_empty_table_is_not_printed(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(BAD), "--check", "--quiet")
    assert_two_lines(ended, 2)
    assert ended.out == ""


def test_a_missing_package_is_named(edgetune, source, monkeypatch):
    monkeypatch.setenv("PATH", "")
    ended = edgetune("schedule", "kernels", "transform", source(GOOD), "--check", "--quiet")
    assert_two_lines(ended, 4)
    assert "g++" in ended.lines[0]
    monkeypatch.setitem(sys.modules, "tree_sitter_cuda", None)
    syntax._parser.cache_clear()
    ended = edgetune("schedule", "kernels", "transform", source(GOOD))
    assert_two_lines(ended, 4)
    assert "edgetune[cuda]" in ended.lines[1]


def test_a_transformed_file_is_not_transformed_again(edgetune, source, tmp_path):
    out = str(tmp_path / "out.cu")
    assert edgetune("schedule", "kernels", "transform", source(GOOD), "-o", out, "--quiet").code == 0
    ended = edgetune("schedule", "kernels", "transform", out)
    assert_two_lines(ended, 2)
    assert "out.cu is transformed already" in ended.lines[0]


def test_a_kernel_that_is_left_as_it_is_is_not_called_elastic(edgetune, source):
    text = "__global__ void lock(int *m) {\n    while (atomicCAS(m, 0, 1));\n    m[1] = __syncthreads_count(1);\n}\n"
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + text))
    assert "lock: nor could its blocks be elastic: vote-barrier" in ended.err
    assert "the grid alone" not in ended.err


@pytest.mark.parametrize(
    ("answer", "reason", "hint"),
    [
        ("racy", "the original differs from itself", "a race: "),
        ("fails", "hang: it did not end", "an endless loop: "),
        ("fails", "crash: segmentation fault", "is the memory of the launch as large"),
        ("fails", "crash: k wrote past the 0 bytes of dynamic shared memory of its block", "say in the launch"),
    ],
)
def test_faults_of_an_original_are_named(answer, reason, hint):
    told = transform.unclear(Verdict("wrong", answer, 0, 2, reason), None)
    assert reason in told.message
    assert told.hint.startswith(hint)
    guessed = transform.unclear(Verdict("wrong", answer, 0, 2, reason), "wrong grid=4 block=64")
    assert guessed.hint.startswith("correct the guess")
    assert ("has a race of its own" in guessed.hint) is (answer == "racy")


@pytest.mark.parametrize(("table", "told"), [("__constant__ float table[8];", "unclear"), ("", "different")])
def test_a_difference_under_a_guess_is_only_told_where_no_constant_table_may_be_passed(table, told):
    text = f"{table}\n__global__ void k(float *x) {{ x[threadIdx.x] = {'table[threadIdx.x]' if table else '1'}; }}\n"
    done = source_transform(text, "k.cu")
    verdict = Verdict("k", "different", 1, 2, "x[9] is 1, not 2")
    tried = transform.CheckResult(verdicts=((verdict, "k grid=4 block=64"),))
    assert transform.check_row(done.kernels[0], tried)["answer"] == told
    with pytest.raises(
        PartialError, match="a guessed launch" if table else "other results than the original"
    ) as caught:
        transform.judge(transform.Transformed("k.cu", done, tried=(tried,)))
    assert "--launch 'k grid=4 block=64'" in caught.value.hint
    assert ("report the kernel" in caught.value.hint) is not bool(table)
