"""A network and a training file that take no time worth mentioning, for commands that run for real."""

from pathlib import Path

import onnx
from onnx import TensorProto, helper

TRAINING = """
import time
steps = []

def make(batch_size):
    def step():
        time.sleep(0.004)
        steps.append(batch_size)
        return 1.0 / len(steps)
    step.save = lambda path: open(path, "w").write(str(len(steps)))
    return step
"""


def small_network(folder: Path) -> Path:
    """Write small.onnx, two products of a vector with a matrix, and train.py; return the folder."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.01] * 64 * 64)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 64]) for name in "xy")
    graph = helper.make_graph(nodes, "small", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, folder / "small.onnx")
    (folder / "train.py").write_text(TRAINING)
    return folder
