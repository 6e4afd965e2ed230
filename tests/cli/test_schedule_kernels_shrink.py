"""``edgetune schedule kernels shrink``: what is printed, and what is refused in two lines."""

import json
import sys

import pytest
from command_line import assert_two_lines

from edgetune.stages.elastic.cuda.calibrate import LaunchCosts, write_costs

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
SCALE = """
__global__ void scale(float *data, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        data[i] *= by;
    }
}
"""
SHRINK = ("schedule", "kernels", "shrink")
LAUNCH = ("--grid", "196", "--block", "512")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blur.cu").write_text(KERNELS)
    (tmp_path / "both.cu").write_text(KERNELS + SCALE)


def test_forms_and_pieces_are_printed(edgetune, tmp_path):
    ended = edgetune(*SHRINK, "blur.cu", *LAUNCH)
    assert ended.code == 0, ended.err
    assert "blur__block8" in ended.out
    assert "blur, 196x1x1 blocks of 512x1x1 threads" in ended.out
    assert "of the space pruned" in ended.err
    assert not list(tmp_path.glob("*.parquet"))


def test_machines_get_everything(edgetune, tmp_path):
    ended = edgetune(*SHRINK, "both.cu", "-k", "scale", *LAUNCH, "--gpu", "rtx-2060", "--json", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert (told["kernel"], told["gpu"], told["arch"], told["designs"]) == ("scale", "rtx-2060", "sm_75", 12)
    assert [(each["form"], each["verdict"]) for each in told["forms"][:2]] == [
        ("scale", "original"), ("scale__grid", "kept"),
    ]  # fmt: skip
    assert {row["status"] for row in told["rows"]} <= {"kept", "dropped"}
    best = [row for row in told["rows"] if row.get("rank") == 0 and row["critical_blocks"] == 3]
    assert all(row["blocks"] <= 30 - 3 and row["symbol"].startswith("scale__") for row in best)


def test_forms_of_ptx_are_read_too(edgetune, tmp_path):
    assert edgetune("schedule", "kernels", "transform", "blur.cu", "-o", "blur.ptx").code == 0
    text = (tmp_path / "blur.ptx").read_text().partition(".entry blur__grid")[0].rpartition(".visible")[0]
    (tmp_path / "plain.ptx").write_text(text.partition("*/ ")[2])
    ended = edgetune(*SHRINK, "plain.ptx", *LAUNCH, "--json")
    assert ended.code == 0, ended.err
    assert len(json.loads(ended.out)["forms"]) == 5


def test_measured_costs_say_how_many_launches_are_too_many(edgetune, tmp_path):
    shards = {1: 10e-6, 2: 12e-6, 8: 24e-6}
    facts = ("RTX", "GPU-1", "8.7", 16, "13.0", "2026-01-02", "0.1.0", 5e-5)
    write_costs(LaunchCosts(*facts, shards, {1: 10e-6, 65: 16.4e-6}), tmp_path / "costs.yaml")
    ended = edgetune(*SHRINK, "blur.cu", "--grid", "64", "--block", "64", "--costs", "costs.yaml", "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told["rules"]["launch_s"] == pytest.approx((24e-6 - 10e-6) / 7)
    assert (told["rules"]["turn_s"], told["rules"]["most_turns_s"]) == pytest.approx((100e-9, 6.5e-6))
    few = {row["count"] for row in told["rows"] if row.get("reason") == "too many launches"}
    assert few == {1, 2, 4}  # 8 pieces at most


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("none.cu", *LAUNCH), 2),
        (("both.cu", *LAUNCH), 2),
        (("blur.cu", "-k", "blurr", *LAUNCH), 2),
        (("blur.cu", "--grid", "0", "--block", "64"), 2),
        (("blur.cu", "--grid", "9", "--block", "1,2,3,4"), 2),
        (("blur.cu", "--grid", "9", "--block", "1025"), 2),
        (("blur.cu", *LAUNCH, "--gpu", "orin"), 2),
        (("blur.cu", *LAUNCH, "--arch", "sm_20"), 2),
        (("blur.cu", *LAUNCH, "-D", "N=1"), 2),
        (("blur.cu", *LAUNCH, "--shared", "64MiB"), 2),
        (("blur.cu", *LAUNCH, "--shared", "162KiB"), 3),
        (("broken.cu", *LAUNCH), 2),
        (("sync.cu", *LAUNCH), 2),
    ],
)
def test_kernels_that_cannot_be_shrunk_are_refused_in_two_lines(edgetune, tmp_path, words, code):
    (tmp_path / "broken.cu").write_text('\n\nextern "C" __global__ void k(float *a)\n{ a[threadIdx.x] = nobody; }\n')
    (tmp_path / "sync.cu").write_text("__global__ void both(int *a)\n{\n    while (atomicCAS(a, 0, 1));\n}\n")
    assert_two_lines(edgetune(*SHRINK, *words), code)


def test_without_nvrtc_it_says_what_to_install(edgetune, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    ended = edgetune(*SHRINK, "blur.cu", *LAUNCH)
    assert_two_lines(ended, 4)
