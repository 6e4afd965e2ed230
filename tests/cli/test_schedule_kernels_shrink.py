"""``edgetune schedule kernels shrink``: what is written and told, and what is refused in two lines."""

import json
import sys

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.elastic_table import ElasticTable
from edgetune.stages.elastic.cuda.calibrate import LaunchCosts, write_costs
from edgetune.stages.elastic.pieces import PieceShape
from edgetune.stages.elastic.tables import tables_of
from edgetune.stages.elastic.work import Logical

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


def test_pieces_are_kept_drawn_and_shown(edgetune, tmp_path):
    ended = edgetune(*SHRINK, "blur.cu", *LAUNCH, "-o", "kept.parquet", "--figure", "kept.svg")
    assert ended.code == 0, ended.err
    assert ended.out == ""
    assert ended.lines[:2] == ["wrote kept.parquet", "wrote kept.svg"]
    table = io.read(ElasticTable, "kept.parquet")
    kept = tables_of(table)["blur", Logical((196, 1, 1), (512, 1, 1))]
    assert kept.choose(3, 1024) == PieceShape(49, 1, 13)  # 512 of Orin's 1536 threads are left
    assert kept.choose(3, 1472) == PieceShape(49, 8, 13)
    assert kept.choose(3, 1473) is None
    assert table.header.conditions["arch"] == "sm_87"
    assert table.header.conditions["original"]["static_shared_bytes"] == 512 * 4
    figure = (tmp_path / "kept.svg").read_text(encoding="utf-8")
    assert "blur" in figure
    shown = edgetune("show", "kept.parquet", "--rows", "3")
    assert shown.code == 0
    again = edgetune("show", "kept.parquet", "--plot", "again.svg")
    assert again.code == 0, again.err
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == figure


def test_machines_get_everything(edgetune, tmp_path):
    ended = edgetune(*SHRINK, "both.cu", "-k", "scale", *LAUNCH, "--gpu", "rtx-2060", "--json", "--quiet")
    assert (ended.code, ended.err) == (0, "")
    told = json.loads(ended.out)
    assert (told["file"], told["kernel"], told["gpu"], told["designs"]) == ("kept.parquet", "scale", "rtx-2060", 12)
    assert told["forms"][0]["verdict"] == "original"
    assert told["forms"][0]["symbol"] == "_Z5scalePffi"
    assert {row["status"] for row in told["rows"]} <= {"kept", "dropped"}
    assert io.read(ElasticTable, "kept.parquet").header.conditions["arch"] == "sm_75"


def test_measured_costs_say_how_many_launches_are_too_many(edgetune, tmp_path):
    shards = {1: 10e-6, 2: 12e-6, 8: 24e-6}
    facts = ("RTX", "GPU-1", "8.7", 16, "13.0", "2026-01-02", "0.1.0", 1e-6, 1e-6, 1e-6, 9e-6, 5e-5, 1e-6)
    write_costs(LaunchCosts(*facts, shards, {1: 10e-6, 65: 16.4e-6}), tmp_path / "costs.yaml")
    ended = edgetune(*SHRINK, "blur.cu", "--grid", "64", "--block", "64", "--costs", "costs.yaml", "-o", "kept.parquet")
    assert ended.code == 0, ended.err
    table = io.read(ElasticTable, "kept.parquet")
    rules = table.header.conditions["rules"]
    assert rules["launch_s"] == pytest.approx((24e-6 - 10e-6) / 7)
    assert (rules["turn_s"], rules["most_turns_s"]) == pytest.approx((100e-9, 6.5e-6))
    assert {row.count for row in table.rows if row.reason == "too many launches"} == {1, 2, 4}  # 8 pieces at most


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
        (("blur.cu", *LAUNCH, "--wiscore", "other"), 2),
        (("blur.cu", *LAUNCH, "--keep", "0%"), 2),
        (("blur.cu", *LAUNCH, "--figure", "kept.txt"), 2),
        (("blur.cu", *LAUNCH, "--shared", "64MiB"), 2),
        (("blur.cu", *LAUNCH, "--shared", "162KiB"), 3),
        (("blur.cu", *LAUNCH, "--launch-time", "1ms", "--most-overhead", "0.5ms"), 3),
        (("blur.cu", *LAUNCH, "--turn-time", "1ms", "--most-turns", "12ms"), 3),
        (("blur.cu", *LAUNCH, "--most-turns", "12ms"), 2),
        (("broken.cu", *LAUNCH), 2),
        (("sync.cu", *LAUNCH), 2),
    ],
)
def test_kernels_that_cannot_be_shrunk_are_refused_in_two_lines(edgetune, tmp_path, words, code):
    (tmp_path / "broken.cu").write_text('\n\nextern "C" __global__ void k(float *a)\n{ a[threadIdx.x] = nobody; }\n')
    (tmp_path / "sync.cu").write_text(
        "#include <cooperative_groups.h>\n__global__ void both(int *a)\n{\n"
        "    cooperative_groups::this_grid().sync();\n    *a = 1;\n}\n"
    )
    ended = edgetune(*SHRINK, *words, "-o", "kept.parquet")
    assert_two_lines(ended, code)
    assert not (tmp_path / "kept.parquet").exists()


def test_a_whole_program_is_compiled_without_what_launches_its_kernels(edgetune, tmp_path):
    main = "int main() { float *x; cudaMalloc(&x, 4096); scale<<<8, 128>>>(x, 2.0f, 1024); return 0; }\n"
    (tmp_path / "program.cu").write_text("#include <vector>\n#include <cublas_v2.h>\n" + SCALE + main)
    ended = edgetune(*SHRINK, "program.cu", *LAUNCH, "-o", "kept.parquet")
    assert ended.code == 0, ended.err


def test_without_nvrtc_it_says_what_to_install(edgetune, monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    ended = edgetune(*SHRINK, "blur.cu", *LAUNCH, "-o", "kept.parquet")
    assert_two_lines(ended, 4)
