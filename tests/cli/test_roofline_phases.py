"""``edgetune roofline ops`` on a language model's configuration, and its fused view."""

import json

import pytest
from command_line import assert_two_lines

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


def test_the_fused_view_says_what_it_saves(edgetune):
    one, fused = (
        json.loads(edgetune("roofline", "ops", "zoo:resnet18", "--json", *more).out) for more in ((), ("--fused",))
    )
    assert fused["totals"]["macs"] == one["totals"]["macs"]
    assert fused["totals"]["bytes_moved"] < one["totals"]["bytes_moved"]
    assert fused["conditions"]["unfused"]["bytes_moved"] == one["totals"]["bytes_moved"]


BAD = {
    "no phase": ("{small}",),
    "a phase and a dimension": ("{small}", "--phase", "decode", "--dim", "past=3"),
    "a context of a network without": ("zoo:resnet18", "--context", "9"),
    "no file": ("llm:nowhere.yaml", "--phase", "decode"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_requests_are_refused(edgetune, small, case):
    assert_two_lines(edgetune("roofline", "ops", *(word.format(small=small) for word in BAD[case])), 2)
