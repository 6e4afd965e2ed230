"""``edgetune roofline ops``, networks whose sizes inputs decide, and language models beneath the roof."""

import json
import os
import sys

import numpy as np
import onnx
import pytest
from command_line import assert_two_lines
from onnx import parser

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read, write
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.roofline import KIND, VERSION, Roof, Roofline
from edgetune.cli.main import run

RESNET = ("roofline", "ops", "zoo:resnet18")


def test_the_ledger_comes_first_then_totals_then_operators(edgetune):
    ended = edgetune(*RESNET)
    assert (ended.code, ended.err) == (0, "")
    places = [
        ended.out.index(word) for word in ("ledger", "zero by definition", "totals", "intensity", "FLOP/byte\nConv")
    ]
    assert places == sorted(places)
    assert "1.814 GMAC" in ended.out  # the published 1.814 GMAC of ResNet-18
    assert "11.69 M" in ended.out


def test_the_file_holds_every_operator_and_shows_well(edgetune, tmp_path):
    target = tmp_path / "ops.parquet"
    ended = edgetune(*RESNET, "--batch-size", "16", "-o", str(target))
    assert ended.err == f"wrote {target}\n"
    table = io.read(OpsTable, str(target))
    assert (table.workload, table.task, table.batch_size, len(table.rows)) == ("resnet18", "infer", 16, 69)
    shown = edgetune("show", str(target))
    assert shown.code == 0
    assert ended.out in shown.out
    assert edgetune(*RESNET, "-o", str(target), "--quiet").err == ""


def test_a_dash_is_the_file_itself(capfdbinary):
    assert run((*RESNET, "-o", "-")) == 0
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    assert io.from_bytes(out, kind="ops", name="pipe").workload == "resnet18"
    assert err == b""


BAD = {
    "an unknown task": (*RESNET, "--task", "learn"),
    "a batch of none": (*RESNET, "--batch-size", "0"),
    "a folder that is not there": (*RESNET, "-o", "/nowhere/ops.parquet"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_bad_requests_are_two_lines_and_2(edgetune, words):
    assert_two_lines(edgetune(*words), 2)


# Inputs from a file

COUNTED = """<ir_version: 8, opset_import: ["" : 17]> net (float[1,8] x, int64[1] count) => (float[n,8] y)
<int64[1] axes = {1}> { c = ConstantOfShape(count) d = Unsqueeze(c, axes) y = Add(d, x) }"""


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A network with an input that says how much is computed, and a file that says 5."""
    monkeypatch.chdir(tmp_path)
    onnx.save(parser.parse_model(COUNTED), "counted.onnx")
    np.savez("five.npz", x=np.zeros((1, 8), np.float32), count=np.array([5]))


def test_operators_are_costed_at_the_sizes_of_given_inputs(edgetune, counted):
    answer = json.loads(edgetune("roofline", "ops", "counted.onnx", "--json", "--inputs", "five.npz").out)
    assert answer["totals"]["flops"] == 5 * 8


def test_a_roofline_places_a_network_of_given_inputs(edgetune, counted):
    words = ("roofline", "counted.onnx", "--device", "twin:orin-agx", "--json", "--inputs", "five.npz")
    (placement,) = json.loads(edgetune(*words).out)["placements"]
    assert placement["flops"] == 5 * 8


def test_modes_come_from_a_pipe_which_is_read_once(edgetune):
    reading, writing = os.pipe()
    os.write(writing, b"gpu_mhz,cpu_mhz,cpu_cores,mem_mhz\n1300.5,2201.6,12,3199\n")
    os.close(writing)
    try:
        modes = ("--modes", f"/dev/fd/{reading}")
        ended = edgetune("roofline", "zoo:squeezenet", "--device", "twin:orin-agx", "--quick", *modes)
    finally:
        os.close(reading)
    assert ended.code == 0, ended.err


# Phases of a language model's configuration, and the fused view

SMALL = "layers: 3\nhidden: 64\nheads: 8\nkv_heads: 2\nvocab: 1000\nffn: 160\n"


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return f"llm:{path}"


def test_each_phase_is_an_operating_point_with_its_own_intensity(edgetune, small):
    found = {}
    for phase in ("prefill", "decode"):
        ended = edgetune(
            "roofline", "ops", small, "--phase", phase, "--context", "512", "--batch-size", "4", "--precision", "fp16",
            "--json",
        )  # fmt: skip
        assert ended.code == 0
        found[phase] = json.loads(ended.out)
    assert found["prefill"]["conditions"]["tokens"] == 4 * 512
    assert found["decode"]["conditions"]["tokens"] == 4
    intensity = {phase: answer["totals"]["intensity_flop_per_byte"] for phase, answer in found.items()}
    assert intensity["prefill"] > 5 * intensity["decode"]


PHASES_BAD = {
    "no phase": ("{small}",),
    "a phase and a dimension": ("{small}", "--phase", "decode", "--dim", "past=3"),
    "a context of a network without": ("zoo:resnet18", "--context", "9"),
    "no file": ("llm:nowhere.yaml", "--phase", "decode"),
}


@pytest.mark.parametrize("case", PHASES_BAD)
def test_invalid_requests_are_refused(edgetune, small, case):
    assert_two_lines(edgetune("roofline", "ops", *(word.format(small=small) for word in PHASES_BAD[case])), 2)


# Prefill and decode beneath the roof, tokens per second as bounds

LARGE = "layers: 32\nhidden: 4096\nheads: 32\nkv_heads: 32\nvocab: 32000\nffn: 11008\n"
TWIN = "twin:orin-agx"
ROOF = Roof(Mode(12, 2201.6, 1300.5, 3199.0), "fp16", 33e12, 164e9, 18.0, 1.9e-12, 140e-12)


@pytest.fixture
def peaks(tmp_path):
    """Roofs of the twin in fp16 and tf32."""
    path = tmp_path / "peaks.yaml"
    header = Header.new(KIND, VERSION, conditions={"simulated": True})
    tf32 = Roof(ROOF.mode, "tf32", 15e12, 164e9, 18.0, 3.8e-12, 140e-12)
    write(Roofline(header, TWIN, (ROOF, tf32), ()), path)
    return ("--device", TWIN, "--peaks", str(path), "--precision", "fp16")


@pytest.fixture
def model(tmp_path):
    """A configuration, written where it is asked for."""

    def written(text, name="lm.yaml"):
        (tmp_path / name).write_text(text)
        return f"llm:{tmp_path / name}"

    return written


def answered(edgetune, *words):
    ended = edgetune("roofline", *words, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_both_phases_are_placed_with_their_own_intensity_and_bounds(edgetune, peaks, model):
    found = answered(edgetune, model(LARGE), *peaks, "--no-measure")
    prefill, decode = found["tokens"]
    assert (prefill["name"], decode["name"]) == ("prefill 2048", "decode 2048")
    assert [each["bound"] for each in found["placements"]] == ["compute", "memory"]
    cache = 2049 * 2 * 32 * 4096 * 2
    assert decode["cache_bytes"] == cache
    assert decode["tokens_per_s"] == pytest.approx(164e9 / (2 * 6738415616 - 2 * 32000 * 4096 + cache), rel=0.005)
    assert decode["token_j"] == pytest.approx(found["placements"][1]["layers_j"])
    assert decode["first_token_s"] is None
    assert prefill["first_token_s"] == pytest.approx(2048 / prefill["tokens_per_s"])
    assert decode["measured_tokens_per_s"] is None
    assert decode["fits"] is True


def test_contexts_batch_sizes_and_a_phase_are_points(edgetune, peaks, model):
    words = ("--phase", "decode", "--context", "512, 64,512", "--batch-sizes", "1,4", "--no-measure")
    found = answered(edgetune, model(SMALL), *peaks, *words)["tokens"]
    assert [(each["name"], each["batch_size"]) for each in found] == [
        ("decode 512", 1), ("decode 64", 1), ("decode 512", 4), ("decode 64", 4)
    ]  # fmt: skip
    assert found[0]["tokens_per_s"] < found[1]["tokens_per_s"]
    assert found[0]["tokens_per_s"] < found[2]["tokens_per_s"] < 4 * found[0]["tokens_per_s"]


def test_a_simulated_pass_is_measured_at_its_own_lengths(edgetune, peaks, model):
    words = (model(LARGE), *peaks, "--context", "64,4096", "--phase", "prefill")
    ended = edgetune("roofline", *words)
    assert "SIMULATED" in ended.err
    short, long = answered(edgetune, *words)["placements"]
    assert long["measured_s"] > 8 * short["measured_s"]


def test_a_plan_of_one_pass_says_which(edgetune, model, tmp_path):
    plan = tmp_path / "plan.yaml"
    words = ("--device", TWIN, "--modes", "gpu_mhz=318|828|1300,mem_mhz=2133|3199", "--tune", "10%", "-o", str(plan))
    pick = ("--phase", "decode", "--context", "64", "--quick")
    ended = edgetune("roofline", model(SMALL), *words, *pick)
    assert ended.code == 0, ended.err
    assert read(Plan, str(plan)).header.inputs["workload"]["dimensions"] == {"tokens": 1, "past": 64}


def test_a_profile_of_a_server_has_no_times_of_the_phases(edgetune, peaks, model, tmp_path):
    """The bounds are answered all the same, of both phases."""
    table = tmp_path / "server.csv"
    table.write_text(
        "workload,task,batch_size,minibatch_s,gpu_mhz,ttft_s,token_s,prompt_tokens,output_tokens,tokens_per_s\n"
        "m:p512:o64,infer,1,9,1300.5,0.8,0.2,512,64,7.1\n"
    )
    found = answered(edgetune, model(SMALL), *peaks, "--profile", str(table))["tokens"]
    assert [(each["name"], each["measured_tokens_per_s"]) for each in found] == [
        ("prefill 2048", None), ("decode 2048", None)
    ]  # fmt: skip
