"""``edgetune roofline llm:config.json``: prefill and decode beneath the roof, tokens per second as bounds."""

import json

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read, write
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.roofline import KIND, VERSION, Roof, Roofline

SMALL = "layers: 3\nhidden: 64\nheads: 8\nkv_heads: 2\nvocab: 1000\nffn: 160\n"
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


def test_a_model_larger_than_a_known_memory_is_reported(edgetune, peaks, model):
    words = (model(LARGE), *peaks, "--no-measure", "--phase", "decode", "--context", "2048,131072")
    assert [each["fits"] for each in answered(edgetune, *words)["tokens"]] == [True, False]


def test_dim_is_one_point_and_a_model_of_few_positions_has_a_shorter_default(edgetune, peaks, model):
    one = answered(edgetune, model(SMALL), *peaks, "--no-measure", "--dim", "tokens=3", "--dim", "past=9")["tokens"]
    assert [(each["name"], each["tokens"]) for each in one] == [("extend 9", 3)]
    few = model(SMALL + "positions: 100\n", "few.yaml")
    assert [each["name"] for each in answered(edgetune, few, *peaks, "--no-measure")["tokens"]] == [
        "prefill 99", "decode 99"
    ]  # fmt: skip


def test_a_configuration_on_a_real_device_is_not_run_and_that_is_said_once(edgetune, model, tmp_path):
    path = tmp_path / "host.yaml"
    write(Roofline(Header.new(KIND, VERSION), "host", (Roof(Mode(), "fp32", 1e12, 1e11),), ()), path)
    ended = edgetune("roofline", model(SMALL), "--device", "host", "--peaks", str(path), "--context", "64,128")
    assert ended.code == 0
    assert ended.err.count("note:") == 1


def test_a_plan_of_one_pass_says_which(edgetune, model, tmp_path):
    plan = tmp_path / "plan.yaml"
    words = ("--device", TWIN, "--modes", "gpu_mhz=318|828|1300,mem_mhz=2133|3199", "--tune", "10%", "-o", str(plan))
    pick = ("--phase", "decode", "--context", "64", "--quick")
    ended = edgetune("roofline", model(SMALL), *words, *pick)
    assert ended.code == 0, ended.err
    assert read(Plan, str(plan)).header.inputs["workload"]["dimensions"] == {"tokens": 1, "past": 64}


BAD = {
    "a context that is none": ("{model}", "--context", "12,many"),
    "a phase of a network without": ("zoo:resnet18", "--phase", "decode"),
    "tuning of several points": ("{model}", "--tune", "5%"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_requests_are_refused(edgetune, peaks, model, case):
    words = [word.format(model=model(SMALL)) for word in BAD[case]]
    assert_two_lines(edgetune("roofline", *words, *peaks, "--no-measure"), 2)


def test_the_measured_answers_of_a_server_stand_beside_the_bounds(edgetune, peaks, model, tmp_path):
    table = tmp_path / "server.parquet"
    knobs = {name: getattr(ROOF.mode, name) for name in ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz")}
    rows = [
        ProfileRow(
            "m:p500:o64", "infer", streams, 9.0, **knobs, ttft_s=0.8, token_s=0.2, prompt_tokens=512.0,
            output_tokens=64.0, tokens_per_s=64 * streams / 9.0,
        )
        for streams in (1, 4)
    ]  # fmt: skip
    write(Profile(Header.new("profile", 2), tuple(rows)), table)
    asked = (model(LARGE), *peaks, "--profile", str(table))
    found = answered(edgetune, *asked, "--batch-sizes", "1,4")["tokens"]
    measured = [(each["name"], each["batch_size"], each["measured_tokens_per_s"]) for each in found]
    assert measured == [
        ("prefill 512", 1, pytest.approx(512 / 0.8)), ("decode 512", 1, pytest.approx(5.0)),
        ("prefill 512", 4, None), ("decode 512", 4, pytest.approx(20.0)),
    ]  # fmt: skip
    decode, beyond = (
        answered(edgetune, *asked, "--phase", "decode", "--context", context)["tokens"][0] for context in ("540", "600")
    )
    assert decode["measured_tokens_per_s"] == pytest.approx(5.0)
    assert beyond["measured_tokens_per_s"] is None
