"""``edgetune profile --batch-sizes max`` on real networks, and where it cannot be."""

from dataclasses import replace

import onnx
import onnx.parser
import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io


def test_largest_batch_within_a_budget_is_measured(edgetune, tmp_path):
    """The network takes much memory and little time: a sample and its answer are 1 MiB each."""
    table, network = tmp_path / "p.parquet", tmp_path / "wide.onnx"
    graph = onnx.parser.parse_graph("wide (float[n,262144] x) => (float[n,262144] y) { y = Relu(x) }")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), network)
    ended = edgetune(
        "profile", str(network), "--device", "host", "--batch-sizes", "4,max", "--memory-budget", "300MiB",
        "--minibatches", "5", "-o", str(table),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    small, large = io.read_profile(str(table)).rows
    assert small.batch_size == 4 < large.batch_size
    assert small.memory_peak_bytes < large.memory_peak_bytes < 1.1 * (300 << 20)


@pytest.mark.parametrize(
    "options",
    [
        ("--device", "twin:orin-agx", "--batch-sizes", "max"),
        ("--device", "host", "--batch-sizes", "max", "--memory-budget", "1MiB"),
    ],
)
def test_what_cannot_be_asked_is_refused(edgetune, tmp_path, options):
    ended = edgetune("profile", "zoo:squeezenet", *options, "-o", str(tmp_path / "p.parquet"))
    assert_two_lines(replace(ended, err="\n".join(ended.lines[-2:])), 2)
