"""Inputs of a network whose shapes depend on the data: ``roofline`` and ``roofline ops`` take them from a file."""

import json
import os

import numpy as np
import onnx
import pytest
from onnx import parser

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
