"""Models and training files that cannot be used: two lines, the documented code, nothing left behind."""

import onnx
import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper


def save(path, *, op="Relu", domain="", shape=("batch", 4), weights=()):
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    node = helper.make_node(op, ["x", *(weight.name for weight in weights)], ["y"], domain=domain)
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    graph = helper.make_graph([node], "net", inputs, outputs, initializer=list(weights))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def outside(location: str) -> onnx.TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=location)
    return tensor


MODELS = {
    "weights outside the folder": {"op": "Add", "weights": [outside("../../etc/passwd")]},
    "weights at an absolute path": {"op": "Add", "weights": [outside("/etc/passwd")]},
    "a missing weights file": {"op": "Add", "weights": [outside("weights.bin")]},
    "a dimension nobody fixed": {"shape": ("batch", "length")},
}


@pytest.mark.parametrize("device", ["host"])
@pytest.mark.parametrize("made", MODELS.values(), ids=MODELS)
def test_a_bad_onnx_file_is_two_lines(edgetune, tmp_path, made, device):
    model = save(tmp_path / "net.onnx", **made)
    target = tmp_path / "p.parquet"
    words = ("profile", str(model), "--task", "infer", "--device", device, "-o", str(target), "--quiet")
    ended = edgetune(*words)
    assert_two_lines(ended, 2)
    assert [file.name for file in tmp_path.iterdir()] == ["net.onnx"]
    assert_two_lines(edgetune(*words, "--dry-run"), 2)


def half_known(path):
    nodes = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Frob", ["z"], ["y"], domain="elsewhere")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("batch", 4)) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("elsewhere", 1)]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:])
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return str(path)


def test_an_unknown_operator_on_the_twin_is_a_warning_in_the_table_and_in_the_plan(edgetune, tmp_path):
    model, table = half_known(tmp_path / "net.onnx"), tmp_path / "p.parquet"
    live = (model, "--task", "infer", "--device", "twin:orin-agx")
    ended = edgetune("profile", *live, "-o", str(table))
    assert ended.code == 0
    assert "unmodelled-operators" in ended.err
    plan = edgetune("search", *live, "--batch-sizes", "1", "--objective", "throughput").out
    assert "unmodelled-operators" in plan


def test_a_live_search_in_which_nothing_works_is_bad_input_with_its_own_hint(edgetune, tmp_path):
    path = tmp_path / "train.py"
    path.write_text("def make(batch_size):\n    raise ValueError('no data')\n")
    words = ("search", str(path), "--task", "train", "--device", "host", "--batch-sizes", "1,2")
    ended = edgetune(*words, "--objective", "throughput", "--strategy", "exhaustive")
    assert_two_lines(ended, 2)
