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
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def write(text: str) -> str:
        file = tmp_path / "k.cu"
        file.write_text(text)
        return str(file)

    return write


def test_a_file_is_written_and_the_rest_is_reported(edgetune, source, tmp_path):
    out = tmp_path / "out.ptx"
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "-o", str(out), "--explain")
    assert ended.code == 0
    assert "scale__grid(" in out.read_text(encoding="utf-8")


def test_persistent_forms_are_made_and_checked_on_request(edgetune, source, tmp_path):
    out = tmp_path / "out.ptx"
    words = ("--persistent", "--check", "--explain", "-o", str(out))
    ended = edgetune("schedule", "kernels", "transform", source(GOOD), *words)
    assert ended.code == 0, ended.err
    assert "scale__persistent(" in out.read_text(encoding="utf-8")
    assert "  persistent: scale__persistent" in ended.out
    assert "equal" in ended.out


def test_bad_arguments(edgetune, source, tmp_path):
    file = source(GOOD)
    assert_two_lines(edgetune("schedule", "kernels", "transform", str(tmp_path / "none.cu")), 2)
    assert_two_lines(edgetune("schedule", "kernels", "transform", file, "-o", file), 2)
    assert_two_lines(edgetune("schedule", "kernels", "transform", file, "--include", str(tmp_path / "none")), 2)
    ended = edgetune("schedule", "kernels", "transform", file, "--launch", "scales grid=1 block=1")
    assert_two_lines(ended, 2)
    assert_two_lines(edgetune("schedule", "kernels", "transform", file, "--launch", "scale grid=x block=1"), 2)
    for words in ("", "scale", "scale block=32"):
        ended = edgetune("schedule", "kernels", "transform", file, "--launch", words)
        assert_two_lines(ended, 2)


def test_answers_for_machines(edgetune, source):
    ended = edgetune("schedule", "kernels", "transform", source(GOOD + BAD), "--json")
    told = json.loads(ended.out)
    assert [each["name"] for each in told["kernels"]] == ["scale", "lock"]
    assert told["kernels"][0]["variants"][0] == {"symbol": "scale__grid", "level": "grid", "per_thread": 1}
    assert told["kernels"][1]["refusals"][0]["code"] == "spin-wait"
    assert {each["level"] for each in told["kernels"][0]["variants"]} == {"grid", "block"}
